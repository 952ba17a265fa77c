"""Lists of codes that open an account without its second factor, keys as lists of bytes or on paper, and of logins.

None has a form of its own, so only the line above the list gives it away, or the name before it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import Final

from tellback.lazy_pattern import lazy_pattern
from tellback.light_struct import LightStruct
from tellback.redaction.alternations import preceded_by
from tellback.redaction.values import NAMES, AnchoredRule

RULE: Final = "recovery-code"
BYTES: Final = "secret-bytes"
HEAD: Final = "codes-head"  # no rule: it only says that a list may follow

_KINDS: Final = ("recovery", "backup", "scratch", "emergency", "reserve")
_NAMED: Final = preceded_by(f"{kind}{sign}codes" for kind in _KINDS for sign in (" ", "_", "-", ""))
_CODE: Final = r"(?=[0-9a-zA-Z-]{0,12}[0-9])[0-9a-zA-Z]{4,12}(?:-[0-9a-zA-Z]{4,12}){0,5}"
_BYTE: Final = r"(?:0x[0-9a-f]{2}|[01]?[0-9]{1,2}|2[0-4][0-9]|25[0-5])"
_ARRAY: Final = (  # an index, a sign, up to two brackets of a type or a call, and the one that opens the list
    r"\w{0,24}+(?:\[\w{0,30}+\])?+[ ]?(?=[:={])(?!==)[^\n\[({=]{0,30}+(?:=[^\n\[({=]{0,30}+)?+(?=[\[({])"
    r"(?:[\[({][^\n\[({]{0,20}+){0,2}?[\[({]\]?[ ]?"
)
_AHEAD_ARRAY: Final = rf"(?={_ARRAY}(?:0x[0-9a-f]|[0-9]{{1,3}},|\r?$))"
_OF_BYTES: Final = {"key": f"(?<=[a-z_. -]key){_AHEAD_ARRAY}", "salt": _AHEAD_ARRAY, "seed": _AHEAD_ARRAY}
NEAR_DIGITS: Final = tuple(
    AnchoredRule(BYTES, anchor, rf"{NAMES}{_ARRAY}{_BYTE}(?:,[ ]?{_BYTE}){{7}}", guard)
    for anchor, guard in _OF_BYTES.items()
)
RULES: Final = (
    *(AnchoredRule(HEAD, anchor, rf"{NAMES}{_ARRAY}\r?$", guard) for anchor, guard in _OF_BYTES.items()),
    # In one line, of a sentence or of JSON.
    AnchoredRule(RULE, "codes", rf"{_NAMED}[\"']?[ ]?[:=][ ]?\[?[ ]?[\"']?{_CODE.replace('A-Z', '')}[\"']?(?:,|\]|$)"),
    AnchoredRule(HEAD, "key", r"s(?:_hex)?\"[ ]?:[ ]?\[[ ]?(?=\r?\n[ \t]{0,40}\"[0-9a-f]{66}\")"),  # shares of Vault's
    AnchoredRule(HEAD, "codes", rf"{_NAMED}(?:[^\n:]{{0,100}}+:)?[ \t\"'\[{{(*]{{0,8}}\r?$"),
    AnchoredRule(HEAD, "key", r"[ ](?<=paper key )v[0-9]{1,2}[ \t\r]{0,4}$"),  # of Borg
    AnchoredRule(  # the logins that it reads: of a document in a shell, of cloud-init
        HEAD,
        "pass",
        r"wd(?<=chpasswd)(?:[ ]-[\w-]{1,20}|[ ]sha[0-9]{3}){0,3}"
        r"(?::|[ ]?<<-?[ ]?[\"'\\]?\w{1,20}[\"']?)?[ \t\r]{0,4}$",
    ),
)
# A few in a line, with their number or a mark before them; or the long ones that npm gives.
_LINE: Final = lazy_pattern(
    r"[ \t]{0,40}(?:(?:[0-9]{1,2}[.)]|[-*•])[ \t]{1,3})?[\"'`]?"
    rf"(?:{_CODE}(?:[ \t]{{1,12}}(?:[0-9]{{1,2}}[.)][ ]{{1,3}})?{_CODE}){{0,9}}|[0-9a-f]{{64}}(?:[0-9a-f]{{2}})?)"
    r"[\"'`]?,?[ \t\r]{0,4}"
    rf"|[ \t]{{0,40}}(?:{_BYTE},[ ]{{0,3}}){{5,63}}(?:{_BYTE})?[ \t\r)}}\];]{{0,4}}"
    r"|[ \t]{0,40}(?:[0-9]{1,3}:[ ])?(?:[0-9a-f]{6}[ ]){0,6}[0-9a-f]{2,6}[ ]-[ ][0-9a-f]{2}[ \t\r]{0,4}"  # of Borg
)
_LOGIN: Final = lazy_pattern(r"[ \t]{0,40}(?:-[ ])?[A-Za-z_][\w.-]{0,31}:[^\s:/$<{]\S{3,100}[ \t\r]{0,4}")
_BETWEEN: Final = 4  # lines that may stand between the head and the first code; one between two codes
# GitHub gives 16, most services 8 to 10. Without a bound, any column of ids that follows a list in a log would be
# hidden with it.
_MOST: Final = 40


class CodeList(LightStruct):
    """A list of codes that is being read, from the line after its head on."""

    codes: int = 0
    between: int = 0
    line: re.Pattern[str] = _LINE


def code_lines(
    lines: Sequence[str], heads: Container[int], codes: CodeList | None, begin: int = 0
) -> tuple[list[int], CodeList | None]:
    """Return the numbers of the lines from `begin` on with codes, and the list that goes on after the last line."""
    found: list[int] = []
    for number, line in enumerate(lines[begin:], begin):
        if number in heads:
            codes = CodeList(line=_LOGIN if "chpasswd" in line else _LINE)
        elif codes is not None and codes.line.fullmatch(line):
            found.append(number)
            more = codes.codes < _MOST
            codes = codes.replace(codes=codes.codes + 1, between=_BETWEEN - 1) if more else None
        elif codes is not None:
            codes = codes.replace(between=codes.between + 1) if codes.between < _BETWEEN else None
    return found, codes
