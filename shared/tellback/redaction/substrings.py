"""Search for many fixed texts in one text: which of them it has.

stringzilla looks for each at 0.05 ns a character, by the processor's vector instructions; `in` and `re` take 0.5
(`docs/decisions/searching-for-secrets.md`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Protocol


class Searchable(Protocol):
    """A text of which `in` is fast."""

    def __contains__(self, fixed: str, /) -> bool:
        """Return whether the text holds this one."""
        ...


def searchable(text: str) -> Searchable:
    """Return the text in a form of which `in` is fast."""
    # Half of a surrogate pair, which names of files and torn output have, is nothing that stringzilla takes from a str.
    return _library()(text if text.isascii() else text.encode("utf-8", "surrogatepass"))


@cache
def _library() -> Callable[[str | bytes], Searchable]:
    """Import stringzilla, for which only a process that searches pays; it ships no types."""
    found: Callable[[str | bytes], Searchable] = import_module("stringzilla").Str
    return found


def fold_ascii(text: str) -> str:
    """Return `text` with ASCII capitals in lower case, and with as many characters as before.

    `str.lower` makes some letters longer (İ), which would move a match to another line.
    """
    if text.isascii():
        return text.lower()
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")
