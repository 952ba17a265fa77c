"""A look at a short text that tells which scans it is worth: a few searches for plain characters, one µs for all.

A scan costs some 5 to 30 µs for each 1,000 characters, whatever it finds. Nearly all need something that most texts do
not have: a certain word, or a long run of characters such as tokens are made of. Searching for a text within another is
a hundred times faster than an expression. Of a long text a few scans more or less are no matter, and there the figures
of hostile text against prose are to stay close: so this is for short ones.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Final

MAX_CHARS: Final = 8_000
"""Of a text that is looked at."""
RUN: Final = 13
"""Characters of the shortest run that a token, or a value of an issuer without a form, needs."""
_TOKEN: Final = frozenset(f"{string.ascii_letters}{string.digits}_+/=%.~!$|:@-?".encode())  # "?" is what is not Latin
_CLASSES: Final = bytes(ord("w") if byte in _TOKEN or byte >= 0x80 else ord(" ") for byte in range(256))
_A_RUN: Final = b"w" * RUN
_DIGITS: Final = bytes(ord("d") if chr(byte) in string.digits or byte == ord("?") else ord(" ") for byte in range(256))


class Glance:
    """The places of long runs of token characters in a text, and whether they are the lesser part of it."""

    __slots__ = ("_latin", "few", "runs")

    def __init__(self, text: str) -> None:
        """Look at `text`."""
        self._latin = text.encode("latin-1", "replace")
        classes = self._latin.translate(_CLASSES)
        self.runs: list[tuple[int, int]] = []
        start = classes.find(_A_RUN)
        while start >= 0:
            end = classes.find(b" ", start + RUN)
            end = len(classes) if end < 0 else end
            self.runs.append((start, end))
            start = classes.find(_A_RUN, end)
        self.few = sum(end - start for start, end in self.runs) < len(text) / 2

    def mixed(self) -> bool:
        """Whether a run has two digits."""
        digits = self._latin.translate(_DIGITS)
        for start, end in self.runs:  # noqa: SIM110 - a generator costs as much as the searches
            if digits.count(b"d", start, end) > 1:
                return True
        return False


def has_any(text: str, words: Sequence[str]) -> bool:
    """Whether one of the words is in the text."""
    for word in words:  # noqa: SIM110 - a generator costs as much as the searches
        if word in text:
            return True
    return False
