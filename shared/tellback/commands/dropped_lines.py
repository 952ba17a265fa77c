"""The newest lines of the middle of a stream, which is not kept: a name in them may give away a value that is.

The rows of a table have the name of their column in its head only. Up to the bounds, what is kept is redacted as in the
whole text; beyond them the head of a table is forgotten, and its rows are searched like any other lines. A flood costs
hardly more, since its chunks are only held: to look for heads in all of it took twice as long as all else.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

MOST_BYTES: Final = 1 << 16
MOST_LINES: Final = 2_000  # of one byte each, held one by one, 64 KiB of lines would take megabytes


class _Part(NamedTuple):
    """Lines of a chunk from `begin` on, which is not copied, or with -1 the last state of a line."""

    data: bytes
    size: int  # bytes of the stream, newlines included
    lines: int  # at least
    begin: int = -1

    def newest_first(self) -> list[tuple[bytes, int]]:
        """Return the last state and the size of each line."""
        if self.begin < 0:
            return [(self.data, self.size)]
        lines = self.data[self.begin : self.begin + self.size].split(b"\n")[-2::-1]
        return [(_last_state(line), len(line) + 1) for line in lines]


class DroppedLines:
    """Holds the newest lines that were dropped, within `MOST_BYTES` and `MOST_LINES`."""

    __slots__ = ("_all_bytes", "_bytes", "_lines", "_parts", "count")

    def __init__(self) -> None:
        self._parts: deque[_Part] = deque()
        self._bytes = self._lines = 0  # of the parts
        self._all_bytes = 0
        self.count = 0
        """All lines that were dropped."""

    @property
    def complete(self) -> bool:
        """True if every dropped line is still held."""
        return self._all_bytes <= MOST_BYTES and self.count <= MOST_LINES

    def add_line(self, state: bytes, size: int) -> None:
        """Add a line by its last state and its size in the stream."""
        self._add(_Part(state, size, 1), size, 1)

    def add_lines(self, chunk: bytes, start: int, end: int) -> None:
        """Add the whole lines `chunk[start:end]`."""
        if start >= end:
            return
        lines = chunk.count(b"\n", start, end)
        if end - start <= MOST_BYTES:
            self._add(_Part(chunk, end - start, lines, start), end - start, lines)
            return
        begin = chunk.find(b"\n", end - MOST_BYTES - 1, end) + 1
        # To count them takes as long as all else here, and too few only keep the part for longer.
        self._add(_Part(chunk, end - begin, 0, begin), end - start, lines)

    def _add(self, part: _Part, size: int, lines: int) -> None:
        self.count += lines
        self._all_bytes += size
        if size > part.size:  # the rest of them is newer than all that is held
            self._parts.clear()
            self._bytes = self._lines = 0
        self._parts.append(part)
        self._bytes += part.size
        self._lines += part.lines
        first = self._parts[0]
        while self._bytes - first.size >= MOST_BYTES or self._lines - first.lines >= MOST_LINES:
            self._parts.popleft()
            self._bytes -= first.size
            self._lines -= first.lines
            first = self._parts[0]

    def states(self) -> list[bytes]:
        """Return the last state of each line within the bounds, oldest first."""
        found: list[bytes] = []
        room = MOST_BYTES
        for part in reversed(self._parts):
            for state, size in part.newest_first():
                room -= size
                if room < 0 or len(found) == MOST_LINES:
                    return found[::-1]
                found.append(state)
        return found[::-1]


def _last_state(line: bytes) -> bytes:
    """Return what is shown of a line: the last text that a carriage return left."""
    return next((state for state in reversed(line.split(b"\r")) if state), b"") if b"\r" in line else line
