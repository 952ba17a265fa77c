"""Lines of an output stream, cut out of chunks of any size: what truncation keeps and followers see.

A line is shown in its last state, as carriage returns leave it. Of a long one the start is kept, and its size.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from tellback.redaction import KeyBlocks

MAX_LINE_BYTES: Final = 2_048
# A secret that begins before the cut must be seen whole, so this much more of a line is searched than is shown.
LOOKAHEAD_BYTES: Final = 1_024
_HELD_BYTES: Final = MAX_LINE_BYTES + LOOKAHEAD_BYTES
KEY: Final = b"PRIVATE KEY"


@dataclass(slots=True)
class Line:
    """A line's last state: the start of it, and how long it was; `raw` counts all states and the newline."""

    start: bytes = b""
    size: int = 0
    key: bool = False  # it belongs to a private key
    raw: int = 0

    def extend(self, data: bytes | memoryview) -> None:
        """Take more of it."""
        room = _HELD_BYTES - len(self.start)
        if room > 0:
            self.start += bytes(data[:room])
        self.size += len(data)

    def text(self) -> str:
        """What is known of it."""
        return self.start.decode(errors="replace")

    @property
    def cut(self) -> bool:
        """Whether it is longer than what is shown."""
        return self.size > MAX_LINE_BYTES

    def shown(self) -> str:
        """Its text, at most `MAX_LINE_BYTES` of it, and a marker in place of the rest."""
        if not self.cut:
            return self.text()
        kept = _whole_characters(self.start, MAX_LINE_BYTES)
        return f"{kept.decode(errors='replace')}...truncated {self.size - len(kept)} bytes..."


@dataclass(slots=True)
class CurrentLine:
    """The line that has not ended yet."""

    pending: bool = False  # it has begun
    raw: int = 0
    _shown: Line = field(default_factory=Line)  # the last state that a carriage return ended
    _open: Line = field(default_factory=Line)  # what came since then

    def extend(self, chunk: bytes, start: int, end: int) -> None:
        """Take `chunk[start:end]`, in which no newline stands."""
        if start == end:
            return
        self.pending = True
        self.raw += end - start
        last = chunk.rfind(b"\r", start, end)
        if last < 0:
            self._open.extend(memoryview(chunk)[start:end])
            return
        states = chunk[start:last].rstrip(b"\r")
        newest = states.rfind(b"\r") + 1
        if newest:  # of the others nothing is left
            self._open = Line()
        self._open.extend(states[newest:])
        if self._open.size:
            self._shown = self._open
        self._open = Line()
        self._open.extend(memoryview(chunk)[last + 1 : end])

    def end(self, newline: int = 1) -> Line:
        """The whole line; the next one begins. `newline` is 0 where the stream ended without."""
        line = self._open if self._open.size else self._shown
        line.raw = self.raw + newline
        self._shown, self._open, self.pending, self.raw = Line(), Line(), False, 0
        return line

    def may_end_key(self) -> bool:
        """Whether what has come of it may go on as the last line of a private key."""
        return b"--" in self._open.start or b"END" in self._open.start

    def copy(self) -> CurrentLine:
        """As it is now."""
        return CurrentLine(self.pending, self.raw, replace(self._shown), replace(self._open))


def follow_keys(blocks: KeyBlocks, chunk: bytes, position: int, end: int) -> None:
    """Learn from the lines of `chunk[position:end]`, which nobody keeps, whether the next one is within a key."""
    last = chunk.rfind(KEY, position, end)
    if last >= 0:
        position = max(position, chunk.rfind(b"\n", position, last) + 1)
    elif not blocks.inside:
        return
    while position < end:
        stop = chunk.find(b"\n", position, end)
        states = [state for state in chunk[position:stop].split(b"\r") if state]
        blocks.takes(Line(states[-1][:_HELD_BYTES] if states else b"").text())
        if not blocks.inside:
            return
        position = stop + 1


def _whole_characters(data: bytes, limit: int) -> bytes:
    """At most `limit` bytes of `data`, not ending within a UTF-8 character."""
    end = limit
    while end > limit - 3 and end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end]
