"""Lists of codes that open an account without its second factor: recovery, backup, scratch and emergency codes.

The codes have no form of their own, so only the line above the list gives them away.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final, NamedTuple

from tellback.lazy_pattern import lazy_pattern
from tellback.redaction.values import AnchoredRule, preceded_by

RULE: Final = "recovery-code"
HEAD: Final = "codes-head"  # no rule: it only says that a list may follow

_KINDS: Final = ("recovery", "backup", "scratch", "emergency", "reserve")
_NAMED: Final = preceded_by(f"{kind}{sign}codes" for kind in _KINDS for sign in (" ", "_", "-", ""))
_CODE: Final = r"(?=[0-9a-zA-Z-]{0,12}[0-9])[0-9a-zA-Z]{4,12}(?:-[0-9a-zA-Z]{4,12}){0,5}"
RULES: Final = (
    # In one line, of a sentence or of JSON.
    AnchoredRule(RULE, "codes", rf"{_NAMED}[\"']?[ ]?[:=][ ]?\[?[ ]?[\"']?{_CODE.replace('A-Z', '')}[\"']?(?:,|\]|$)"),
    AnchoredRule(HEAD, "codes", rf"{_NAMED}(?:[^\n:]{{0,100}}+:)?[ \t\"'\[{{(*]{{0,8}}\r?$"),
)
# A few in a line, with their number or a mark before them; or the long ones that npm gives.
_LINE: Final = lazy_pattern(
    r"[ \t]{0,40}(?:(?:[0-9]{1,2}[.)]|[-*•])[ \t]{1,3})?[\"'`]?"
    rf"(?:{_CODE}(?:[ \t]{{1,12}}(?:[0-9]{{1,2}}[.)][ ]{{1,3}})?{_CODE}){{0,9}}|[0-9a-f]{{64}})"
    r"[\"'`]?,?[ \t\r]{0,4}"
)
_BETWEEN: Final = 4  # lines that may stand between the head and the first code; one between two codes
# GitHub gives 16, most services 8 to 10. Without a bound, any column of ids that follows a list in a log would be
# hidden with it.
_MOST: Final = 40


class CodeList(NamedTuple):
    """A list of codes that is being read, from the line after its head on."""

    codes: int = 0
    between: int = 0


def code_lines(
    lines: Sequence[str], heads: Container[int], codes: CodeList | None
) -> tuple[list[int], CodeList | None]:
    """Return the numbers of the lines with codes, and the list that goes on after the last line."""
    found: list[int] = []
    for number, line in enumerate(lines):
        if number in heads:
            codes = CodeList()
        elif codes is not None and _LINE.fullmatch(line):
            found.append(number)
            codes = CodeList(codes.codes + 1, _BETWEEN - 1) if codes.codes < _MOST else None
        elif codes is not None:
            codes = codes._replace(between=codes.between + 1) if codes.between < _BETWEEN else None
    return found, codes
