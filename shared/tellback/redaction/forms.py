"""Secrets that the line they stand in gives away: pairs of a name and a value, command lines, files of settings.

As in `assignments`, the patterns run over text in small letters and every repeat is bounded.
"""

from __future__ import annotations

from typing import Final

from tellback.redaction.assignments import DOUBT, NO_VALUE, PATH, long_value

AT_END: Final = "\1"  # in a pattern: what is hidden is the line in which the match ends
_MIXED: Final = r"(?=[^\s\"'0-9]{0,60}+[0-9])(?=[^\s\"'a-z]{0,60}+[a-z])"
_NAMES: Final = (
    r"(?:passw|passphrase|pwd|secret|token|cred|api[_-]?key"
    r"|access[_-]?key|private[_-]?key|[_-]key|accountkey|authkey|writekey|[_-]dsn|[_-]pat\b)"
)
_NO_VALUE_OF: Final = (
    r"(?<!name)(?<!path)(?<!file)(?<!url)(?<!type)(?<!expiry)(?<!length)(?<!limit)(?<!count)(?<!header)"
)

_BETWEEN: Final = r"(?:[ \t]?[:=][ \t]{0,3}+|[ \t]{1,3}+)"

# A name, then its value under a word of its own, in the same line or the next: environments of Kubernetes and of task
# definitions, variables of Terraform, settings in XML, secrets that are set on a command line.
PAIR_HAS: Final = ("value", "default", "--body")
PAIRS: Final = (
    (
        "secret-assignment",
        (
            rf"(?:name|key|variable|secret[ \t]set)[\\\"']{{0,2}}+{_BETWEEN}[\\\"']{{0,2}}+"
            rf"(?=[\w.-]{{0,60}}?{_NAMES})[\w.-]{{1,80}}+{_NO_VALUE_OF}[\\\"']{{0,2}}+[ \t]{{0,4}}+[,{{]?[ \t]{{0,4}}+"
            rf"\r?\n?[ \t]{{0,60}}+[\\\"']{{0,2}}+(?:value|default|--body)[\\\"']{{0,2}}+{_BETWEEN}"
            rf"[\\\"']{{0,2}}+{NO_VALUE}{PATH}(?![0-9.]{{1,20}}+\b)[^\s\"'<>{{}}]{{4}}{AT_END}"
        ),
    ),
)
# `key` and `pat` alone: only before a long value that changes as random ones do, and that is no hash.
BARE_NEED: Final = ("key=", "key:", "key =", 'key"', "key'", "key\\", "pat=", "pat:", "pat =", 'pat"')
_HASH: Final = r"(?!(?:sha\d{1,3}[:-])?[0-9a-f-]{32,128}+(?![\w+/])|[\w.-]{0,200}?-[0-9a-f]{32,128}+(?![\w+/]))"
# Keys under which things are found.
_INDEX: Final = (
    *(
        "public",
        "cache",
        "restore",
        "partition",
        "primary",
        "foreign",
        "sort",
        "object",
        "group",
        "index",
        "idempotency",
    ),
)
_ALONE: Final = rf"(?:key|pat)(?<![a-z.]...){''.join(f'(?<!{name}[_-]key)' for name in _INDEX)}"
_A_DIGIT: Final = r"(?=[a-z+/.~=%:_-]{0,60}+[0-9])"
BARE: Final = (
    (
        "secret-assignment",
        rf"{_ALONE}[\\\"']{{0,2}}+[ \t]?[=:][ \t]?[\\\"']{{0,2}}+{PATH}{_HASH}{_A_DIGIT}{DOUBT}{long_value(20)}",
    ),
    ("secret-assignment", rf"{_ALONE}=(?:(?<=[?&]key=)|(?<=pat=)|(?<![\w-]key=))[0-9a-f]{{32}}(?![0-9a-f])"),
)
_MIXED_WELL: Final = r"(?=\S{0,60}?[0-9]\S{0,60}?[0-9])"
# The same behind small letters, which text in small letters alone cannot tell from `monkey`: `cosmosKey`.
CAMEL_HAVE: Final = ("Key", "Pat")
CAMEL: Final = tuple(
    (
        "secret-assignment",
        (
            rf"{word}(?<=[a-z0-9]{word}){''.join(f'(?<!{name[1:]}{word})' for name in _INDEX)}[\\\"']{{0,2}}+[ \t]?"
            rf"(?:[=:][ \t]?[\\\"']{{1,2}}+|>){PATH}{_HASH}(?=[A-Za-z+/.~=%:_-]{{0,60}}+[0-9]){DOUBT}{long_value(20)}"
        ),
    )
    for word in CAMEL_HAVE
)
# A row of a table, of a name and its value.
TABLE_NEED: Final = r"[a-z][ \t]{1,40}+\|[ \t]{1,8}+[\w+/=-]{8}"
TABLE: Final = tuple(
    (
        "secret-assignment" if word != "passw" else "password",
        rf"{word}[\w-]{{0,40}}+[ \t]{{1,40}}+\|[ \t]{{1,8}}+{_MIXED_WELL}{DOUBT}{long_value(8)}",
    )
    for word in ("passw", "token", "secret", "api[_-]?key", "_key")
)
# Behind the word itself: in quotes, in a call, in a sentence. Each pattern begins with the same letter.
_SAID: Final = rf"[ \t]is[ \t:]{{1,3}}+[\"'`]?{_MIXED}{_MIXED_WELL}{PATH}[\w!@#%^&*+~?$/=-]{{8}}"
_CALLED: Final = rf"\([ \t]?[\"']{NO_VALUE}{PATH}{_MIXED}[^\"'\s$<{{%]{{8,200}}+[\"']"
WORDS: Final = (
    ("password", rf"passw(?:or)?d[ \t]{{1,4}}+'{NO_VALUE}{_MIXED}[^\"'\s$<{{]{{6,100}}+'"),
    ("password", rf"password(?<!\S........)[ \t]{{1,8}}+{NO_VALUE}{_MIXED}[^\s\"'()<>{{}}=]{{8,100}}+$"),
    ("password", rf"pass(?:word|wd|phrase)(?:{_SAID}|{_CALLED})"),
)
SPOKEN_NEED: Final = ("token is", "secret is", "key is", "token(", "secret(", "key(")
SPOKEN: Final = tuple(
    ("secret-assignment", f"{word}(?:{_SAID}|{_CALLED})") for word in ("token", "secret", "api[ _-]?key")
)
# Told by a word that little else has.
RARE_NEED: Final = (
    *(
        "::add-mask::",
        "identified by",
        "securestring",
        "credential(",
        "/user:",
        "bindpw",
        "requirepass",
        "masterauth",
        ":thin:",
    ),
)
RARE: Final = (
    ("masked-value", r"::add-mask::(?!\$|<)\S{4}"),
    ("password", r"identified[ \t]by[ \t]{1,4}+(?:password[ \t])?'(?!\$|<|\*|%s|\?)[^\"'\s]{4}"),
    ("password", r"securestring[ \t]{1,4}+(?:-string[ \t])?[\"'](?!\$|<)[^\"'\s]{4}"),
    ("password", rf"credential\([\"'][^\"'\n]{{1,64}}[\"'],[ \t]?[\"']{NO_VALUE}[^\"'\s]{{4}}"),
    ("password", rf"/user:[^\s\"']{{1,64}}+[ \t]{{1,4}}+{_MIXED}[^\s/\"'][^\s\"']{{5}}"),
    ("password", r"(?:bindpw|requirepass|masterauth)[ \t]{1,8}[\"']?(?!\$|<|--|\")[^\s\"']{4}"),
    ("url-credentials", r":thin:[^\s/:@\"']{1,64}/(?!\$|<|\{)[^\s/@\"']{3,100}@"),
)
# The same, where the value is long.
LONG_NEED: Final = (
    '"d":',
    '"d" :',
    '"k":',
    '"d\\":',
    'auth"',
    "auth'",
    "auth\\",
    "auth=",
    "ls0tls",
    "hooks/catch",
    "with/key/",
)
LONG: Final = (
    ("json-web-key", rf"\"[dk]\\?\"[ ]?:[ ]?\\?\"{DOUBT}[\w-]{{42}}"),
    (
        "basic-auth",
        (
            r"[\"']auth[\\\"']{1,2}:[ \t]{0,4}[\\\"']{1,2}(?=[a-z+/=]{0,60}[0-9])"
            r"(?:[0-9a-z+/]{400}|[0-9a-z+/]{20,400}+={0,2}[\\\"'])"
        ),
    ),
    ("secret-assignment", r"[?&]auth=(?=[a-z_.-]{0,60}+[0-9])[\w.~%+/-]{20}"),
    ("private-key", r"key(?:-data)?[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?ls0tls1crudjti"),
    ("webhook-url", r"hooks/catch/[0-9]{3,12}/[0-9a-z]{5}"),
    ("webhook-url", r"with/key/[\w-]{20}"),
)
# host:port:database:user:password
PGPASS_NEED: Final = r":(?:[0-9]{4,5}|\*):"
PGPASS: Final = (
    (
        "password",
        rf":(?:[0-9]{{4,5}}|\*):(?![0-9]{{1,20}}:)[\w*-]{{1,63}}+:(?![0-9]{{1,20}}:)[\w*-]{{1,63}}+:{_MIXED}[^\s:\"'/]{{6,100}}+$",
    ),
)
COMMANDS_NEED: Final = (" -p", " -w ", " -k ", " -u ", "pass:", "epass", "ypass", "passwd")
_P: Final = r"[ =][\"']?(?!\$|<|[\d.:]{1,40}(?:/[a-z]{3})?(?![\w]))(?=[^\s0-9]{0,60}+[0-9])[^\s\"'$<-][^\s\"'/]{5}"
COMMANDS: Final = (
    ("password", rf"(?:login|mongo[a-z]{{0,8}}|twine[ ]upload)\b[^\n]{{0,120}}?[ ]-p{_P}"),
    ("password", rf"\b(?:un)?zip[ ][^\n]{{0,80}}?-p{_P}"),
    (
        "password",
        r"ldap(?:search|modify|add|delete|whoami|passwd)[ ][^\n]{0,160}?[ ]-w[ ][\"']?(?!\$|<)[^\s\"'-][^\s\"']{3}",
    ),
    ("password", r"-(?:src|dest)?(?:store|key)pass[ =][\"']?(?!\$|<|env:|file:)[^\s\"'-][^\s\"']{3}"),
    ("password", r"[ ]pass:(?!\$|<)[^\s\"']{4}"),
    ("password", r"openssl[ ]enc[ ][^\n]{0,120}?[ ]-k[ ][\"']?(?!\$|<)[^\s\"'-][^\s\"']{5}"),
    ("password", r"smbclient[ ][^\n]{0,120}?[ ]-u[ ][^\s%]{1,64}%(?!\$|<)\S{4}"),
    ("password", r"htpasswd[ ]-[a-z]{0,5}b[a-z]{0,5}[ ]\S{1,100}[ ]\S{1,64}[ ](?!\$|<)\S{4}"),
    ("password", r"echo[ ][\"']?[^\s:$]{1,64}:(?!\$|<)[^\s]{4,100}[ ]\|[ ](?:sudo[ ])?chpasswd"),
)
