"""Secrets that a name gives away across a layout: tables, columns, markup, and the ways in which programs dump values.

All of them are searched only near a long value with a digit (`rules`), so text without one pays nothing. Rows are as in
`assignments`.
"""

from __future__ import annotations

from typing import Final

from tellback.redaction.assignments import SECRETS, names_after
from tellback.redaction.values import AT_END, DOUBT, MIXED_WORD, NAME_GOES_ON, NO_VALUE, PATH, AnchoredRule, long_value

_SPACE: Final = r"[ \t]{0,60}+"
# What stands between a name and its value.
_BETWEEN: Final = (
    rf"[`*\"']{{0,3}}+{_SPACE}[|│┃]{_SPACE}",  # a table: psql's, Markdown's, one drawn in boxes
    r"[ \t]{2,80}+(?:reg_[a-z]{2,9}[ \t]{1,8}+)?",  # columns; values of a registry
    r"\*\*:?[ \t]{1,4}+",  # an item of Markdown
    r"(?:</[a-z]{1,8}>[ \t:\r\n]{0,40}+){1,2}+<[a-z]{1,8}[^<>\n]{0,60}+>[ \t\r\n]{0,40}+",  # cells of HTML
    r"[\"']?[ ]?[:=][ ]?some\([ \t\r\n]{0,40}+",  # Rust's options
    r"[\"']\]=>[ \t\r\n]{0,20}+string\([0-9]{1,5}\)[ ]",  # PHP's var_dump
    r"[ ]\{[ ]get;[^{}\n]{0,30}+\}[ ]=[ ]",  # properties of C#
    # Outputs of terraform and fields that describe themselves, in JSON.
    (
        r"\"[ ]?:[ ]?\{[ \t\r\n]{0,40}+(?:\"[a-z_]{1,20}\"[ ]?:[ ]?[^,{}\n]{1,60}+,[ \t\r\n]{0,40}+){0,3}"
        r"\"value\"[ ]?:[ ]?"
    ),
    r"[\"']?[ ](?:--[a-z-]{1,20}[ =][a-z]{1,20}[ ]){0,2}--(?:secret-)?(?:value|string|data)[ =]",  # stores of clouds
    r"=%s(?:\\n)?[\"'][ ]",  # printf
    r"[ ][\w.-]{1,30}[ ]=[ ]",  # `PASSWORD elastic = …`
)
_BEFORE: Final = f"(?:{'|'.join(_BETWEEN)})"
_VALUE: Final = rf"{_BEFORE}[\"'`]{{0,2}}+{NO_VALUE}{PATH}{MIXED_WORD}{DOUBT}"
_SECRET: Final = f"{NAME_GOES_ON}{_VALUE}{long_value(16)}{AT_END}"
# In quotes a password needs less to be told from words.
_PASSWORD: Final = (
    rf"{NAME_GOES_ON}(?:{_VALUE}[\w+/.~=%:!@#^*&$-]{{8,200}}+"
    rf"|{_BEFORE}[\"'`]{NO_VALUE}{PATH}{MIXED_WORD}[^\s\"'`<>$]{{8,200}}+[\"'`]){AT_END}"
)
_NAMES: Final = r"(?:passw|passphrase|secret|token|credential|api[_-]?key|[_-]key)"

RULES: Final = (
    *(
        AnchoredRule("secret-assignment", anchor, f"{names_after(anchor)}{_SECRET}")
        for anchor in SECRETS
        if anchor in {"secret", "token", "cred", "key", "salt", "_dsn", "_pat"}
    ),
    AnchoredRule(
        "password", "pass", rf"(?:word|wd|phrase|code|(?<=[_-]pass)(?![a-z])|(?<=[a-z]pass)(?=[ ]{{2}})){_PASSWORD}"
    ),
    # The value first: lists of parameters and tags, as clouds have them; what is piped into a store of secrets.
    AnchoredRule(
        "secret-assignment",
        '"value": "',
        rf"{NO_VALUE}{PATH}{MIXED_WORD}"
        rf"(?=[^\"\n]{{8,300}}+\",[ \t\r\n]{{0,40}}+\"(?:key|name)\":[ ]?\"[\w./-]{{0,60}}?{_NAMES})",
    ),
    AnchoredRule(
        "secret-assignment",
        "echo ",
        r"(?:-n[ ])?[\"']?(?!\$|<)[^\s\"'$]{8,300}+[\"']?[ ]{1,3}\|[^\n|]{1,60}?"
        r"(?:secrets?[ ](?:put|set|create|add|versions[ ]add)|config[ ]set[ ]--secret|env[ ]add)[ ]",
    ),
    # A value alone in its line, of a length that digests of files in base64 do not have there.
    AnchoredRule("secret-assignment", '="', r"(?<=\n[ ]{4}\"[0-9a-z+/]{43}=\"),?$"),
    AnchoredRule("secret-assignment", "==", r"(?<=[ \t\n\"'][\w+/-]{86}==)(?![\w=])"),
)
