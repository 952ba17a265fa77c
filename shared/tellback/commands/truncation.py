"""The truncation of an output stream to its first 5 and last 30 lines, whatever its size (requirement C-33).

The same bytes give the same text, however they arrive in chunks. A line is shown in its last state, as carriage returns
leave it; of a long line the start and the size are kept. The middle of the stream is counted, not stored, so the kept
lines bound the memory. Each kept line is redacted before it is truncated. Private keys are tracked through the middle
too, so a key is hidden even if its first line is not kept. Followers of the output use the same lines.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from tellback.commands.dropped_lines import DroppedLines
from tellback.redaction import PrivateKeyTracker, Redactor, marker
from tellback.redaction.escapes import without_escapes
from tellback.redaction.private_keys import MARKS, is_full_key_line, is_last_key_line, marks_key
from tellback.redaction.private_keys import RULE as PRIVATE_KEY

MAX_LINE_BYTES: Final = 2_048

# A secret that begins before the cut must be recognized as a whole, so more of a line is searched than shown.
LOOKAHEAD_BYTES: Final = 1_024

_HELD_BYTES: Final = MAX_LINE_BYTES + LOOKAHEAD_BYTES

MOST_ABOVE: Final = 8  # lines that were not shown, and that are searched for what they say of the next

KEY: Final = b"PRIVATE KEY"

_MARKS: Final = tuple(mark.encode() for mark in MARKS)

_ESCAPES: Final = (b"\x1b", b"\\", b"%")  # signs of what may stand within a mark: a colour, a space of a URL

_MARK_BYTES: Final = len("BEGIN ") + 40 + len(KEY)  # of the first or last line of a key, as the rules know them


@dataclass(slots=True)
class OutputLine:
    """The last state of a line: its start and its size; `raw` counts the bytes of all states and the newline.

    `mark` is what begins or ends a private key beyond the start, whose body may be the next lines; `recent` holds the
    newest bytes, in which such a mark may have begun.
    """

    start: bytes = b""
    size: int = 0
    in_private_key: bool = False
    raw: int = 0
    mark: bytes = b""
    recent: bytes = b""

    def extend(self, data: bytes | memoryview) -> None:
        """Add the next bytes of the line."""
        room = _HELD_BYTES - len(self.start)
        if room > 0:
            self.start += bytes(data[:room])
        self.size += len(data)
        if len(data) > room:
            self._find_mark(bytes(data[max(0, room) :]))

    def _find_mark(self, beyond: bytes) -> None:
        newest = (self.recent or self.start[-_MARK_BYTES:]) + beyond
        at = newest.rfind(KEY)
        if at >= 0:
            self.mark = newest[max(0, at + len(KEY) - _MARK_BYTES) : at + len(KEY)]
        self.recent = newest[-_MARK_BYTES:]

    def text(self) -> str:
        """Return the start of the line, which is more than is shown."""
        return self.start.decode(errors="replace")

    def key_text(self) -> str:
        """Return what private keys are told by: the start of the line and the mark beyond it, without escapes."""
        return without_escapes(self.text() + self.mark.decode(errors="replace"))

    @property
    def names_key(self) -> bool:
        """True if the line may begin or end a private key."""
        if self.mark or any(mark in self.start for mark in _MARKS):
            return True
        return any(sign in self.start for sign in _ESCAPES) and marks_key(self.key_text())

    @property
    def is_truncated(self) -> bool:
        """True if the line is longer than what is shown of it."""
        return self.size > MAX_LINE_BYTES

    def display_text(self) -> str:
        """Return up to `MAX_LINE_BYTES` of the line, and a marker in place of the rest."""
        if not self.is_truncated:
            return self.text()
        kept = _without_partial_character(self.start)
        return f"{kept.decode(errors='replace')}...truncated {self.size - len(kept)} bytes..."


@dataclass(slots=True)
class PartialLine:
    """The line that has not ended yet."""

    pending: bool = False  # True once the line has begun
    raw: int = 0
    _shown: OutputLine = field(default_factory=OutputLine)  # the last state that a carriage return ended
    _open: OutputLine = field(default_factory=OutputLine)  # what came since then

    def extend(self, chunk: bytes, start: int, end: int) -> None:
        """Add `chunk[start:end]`, which must hold no newline."""
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
        if newest:  # a later state overwrites the earlier ones
            self._open = OutputLine()
        self._open.extend(states[newest:])
        if self._open.size:
            self._shown = self._open
        self._open = OutputLine()
        self._open.extend(memoryview(chunk)[last + 1 : end])

    def finish_line(self, newline: int = 1) -> OutputLine:
        """Return the whole line and begin the next; `newline` is 0 if the stream ended without one."""
        line = self._open if self._open.size else self._shown
        line.raw = self.raw + newline
        self._shown, self._open, self.pending, self.raw = OutputLine(), OutputLine(), False, 0
        return line

    def may_be_key_end(self) -> bool:
        """Return True if the line, so far, may become the last line of a private key."""
        return b"--" in self._open.start or b"END" in self._open.start

    def copy(self) -> PartialLine:
        """Return a copy that later output does not change."""
        return PartialLine(self.pending, self.raw, replace(self._shown), replace(self._open))


def track_private_keys(blocks: PrivateKeyTracker, chunk: bytes, position: int, end: int) -> None:
    """Update `blocks` from the lines of `chunk[position:end]`, which are not kept."""
    # A flood of output passes here, so lines are looked at only from the last mark on, or within a key.
    last = max(chunk.rfind(mark, position, end) for mark in _MARKS)
    if last >= 0:
        position = max(position, chunk.rfind(b"\n", position, last) + 1)
    elif not blocks.inside:
        return
    while position < end:
        stop = chunk.find(b"\n", position, end)
        states = [state for state in chunk[position:stop].split(b"\r") if state]
        line = OutputLine()
        line.extend(states[-1] if states else b"")
        blocks.consume_line(line.key_text())
        if not blocks.inside:
            return
        position = stop + 1


def dropped_texts(dropped: DroppedLines) -> list[str]:
    """Return the lines that are held, as far as they are searched."""
    return [state[:_HELD_BYTES].decode(errors="replace") for state in dropped.states()]


def _without_partial_character(data: bytes) -> bytes:
    """Return at most `MAX_LINE_BYTES` of `data`, not ending within a UTF-8 character."""
    end = MAX_LINE_BYTES
    while end > MAX_LINE_BYTES - 3 and end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end]


# Requirement C-33.
HEAD_LINES: Final = 5

TAIL_LINES: Final = 30


@dataclass(frozen=True, slots=True)
class CapturedOutput:
    """The kept text of one stream; `size` is the number of bytes that were written."""

    text: str
    truncated: bool
    redacted: bool
    size: int


class StreamPosition(NamedTuple):
    """The position of a stream: its current line so far, whether that is within a private key, and the lines above."""

    current: PartialLine
    blocks: PrivateKeyTracker
    above: list[str]


class StreamTruncator:
    """Collects the kept lines of one stream, chunk by chunk."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._blocks = PrivateKeyTracker()
        self._head: list[OutputLine] = []
        self._tail: deque[OutputLine] = deque(maxlen=TAIL_LINES)
        # The line before the tail is not kept, but a name in it makes the tail's first line a secret's value.
        self._before_tail = OutputLine()
        self._dropped = DroppedLines()
        self._current = PartialLine()
        # The end of a chunk, from the beginning of a line. Its lines are told apart only if no flood follows: that took
        # as long as all else that is done with 64 KiB.
        self._unread = b""
        self._size = 0

    def feed(self, chunk: bytes) -> None:
        """Add the next bytes."""
        self._size += len(chunk)
        if not self._dropped.count:
            chunk = self._read_first(chunk)
        start = self._find_tail(chunk)
        if start:
            self._skip_middle(chunk, start)
            self._unread = chunk[start:]
        else:
            self._read_rest()
            self._read_lines(chunk)

    def _read_first(self, chunk: bytes) -> bytes:
        """Read lines up to the first that is dropped, and return the rest, which may be a flood.

        Up to there, the last line of a private key whose first one was not printed still hides lines of the head.
        """
        end = 0
        for _ in range(HEAD_LINES + TAIL_LINES + 1 - len(self._head) - len(self._tail)):
            end = chunk.find(b"\n", end) + 1
            if not end:
                end = len(chunk)
                break
        self._read_lines(chunk[:end])
        return chunk[end:]

    def _read_rest(self) -> None:
        unread, self._unread = self._unread, b""
        self._read_lines(unread)

    def _read_lines(self, chunk: bytes) -> None:
        position = 0
        while (end := chunk.find(b"\n", position)) >= 0:
            self._current.extend(chunk, position, end)
            self._end_line()
            position = end + 1
        self._current.extend(chunk, position, len(chunk))

    def position(self) -> StreamPosition:
        """Return the current position, which later output does not change."""
        self._read_rest()
        above = [line.text() for line in (*self._head, *self._tail)[-MOST_ABOVE:]]
        return StreamPosition(self._current.copy(), self._blocks.copy(), above)

    def finish(self) -> CapturedOutput:
        """Return what is kept, after the last byte; a last line without a newline counts as a line."""
        self._read_rest()
        if self._current.pending:
            self._end_line()
        lines: list[str] = []
        cut = redacted = False
        kept = (*self._head, *self._tail)
        hidden = self._find_hidden([line.text() for line in kept])
        for number, line in enumerate(kept):
            rule = PRIVATE_KEY if line.in_private_key else hidden.get(number)
            lines.append(marker(rule) if rule else line.display_text())
            cut |= rule is None and line.is_truncated
            redacted |= rule is not None
        if self._dropped.count:
            lines.insert(HEAD_LINES, f"...truncated {self._dropped.count} lines...")
        return CapturedOutput("\n".join(lines), cut or self._dropped.count > 0, redacted, self._size)

    def _find_hidden(self, kept: list[str]) -> dict[int, str]:
        """Return the rules of kept lines, by themselves and by others that may have been dropped: a table's head."""
        if not self._dropped.count:
            return self._redactor.hidden_together(kept)
        dropped = dropped_texts(self._dropped) or [self._before_tail.text()]
        above = PrivateKeyTracker()
        hidden = self._redactor.hidden_together(kept[:HEAD_LINES], above)
        if not self._dropped.complete:
            above.recent = ""  # a table of the head may reach into the tail, but no name stands above a line there
        shift = len(dropped) - HEAD_LINES
        below = self._redactor.hidden_together([*dropped, *kept[HEAD_LINES:]], above)
        return hidden | {number - shift: rule for number, rule in below.items() if number - shift >= HEAD_LINES}

    def _find_tail(self, chunk: bytes) -> int:
        """Return where the lines begin that may belong to the tail; 0 if no whole line of `chunk` is before them."""
        start = len(chunk)
        for _ in range(TAIL_LINES + 1):
            start = chunk.rfind(b"\n", 0, start)
            if start < 0:
                return 0
        return start + 1 if chunk.find(b"\n", 0, start) >= 0 else 0

    def _skip_middle(self, chunk: bytes, tail: int) -> None:
        """Count the lines before `tail`, those of the last chunk among them, and look for private keys in them."""
        whole = self._unread.rfind(b"\n") + 1
        self._skip_lines(self._unread, 0, whole)
        self._current.extend(self._unread, whole, len(self._unread))
        first = chunk.find(b"\n")
        self._current.extend(chunk, 0, first)
        self._end_line()
        for line in self._tail:  # those before a flood; within one, only the line that two chunks share
            self._drop_line(line)
        self._tail.clear()
        self._skip_lines(chunk, first + 1, tail)
        self._before_tail = OutputLine()
        self._before_tail.extend(memoryview(chunk)[chunk.rfind(b"\n", 0, tail - 1) + 1 : tail - 1])

    def _skip_lines(self, chunk: bytes, start: int, end: int) -> None:
        track_private_keys(self._blocks, chunk, start, end)
        self._dropped.add_lines(chunk, start, end)

    def _end_line(self) -> None:
        line = self._current.finish_line()
        if self._blocks.inside or line.names_key:
            self._mark_private_key(line)
        if len(self._head) < HEAD_LINES:
            self._head.append(line)
        else:
            if len(self._tail) == TAIL_LINES:
                self._drop_line(self._tail[0])
                self._before_tail = self._tail[0]
            self._tail.append(line)

    def _drop_line(self, line: OutputLine) -> None:
        self._dropped.add_line(line.start, line.raw)

    def _mark_private_key(self, line: OutputLine) -> None:
        """Mark a line of a private key; at the end of a key whose beginning was not kept, mark its earlier lines."""
        inside = self._blocks.inside
        line.in_private_key = self._blocks.consume_line(line.key_text())
        if inside or not PrivateKeyTracker.ends_key(line.key_text()):
            return
        before = self._tail if self._dropped.count else [*self._head, *self._tail]
        for number, earlier in enumerate(reversed(before)):
            text = earlier.key_text()
            if not (is_full_key_line(text) or (number == 0 and is_last_key_line(text))):
                return
            earlier.in_private_key = True
