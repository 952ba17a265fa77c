"""Secrets in what single programs print or read, each told by words that hardly anything else has.

Rows are as in `assignments`. They come from a set of outputs that was written from memory of the programs
(`tests/data/outputs`). An anchor of its own costs each text half a nanosecond a character, so a rule begins with one
that other rules have, where it can, and looks behind.
"""

from __future__ import annotations

from typing import Final

from tellback.redaction.values import AT_END, GIVEN, AnchoredRule

_LINE: Final = r"[ \t]{0,4}+\r?\n[ \t]{0,20}+"
_NOT_HERE: Final = r"(?!\$|<|\{|\*)"
RULES: Final = (
    # Stores of secrets, clouds, clusters.
    AnchoredRule("secret-assignment", "securestring", rf"\",[ \t\r\n]{{0,40}}+\"value\":[ ]?\"[^\"\n]{{4}}{AT_END}"),
    AnchoredRule(
        "azure-key",
        "key",
        r"(?:(?<=primarykey)|(?<=secondarykey))\\?\"[ ]?:[ ]?\\?\"[0-9a-z+/]{43,86}={1,2}",
        r"(?=\\?\"[ ]?:[ ]?\\?\"[0-9a-z+/]{43})",
    ),
    AnchoredRule("secret-assignment", "sess", r"ion=(?<=bw_session=)[\"']?[\w+/=-]{40}"),
    AnchoredRule(
        "secret-assignment",
        "pass",
        r"word\"(?<=\"random_password\")[^}]{0,400}?\n[ ]{2,8}result[ ]{1,12}=[ ]\"[^\"\n]{4}" + AT_END,
    ),
    AnchoredRule(
        "secret-assignment",
        "name",
        rf">(?<=<name>)(?=[\w.-]{{0,80}}?(?:passw|secret|token|credential|api[._-]?key))[\w.-]{{1,100}}+</name>"
        rf"[ \t\r\n]{{0,40}}+<value>{_NOT_HERE}[^<\n]{{6}}{AT_END}",
    ),
    # Databases and brokers.
    AnchoredRule("password", "identified ", r"with[ ]\w{1,40}[ ](?:by|as)[ ]'(?!\$|<|\*)[^'\s]{4}"),
    AnchoredRule("password", "pass", rf"\"(?<=requirepass\"){_LINE}2\)[ ]\"[^\"\n]{{4}}{AT_END}"),
    AnchoredRule("password", "auth", r"\"[ ]\"(?<=\"auth\"[ ]\")(?:[^\"\n]{1,64}\"[ ]\")?[^\"\n]{4}"),
    AnchoredRule("password", "mysql", r":(?<=construct\('mysql:)[^'\n]{1,120}',[ ]'[^'\n]{1,64}',[ ]'[^'$\n]{3}"),
    AnchoredRule(
        "password",
        "mysql",
        r"i(?:_connect)?\([\"'][^\"'\n]{1,80}[\"'],[ ]?[\"'][^\"'\n]{1,64}[\"'],[ ]?[\"'][^\"'$\n]{3}",
    ),
    AnchoredRule("password", "cookie", rf"[ ](?<=-setcookie[ ]){GIVEN}"),
    # Mail, networks.
    AnchoredRule("password", "login", rf"[ ](?<=[ ]login[ ])[^\s@]{{1,64}}@[^\s@]{{1,80}}[ ]{GIVEN}$"),
    AnchoredRule("password", "key", r"[ ]content[ ]{1,20}:[ ]\S{6}", "(?=[ ]content[ ])"),
    AnchoredRule("password", "psk", r"[ ]\"[^\"\n<$]{6}"),
    # Applications and what tests type into them.
    AnchoredRule("password", "cred", rf"entials are:?[ ][^\s/]{{1,64}}[ ]/[ ][\"']?{_NOT_HERE}[^\s\"']{{6}}"),
    AnchoredRule("password", "pass", rf"wd:(?<=chpasswd:){_LINE}list:[ ]\|{_LINE}[\w.-]{{1,32}}:[^\s$]{{4}}{AT_END}"),
    AnchoredRule(
        "password",
        "pass",
        r"word[\"'][\])]{1,2}[^\n]{0,20}?\.(?:type|fill|send_?keys|set_?text|set_?value)\([\"']"
        rf"{_NOT_HERE}[^\"'\s]{{4}}",
        r"(?=word[\"'])",
    ),
)
# Searched only near a long value with a digit, which all of these have.
NEAR_VALUES: Final = (
    AnchoredRule("secret-assignment", "microk8s join ", r"[\w.:\[\]-]{1,60}/[0-9a-f]{32}"),
    AnchoredRule(
        "secret-assignment", "mc alias set ", r"[\w.-]{1,40}[ ]https?://\S{1,100}[ ](?!\$)\S{3,64}[ ](?!\$)\S{4}"
    ),
    AnchoredRule(
        "secret-assignment",
        '"label": "',
        rf"(?:password|credential|api key)\",[ \t\r\n]{{0,40}}+\"value\":[ ]\"[^\"\n]{{4}}{AT_END}",
    ),
    AnchoredRule("password", "scram-sha-256$", r"[0-9]{3,7}:[0-9a-z+/]{16}"),
    AnchoredRule("password", "{ssha", r"(?:256|384|512)?\}[0-9a-z+/=]{24}"),
    AnchoredRule("password", "]:587 ", r"[^\s:@]{1,64}@[^\s:]{1,80}:(?!\$)\S{6}"),
    AnchoredRule("secret-assignment", "hmac-", r"(?:sha[0-9]{1,3}|md5):[\w.-]{1,80}:[0-9a-z+/]{16}"),
    AnchoredRule("secret-assignment", "define(", r"[ ]?[\"'][a-z_]{1,30}_(?:key|salt)[\"'],[ ]{1,20}[\"'][^'\n]{32}"),
    AnchoredRule("password", "rclone ", rf"[^\n]{{0,160}}?[ ]pass[ ]{GIVEN}"),
)
