"""Long texts in parts that a platform takes, which counts UTF-16 code units."""

from __future__ import annotations

import unicodedata
from typing import Final

_JOINER: Final = "\u200d"
_BACK: Final = 64  # characters to go back at most for the beginning of what is seen as one


def units(text: str) -> int:
    """Length in UTF-16 code units."""
    return len(text) + sum(char > "\uffff" for char in text)


def split_text(text: str, limit: int) -> list[str]:
    """`text` in parts of at most `limit` UTF-16 units, which joined are the text again.

    A part ends after a line, else after a word, where its second half has such a place; never within a character, nor
    within what is seen as one (accents, flags, joined emoji), unless that is absurdly long.
    """
    parts: list[str] = []
    while units(text) > limit:
        cut = _cut(text, limit)
        parts.append(text[:cut])
        text = text[cut:]
    return [*parts, text]


def _cut(text: str, limit: int) -> int:
    most, used = 0, 0
    for char in text:
        used += 2 if char > "\uffff" else 1
        if used > limit:
            break
        most += 1
    for separator in ("\n", " "):
        found = text.rfind(separator, most // 2, most)
        if found >= 0:
            return found + 1
    for cut in range(most, max(1, most - _BACK), -1):
        if not _joined(text, cut):
            return cut
    return max(1, most)


def _joined(text: str, at: int) -> bool:
    """Whether the characters before and after this place are seen as one."""
    after = text[at]
    if text[at - 1] == _JOINER or after == _JOINER or unicodedata.category(after) in {"Mn", "Me", "Mc"}:
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff":  # skin tones
        return True
    flags = 0
    while flags < at and _regional(text[at - 1 - flags]):
        flags += 1
    return _regional(after) and flags % 2 == 1


def _regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
