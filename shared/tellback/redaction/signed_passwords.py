"""Random passwords with a sign, wherever they stand: `xE7oj*Wk2dTd` is no word, name, number or path of any language.

No name need be near. Of 861,000 lines of packages, manuals and settings one held such a word that was none: a table
packed into a text.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from typing import Final

from tellback.lazy_pattern import lazy_pattern
from tellback.redaction.values import seems_random

SIGNS: Final = "!#%^*"  # the others join names: `@`, `$`, `~`, `&`, `?`, `+`, `-`
_LONGEST: Final = 32
# One for each sign, since `re` skips to a fixed one ten times as fast as to one of five.
_WITHIN: Final = {sign: lazy_pattern(rf"{re.escape(sign)}(?<=[0-9A-Za-z].)[0-9A-Za-z]") for sign in SIGNS}
_CHARACTERS: Final = "!#%^*_@$~&?+-"
_ANY: Final = rf"0-9A-Za-z{re.escape(_CHARACTERS)}"
# Digits and capitals, which stand beside each other where the rest of a word with both is left out.
_DIGITS: Final = b"0123456789"
_CAPITALS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_KINDS: Final = bytes.maketrans(_DIGITS + _CAPITALS, b"0" * 10 + b"A" * 26)
_OTHERS: Final = bytes(range(256)).translate(None, _DIGITS + _CAPITALS + b" \t\n\r\v\f")
_BACKWARDS: Final = lazy_pattern(rf"[\w{re.escape(_CHARACTERS)}]*")
_WORD: Final = lazy_pattern(
    rf"(?<![{_ANY}.\\</\[{{])(?=[^\s0-9]{{0,32}}[0-9])(?=[^\sa-z]{{0,32}}[a-z])(?=[^\sA-Z]{{0,32}}[A-Z])"
    rf"[0-9A-Za-z][{_ANY}]{{11,30}}+(?=[\"'`),.;:>|\]}}]{{0,3}}(?:\s|$|<))"
)
# Formulas (`2^bitLength`, `a1*B2*c3`) have words and short names, and texts for URLs only `%20` and the like.
_LONG_PART: Final = lazy_pattern(r"(?![A-Z]?[a-z]{2,30}(?:[A-Z][a-z]+|[A-Z]+)*[0-9]*(?![0-9A-Za-z]))[0-9A-Za-z]{5}")
# `ntdll!RtlUserThreadStart+0x2b`, `UserService#findById2Async`: no small letter stands alone, as in random values. Then
# tickets: `Bug#51433#29`.
_NAMES: Final = lazy_pattern(
    r"(?=.*[a-z]{4}|(?i:bug|issue|ticket)(?:#[0-9]{1,8})+\Z)(?:0x[0-9A-Fa-f]+|(?:By|Id|In|Is|Of|On|To|Ui)(?![a-z])|[gms]_|[A-Z]*[a-z]{2,}|[A-Z]+(?![a-z])"
    rf"|[0-9]+(?!x)|[{re.escape(_CHARACTERS)}])++"
)
_OF_URLS: Final = lazy_pattern(r"(?:[^!#%^*]|%[0-9A-Fa-f]{2})+")


def places(text: str, signs: Iterable[str]) -> Generator[int]:
    """Yield where such passwords begin in a text that has these signs."""
    mixed = text.encode("latin-1", "replace").translate(_KINDS, _OTHERS)
    if b"A0" not in mixed and b"0A" not in mixed:
        return
    for sign in signs:
        end = 0
        for match in _WITHIN[sign].finditer(text):
            if match.start() < end:
                continue
            start = match.start()
            before = _BACKWARDS.match(text[max(0, start - _LONGEST) : start][::-1])
            start -= before.end() if before else 0
            word = _WORD.match(text, start)
            end = word.end() if word else match.end()
            if word and _is_password(word[0]) and seems_random(text, start):
                yield start


def _is_password(word: str) -> bool:
    return _LONG_PART.search(word) is not None and not (_OF_URLS.fullmatch(word) or _NAMES.fullmatch(word))
