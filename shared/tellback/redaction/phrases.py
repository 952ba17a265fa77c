"""Pass phrases as people make them of words: `Orbit.Velvet.Canyon`, `orbit-velvet-canyon-lantern`, `OrbitVelvet12!`.

None of them is random, so only the name of a password beside them, or above their column, tells them from other words.
"""

from __future__ import annotations

from typing import Final

from tellback.lazy_pattern import lazy_pattern
from tellback.redaction.forms import STATED
from tellback.redaction.layouts import BEFORE, FLAGS, LINE_BELOW, LINE_ENDS
from tellback.redaction.values import AT_END, AnchoredRule

# Two patterns, since `re` skips to a fixed sign seven times as fast as to one of two.
_IN_TITLED: Final = lazy_pattern(r"\.[A-Z][a-z]{3,9}\.[A-Z]")
_IN_HYPHENED: Final = lazy_pattern("-[a-z]{3,10}-[a-z]{3,10}-[a-z]{3}")
_TITLED: Final = r"[A-Z][a-z]{3,9}(?:\.[A-Z][a-z]{3,9}){2,4}"
_HYPHENED: Final = r"[a-z]{3,10}(?:-[a-z]{3,10}){3,7}"
_PHRASE: Final = f"(?:{_TITLED}|{_HYPHENED})"
_AHEAD: Final = (  # the capitals or hyphens of one, perhaps after another word with such
    r"(?=[a-zA-Z]{0,6}+[^\w-](?:(?:[^A-Z]{0,30}+[A-Z][a-zA-Z_]{1,15}+(?!\.))?+[^A-Z]{0,30}+[A-Z][a-z]{3,9}\.[A-Z]"
    r"|(?:[^-]{0,40}+-(?![a-z]{3,10}-[a-z]))?+[^-]{0,40}+(?<=[a-z]{3})-[a-z]{3,10}+-[a-z]{3,10}+-[a-z]))"
)
_ENDS: Final = r"(?=[\"'`]|[.;]?[ \t\r]{0,60}(?:[|│┃║<>;,)\]}]|$))"
# Over the original text, since in lower case they look like names in code: `settings.database.password`. No name goes
# on after the word, as `PasswordHasher` does, and the value ends its line or cell.
RULES: Final = tuple(
    AnchoredRule(
        "password",
        anchor,
        rf"{ends}(?![\w-])(?:(?:(?i:{BEFORE}|{STATED})|\.{{1,8}}:[ ]|={{)[\"'`]?{_PHRASE}{_ENDS}"
        rf"|(?i:{FLAGS}){LINE_BELOW}{_PHRASE}{LINE_ENDS}){AT_END}",
        _AHEAD,
    )
    for anchor, ends in (
        ("pass", "(?:word|wd|phrase|(?<=[_-]pass))"),
        ("Pass", "(?:word|wd|phrase|(?<=[a-z]Pass))"),
        ("PASS", "(?:WORD|WD|PHRASE|(?<=_PASS))"),
        ("pwd", ""),
        ("Pwd", ""),
        ("PWD", "(?<!OLDPWD)"),
        ("pw", r"(?<![\w.-]pw)"),
    )
)
ANCHORS: Final = frozenset(rule.anchor.lower() for rule in RULES)
# In a column of passwords, a value that has letters of both cases and a digit need not be random either.
_PASSWORD: Final = lazy_pattern(
    rf"{_PHRASE}|[a-z]{{3,10}}(?:-[a-z]{{3,10}}){{1,3}}-[0-9]{{1,4}}"
    r"|(?=[^0-9]*[0-9])(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])[\w!@#%^&*+=?.-]{8,40}"
)


def may_hold(text: str) -> bool:
    """Return whether the text has what a phrase of `RULES` has; few texts do."""
    return _IN_TITLED.search(text) is not None or _IN_HYPHENED.search(text) is not None


def may_be_password(cell: str) -> bool:
    """Return whether what stands in a column of passwords may be one."""
    return _PASSWORD.fullmatch(cell) is not None
