"""Search for many fixed texts in one text: which of them it has.

stringzilla looks for each at 0.05 ns a character, by the processor's vector instructions; `in` and `re` take 0.5
(`docs/decisions/searching-for-secrets.md`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Final, Protocol

_APART: Final = 200  # characters from one place of a fixed text to the next


class Searchable(Protocol):
    """A text of which `in` is fast."""

    def __contains__(self, fixed: str, /) -> bool:
        """Return whether the text holds this one."""
        ...


class Findable(Protocol):
    """A text in which the next place of another is found fast."""

    def find(self, fixed: str, start: int, end: int, /) -> int:
        """Return the first place in this part of the text, or -1."""
        ...


class Located(Findable, Searchable, Protocol):
    """A text whose places are those of the characters, whatever they are."""

    def count(self, fixed: str, /) -> int:
        """Return how often the text holds this one."""
        ...


def located(text: str | bytes) -> Located:
    """Return the text in a form of which places are found fast, for fixed texts of ASCII."""
    return _library()(text if isinstance(text, bytes) or text.isascii() else text.encode("latin-1", "replace"))


def findable_if_rare(fixed: str, within: Located, size: int) -> Findable | None:
    """Return the text again if the places in it are so far apart that `re` takes longer to find the next."""
    return within if fixed.isascii() and within.count(fixed) * _APART < size else None


def next_match(
    pattern: re.Pattern[str], fixed: str, text: str, span: tuple[int, int], places: Findable
) -> re.Match[str] | None:
    """Return the next match in this part of the text, of a pattern that begins with the fixed text."""
    start, end = span
    while (start := places.find(fixed, start, end)) >= 0:
        if match := pattern.match(text, start, end):
            return match
        start += 1
    return None


def searchable(text: str) -> Searchable:
    """Return the text in a form of which `in` is fast."""
    # Half of a surrogate pair, which names of files and torn output have, is nothing that stringzilla takes from a str.
    return _library()(text if text.isascii() else text.encode("utf-8", "surrogatepass"))


@cache
def _library() -> Callable[[str | bytes], Located]:
    """Import stringzilla, for which only a process that searches pays; it ships no types."""
    found: Callable[[str | bytes], Located] = import_module("stringzilla").Str
    return found


def fold_ascii(text: str) -> str:
    """Return `text` with ASCII capitals in lower case, and with as many characters as before.

    `str.lower` makes some letters longer (İ), which would move a match to another line.
    """
    if text.isascii():
        return text.lower()
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")
