"""What is kept of an output stream: the first 5 and the last 30 lines, whatever its size (runtime-feedback-loops).

The same bytes give the same text, however they are cut into chunks. Memory is bounded by the lines that are kept: the
middle is counted, not stored. Secrets are looked for in each line that is kept, before the line is cut; private keys
are followed through the middle too, so that one whose first line is not kept is hidden all the same.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from tellback.redaction import KeyBlocks, Redactor, marker
from tellback.redaction.blocks import RULE as PRIVATE_KEY
from tellback.redaction.blocks import is_last_body, is_whole_body

HEAD_LINES: Final = 5
TAIL_LINES: Final = 30
MAX_LINE_BYTES: Final = 2_048
# A secret that begins before the cut must be seen whole, so this much more of a line is searched than is shown.
LOOKAHEAD_BYTES: Final = 1_024
_HELD_BYTES: Final = MAX_LINE_BYTES + LOOKAHEAD_BYTES
_KEY: Final = b"PRIVATE KEY"


@dataclass(frozen=True, slots=True)
class Capture:
    """What is kept of one stream; `size` counts the bytes that it wrote."""

    text: str
    truncated: bool
    redacted: bool
    size: int


@dataclass(slots=True)
class _Line:
    """A line's last state: the start of it, and how long it was."""

    start: bytes = b""
    size: int = 0
    key: bool = False  # it belongs to a private key

    def extend(self, data: bytes | memoryview) -> None:
        room = _HELD_BYTES - len(self.start)
        if room > 0:
            self.start += bytes(data[:room])
        self.size += len(data)

    def text(self) -> str:
        return self.start.decode(errors="replace")


class Truncation:
    """Collects one stream, chunk by chunk."""

    def __init__(self, redactor: Redactor) -> None:
        """Take what knows the secrets of this command."""
        self._redactor = redactor
        self._blocks = KeyBlocks()
        self._head: list[_Line] = []
        self._tail: deque[_Line] = deque(maxlen=TAIL_LINES)
        self._dropped = 0
        self._shown = _Line()  # of the current line: the last state that a carriage return ended
        self._open = _Line()  # what came since then
        self._pending = False  # the current line has begun
        self._size = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._size += len(chunk)
        position = 0
        if len(self._head) == HEAD_LINES:
            position = self._skip(chunk)
        while (end := chunk.find(b"\n", position)) >= 0:
            self._extend(chunk, position, end)
            self._end_line()
            position = end + 1
        self._extend(chunk, position, len(chunk))

    def finish(self) -> Capture:
        """What is kept, after the last byte; a last line without newline is a line."""
        if self._pending:
            self._end_line()
        lines: list[str] = []
        cut = redacted = False
        for line in (*self._head, *self._tail):
            text, line_cut, line_redacted = self._render(line)
            lines.append(text)
            cut |= line_cut
            redacted |= line_redacted
        if self._dropped:
            lines.insert(HEAD_LINES, f"...truncated {self._dropped} lines...")
        return Capture("\n".join(lines), cut or self._dropped > 0, redacted, self._size)

    def _skip(self, chunk: bytes) -> int:
        """Count the lines of `chunk` that cannot be among the last ones; return where the others begin."""
        start = len(chunk)
        for _ in range(TAIL_LINES + 1):
            start = chunk.rfind(b"\n", 0, start)
            if start < 0:  # all of them may be
                return 0
        first = chunk.find(b"\n")
        self._extend(chunk, 0, first)
        self._end_line()
        self._follow_keys(chunk, first + 1, start + 1)
        self._dropped += chunk.count(b"\n", first + 1, start + 1) + len(self._tail)
        self._tail.clear()
        return start + 1

    def _follow_keys(self, chunk: bytes, position: int, end: int) -> None:
        """Learn from lines that are not kept whether the next one is within a private key."""
        last = chunk.rfind(_KEY, position, end)
        if last >= 0:
            position = max(position, chunk.rfind(b"\n", position, last) + 1)
        elif not self._blocks.inside:
            return
        while position < end:
            stop = chunk.find(b"\n", position, end)
            states = [state for state in chunk[position:stop].split(b"\r") if state]
            self._blocks.takes(_Line(states[-1][:_HELD_BYTES] if states else b"").text())
            if not self._blocks.inside:
                return
            position = stop + 1

    def _extend(self, chunk: bytes, start: int, end: int) -> None:
        if start == end:
            return
        self._pending = True
        if chunk.find(b"\r", start, end) < 0:
            self._open.extend(memoryview(chunk)[start:end])
            return
        *states, last = chunk[start:end].split(b"\r")
        for state in states:
            self._open.extend(state)
            if self._open.size:
                self._shown = self._open
            self._open = _Line()
        self._open.extend(last)

    def _end_line(self) -> None:
        line = self._open if self._open.size else self._shown
        if self._blocks.inside or _KEY in line.start:
            self._mark_key(line)
        if len(self._head) < HEAD_LINES:
            self._head.append(line)
        else:
            self._dropped += len(self._tail) == TAIL_LINES
            self._tail.append(line)
        self._reset()

    def _mark_key(self, line: _Line) -> None:
        """Tell whether the line belongs to a private key; of one of which only the end is seen, hide what is kept."""
        inside = self._blocks.inside
        line.key = self._blocks.takes(line.text())
        if inside or not KeyBlocks.ends(line.text()):
            return
        before = self._tail if self._dropped else [*self._head, *self._tail]
        for number, earlier in enumerate(reversed(before)):
            text = earlier.text()
            if not (is_whole_body(text) or (number == 0 and is_last_body(text))):
                return
            earlier.key = True

    def _reset(self) -> None:
        self._shown, self._open, self._pending = _Line(), _Line(), False

    def _render(self, line: _Line) -> tuple[str, bool, bool]:
        """The line's text, whether it was cut, and whether a marker replaced it."""
        rule = PRIVATE_KEY if line.key else self._redactor.rule_of(line.text())
        if rule:
            return marker(rule), False, True
        if line.size <= MAX_LINE_BYTES:
            return line.text(), False, False
        kept = _whole_characters(line.start, MAX_LINE_BYTES)
        return f"{kept.decode(errors='replace')}...truncated {line.size - len(kept)} bytes...", True, False


def _whole_characters(data: bytes, limit: int) -> bytes:
    """At most `limit` bytes of `data`, not ending within a UTF-8 character."""
    end = limit
    while end > limit - 3 and end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end]
