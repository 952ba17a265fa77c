"""Private keys over many lines: PKCS#1, PKCS#8, OpenSSH, PGP.

From the line that begins one, each line that can be part of it is hidden. Which those are is told line by line, without
looking ahead, so that a stream that never ends a key does not have to be held, and text behind a key that was cut off
stays.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

RULE: Final = "private-key"
MAX_LINES: Final = 2_000  # of one key; a PGP key with pictures has more, and is no longer hidden line by line
_BEGIN: Final = re.compile(r"BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY")
_END: Final = re.compile(r"END [A-Z0-9 ]{0,40}PRIVATE KEY")
# What may stand before the key's own text: the margin of a listing, of a log, of a diff, of a quotation.
_REST: Final = r"""={0,3}(?:\\[nr]){0,2}["']?[,;+\\ \t\r]{0,4}"""
_BODY: Final = re.compile(
    rf"""[\s>|"'+\d:.,TZ-]{{0,40}}[0-9A-Za-z+/]{{0,200}}+{_REST}"""
    rf"""|[^\n]{{0,80}}?[\s>|"'+:,-][0-9A-Za-z+/]{{32,200}}+{_REST}"""
    r"""|[\s>|"'+-]{0,40}+(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash|MessageID|X-[\w-]{1,30}):[^\n]{0,200}"""
)
_PURE: Final = re.compile(rf"""[\s>|"'+-]{{0,40}}+(?=[A-Za-z]{{0,100}}+[+/0-9=])[0-9A-Za-z+/]{{40,100}}+{_REST}""")
_LAST: Final = re.compile(rf"""[\s>|"'+-]{{0,40}}+[0-9A-Za-z+/]{{2,100}}+{_REST}""")


class KeyBlocks:
    """Follows the lines of one stream; `inside` says whether the next one may belong to a key."""

    __slots__ = ("_lines", "named")

    def __init__(self) -> None:
        """Begin outside of any key."""
        self._lines = 0
        self.named = ""
        """The last line, if it names what the next may give a value to."""

    @property
    def inside(self) -> bool:
        """Whether a key has begun and not ended."""
        return self._lines > 0

    def takes(self, line: str) -> bool:
        """Whether this line, the next of the stream, belongs to a private key."""
        if "PRIVATE KEY" in line:
            begin = _last(_BEGIN, line)
            end = _last(_END, line)
            self._lines = 1 if begin > end else 0
            return begin >= 0 or end >= 0
        if not self._lines:
            return False
        self._lines += 1
        if self._lines <= MAX_LINES and is_body(line):
            return True
        self._lines = 0
        return False

    @staticmethod
    def ends(line: str) -> bool:
        """Whether a key ends in this line, and none begins in it."""
        return "PRIVATE KEY" in line and _last(_END, line) >= 0 > _last(_BEGIN, line)

    def copy(self) -> KeyBlocks:
        """As it is now."""
        copy = KeyBlocks()
        copy._lines, copy.named = self._lines, self.named
        return copy

    def leave(self) -> None:
        """Forget the key: what comes next does not follow what came before."""
        self._lines = 0


def is_body(line: str) -> bool:
    """Whether a line may stand within a key that has begun."""
    return _BODY.fullmatch(line) is not None


def is_whole_body(line: str) -> bool:
    """Whether a line, seen without what surrounds it, looks like a full line of a key."""
    return _PURE.fullmatch(line) is not None


def is_last_body(line: str) -> bool:
    """Whether a line may be the last one of a key, which is short."""
    return _LAST.fullmatch(line) is not None


def body_before(lines: Sequence[str], end: int) -> int:
    """Where the key begins that line `end` ends, if the line that begins it is not to be seen."""
    start = end
    while (
        start > 0
        and end - start < MAX_LINES
        and (is_whole_body(lines[start - 1]) or (start == end and is_last_body(lines[start - 1])))
    ):
        start -= 1
    return start


def _last(pattern: re.Pattern[str], line: str) -> int:
    return max((match.start() for match in pattern.finditer(line)), default=-1)
