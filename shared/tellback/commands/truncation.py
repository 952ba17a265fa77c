"""What is kept of an output stream: the first 5 and the last 30 lines, whatever its size (runtime-feedback-loops).

The same bytes give the same text, however they are cut into chunks. Memory is bounded by the lines that are kept: the
middle is counted, not stored. Secrets are looked for in each line that is kept, before the line is cut; private keys
are followed through the middle too, so that one whose first line is not kept is hidden all the same.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from tellback.commands.lines import KEY, CurrentLine, Line, follow_keys
from tellback.redaction import KeyBlocks, Redactor, marker
from tellback.redaction.blocks import RULE as PRIVATE_KEY
from tellback.redaction.blocks import is_last_body, is_whole_body

HEAD_LINES: Final = 5
TAIL_LINES: Final = 30


@dataclass(frozen=True, slots=True)
class Capture:
    """What is kept of one stream; `size` counts the bytes that it wrote."""

    text: str
    truncated: bool
    redacted: bool
    size: int


class Position(NamedTuple):
    """Where a stream stands: what has come of its current line, and whether that is within a private key."""

    current: CurrentLine
    blocks: KeyBlocks


class Truncation:
    """Collects one stream, chunk by chunk."""

    def __init__(self, redactor: Redactor) -> None:
        """Take what knows the secrets of this command."""
        self._redactor = redactor
        self._blocks = KeyBlocks()
        self._head: list[Line] = []
        self._tail: deque[Line] = deque(maxlen=TAIL_LINES)
        self._before_tail = Line()  # not kept: it may name what the first line of the tail gives a value to
        self._dropped = 0
        self._current = CurrentLine()
        self._size = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._size += len(chunk)
        position = 0
        if len(self._head) == HEAD_LINES:
            position = self._skip(chunk)
        while (end := chunk.find(b"\n", position)) >= 0:
            self._current.extend(chunk, position, end)
            self._end_line()
            position = end + 1
        self._current.extend(chunk, position, len(chunk))

    def position(self) -> Position:
        """Where the stream stands now."""
        return Position(self._current.copy(), self._blocks.copy())

    def finish(self) -> Capture:
        """What is kept, after the last byte; a last line without newline is a line."""
        if self._current.pending:
            self._end_line()
        lines: list[str] = []
        cut = redacted = False
        before = Line()
        for number, line in enumerate((*self._head, *self._tail)):
            if self._dropped and number == HEAD_LINES:
                before = self._before_tail
            text, line_cut, line_redacted = self._render(line, before)
            before = line
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
        self._current.extend(chunk, 0, first)
        self._end_line()
        follow_keys(self._blocks, chunk, first + 1, start + 1)
        self._dropped += chunk.count(b"\n", first + 1, start + 1) + len(self._tail)
        self._tail.clear()
        self._before_tail = Line()
        self._before_tail.extend(memoryview(chunk)[chunk.rfind(b"\n", 0, start) + 1 : start])
        return start + 1

    def _end_line(self) -> None:
        line = self._current.end()
        if self._blocks.inside or KEY in line.start:
            self._mark_key(line)
        if len(self._head) < HEAD_LINES:
            self._head.append(line)
        else:
            if len(self._tail) == TAIL_LINES:
                self._dropped += 1
                self._before_tail = self._tail[0]
            self._tail.append(line)

    def _mark_key(self, line: Line) -> None:
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

    def _render(self, line: Line, before: Line) -> tuple[str, bool, bool]:
        """The line's text, whether it was cut, and whether a marker replaced it."""
        rule = PRIVATE_KEY if line.key else self._redactor.rule_of(line.text(), before.text())
        if rule:
            return marker(rule), False, True
        return line.shown(), line.cut, False
