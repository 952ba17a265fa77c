"""Whether fixed texts occur in a text that is asked for many of them.

stringzilla looks for each at 0.05 ns a character, by the processor's vector instructions; `in` and `re` take 0.5
(`docs/decisions/searching-for-secrets.md`). A process imports this module at its first search, since many never search.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final, Protocol


class Searchable(Protocol):
    """A text of which `in` is fast."""

    def __contains__(self, fixed: str, /) -> bool:
        """Return whether the text holds this one."""
        ...


_Str: Final[Callable[[str | bytes], Searchable]] = import_module("stringzilla").Str  # imported so: it ships no types


def searchable(text: str) -> Searchable:
    """Return the text in a form of which `in` is fast."""
    # Half of a surrogate pair, which names of files and torn output have, is nothing that stringzilla takes from a str.
    return _Str(text if text.isascii() else text.encode("utf-8", "surrogatepass"))
