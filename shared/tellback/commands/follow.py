"""The output of a running command for its followers: every line, as its record would show it.

Lines are redacted here, before they leave the process, with the same rules and result as in the record. A private key
whose first line was dropped is recognized only by its last line, so lines that may belong to one are held until that is
clear. Memory and work are bounded: if output arrives faster than it can be shown, the middle is dropped and counted.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tellback.commands.dropped_lines import DroppedLines
from tellback.commands.truncation import (
    MOST_ABOVE,
    OutputLine,
    PartialLine,
    StreamPosition,
    StreamTruncator,
    dropped_texts,
    track_private_keys,
)
from tellback.contracts.commands import Stream
from tellback.redaction import PrivateKeyTracker, Redactor, marker
from tellback.redaction.private_keys import MAX_LINES as MAX_HELD
from tellback.redaction.private_keys import RULE as PRIVATE_KEY
from tellback.redaction.private_keys import is_full_key_line, is_last_key_line

STREAMS: Final[tuple[Stream, Stream]] = ("stdout", "stderr")
MAX_PENDING: Final = 1 << 20  # unread bytes of a stream that are kept; one read of a pipe may return as many
CHUNK_COST: Final = 128  # bytes of memory that a chunk takes beside its data
HEAD_BYTES: Final = 32 << 10  # from the beginning of a stream, always shown, however fast output arrives
PIECE_BYTES: Final = 16 << 10  # at which a piece is full
# Redaction competes for the processor with the thread that reads the command's output, so a token bucket bounds it.
# Each byte costs 1, and each line LINE_COST more.
LINE_COST: Final = 16
BURST: Final = 2 << 20  # the size of the bucket
REFILL_RATE: Final = 64 << 10  # added with each poll
MAX_BACKLOG: Final = 32 << 10  # spent on a poll at most, once chunks were dropped unread
_QUIET_POLLS: Final = 3  # polls without output after which a single held line is shown


class OutputChunk(NamedTuple):
    """Complete lines of one stream, made of `raw` bytes of output; `dropped` bytes before them are not shown."""

    stream: Stream
    text: str
    raw: int
    dropped: int


class DisplayableLines:
    """The lines of one stream that may be shown: complete, and certainly not part of a private key."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._current = PartialLine()
        self._blocks = PrivateKeyTracker()
        self._above = PrivateKeyTracker()  # what the lines shown so far say of the next
        self._held: deque[OutputLine] = deque()  # full lines that may be a key's text, and perhaps its short last one
        self._after_gap = False  # True if dropped output may have been the beginning of the held lines
        self._quiet = 0
        self._ready: list[OutputLine] = []
        self.dropped = 0  # bytes, since the last piece

    def feed(self, chunk: bytes, position: int = 0) -> None:
        """Add the next chunk of the stream, from `position` on."""
        while (end := chunk.find(b"\n", position)) >= 0:
            self._current.extend(chunk, position, end)
            self._end_line(self._current.finish_line())
            position = end + 1
        self._current.extend(chunk, position, len(chunk))

    def skip(self, chunk: bytes, size: int) -> None:
        """Add the next chunk, but drop the lines that end within its first `size` bytes."""
        cut = chunk.rfind(b"\n", 0, size)
        if cut < 0:
            self.feed(chunk)
            return
        self._drop_held()
        first = chunk.find(b"\n")
        self._current.extend(chunk, 0, first)
        line = self._current.finish_line()
        self._blocks.consume_line(line.key_text())
        track_private_keys(self._blocks, chunk, first + 1, cut + 1)
        skipped = DroppedLines()
        skipped.add_line(line.start, line.raw)
        skipped.add_lines(chunk, first + 1, cut + 1)
        self._read_above(dropped_texts(skipped)[-MOST_ABOVE:])
        self.dropped += line.raw + cut - first
        self.feed(chunk, cut + 1)

    def resume(self, position: StreamPosition, size: int) -> None:
        """Continue at a later position of the stream, `size` bytes further on."""
        self._drop_held()
        self.dropped += self._current.raw + size - position.current.raw
        self._current, self._blocks, above = position
        self._read_above(above)

    def release_partial(self) -> None:
        """Note a poll without output; after a few of them show a single short line that was held."""
        # Such a line could only be the end of a key that was not seen otherwise, and then the key's END line would
        # follow at once. Held forever, a line such as `done` would be hidden while the command runs.
        self._quiet += 1
        alone = len(self._held) == 1 and not is_full_key_line(self._held[0].key_text())
        if alone and self._quiet >= _QUIET_POLLS and not self._after_gap and not self._current.may_be_key_end():
            self._release_held()

    def finish(self) -> None:
        """End the stream; a last line without a newline counts as a line."""
        if self._current.pending:
            self._end_line(self._current.finish_line(newline=0))
        self._release_held()

    def pieces(self, stream: Stream) -> Generator[OutputChunk]:
        """Yield the displayable lines that were not yielded before, in pieces of bounded size."""
        ready, self._ready = self._ready, []
        start = size = 0
        for number, line in enumerate(ready, 1):
            size += min(line.raw, PIECE_BYTES)
            if size >= PIECE_BYTES or number == len(ready):
                dropped, self.dropped = self.dropped, 0
                lines = ready[start:number]
                yield OutputChunk(stream, self._join_lines(lines), sum(line.raw for line in lines), dropped)
                start, size = number, 0

    def _end_line(self, line: OutputLine) -> None:
        self._quiet = 0
        inside = self._blocks.inside
        if inside or line.names_key:
            line.in_private_key = self._blocks.consume_line(line.key_text())
            if not inside and PrivateKeyTracker.ends_key(line.key_text()):
                for held in self._held:
                    held.in_private_key = True
        if line.in_private_key:
            self._release_held()
            self._ready.append(line)
        elif is_last_key_line(line.key_text()):  # also true for a full line of a key
            self._hold_line(line)
        else:
            self._release_held()
            self._ready.append(line)

    def _hold_line(self, line: OutputLine) -> None:
        # Only the last line of a key is short, so a line after a short one shows that it was not a key.
        if self._held and not is_full_key_line(self._held[-1].key_text()):
            self._release_held()
        self._held.append(line)
        if len(self._held) > MAX_HELD:
            self._ready.append(self._held.popleft())

    def _release_held(self) -> None:
        self._ready += self._held
        self._held.clear()
        self._after_gap = False

    def _read_above(self, lines: Sequence[str]) -> None:
        """Note what the last lines before a gap's end say of the next: there may stand the name of a value."""
        self._above.recent = ""
        self._redactor.hidden_together(lines, self._above)

    def _drop_held(self) -> None:
        self.dropped += sum(line.raw for line in self._held)
        self._held.clear()
        self._after_gap = True

    def _join_lines(self, lines: Sequence[OutputLine]) -> str:
        hidden = self._redactor.hidden_together([line.text() for line in lines], self._above)
        rules = [PRIVATE_KEY if line.in_private_key else hidden.get(number) for number, line in enumerate(lines)]
        return "".join(
            f"{marker(rule) if rule else line.display_text()}\n" for line, rule in zip(lines, rules, strict=True)
        )


class _DroppedRange(NamedTuple):
    """The size of chunks that were dropped unread, and the position at which the stream continues."""

    position: StreamPosition
    size: int


@dataclass(slots=True)
class _PendingOutput:
    """The unread output of both streams, in its order of arrival."""

    items: list[tuple[int, bytes | _DroppedRange]] = field(default_factory=list[tuple[int, bytes | _DroppedRange]])
    load: list[int] = field(default_factory=lambda: [0, 0])

    def drop(self, number: int, position: StreamPosition, keep: int) -> None:
        """Drop one stream's unread output, except the first `keep` bytes of its first chunk."""
        kept: list[tuple[int, bytes | _DroppedRange]] = []
        size = 0
        for other, item in self.items:
            if other != number:
                kept.append((other, item))
            elif isinstance(item, _DroppedRange):
                size += item.size
            else:
                if keep:
                    kept.append((number, item[:keep]))
                size += len(item[keep:])
                keep = 0
        self.items = [*kept, (number, _DroppedRange(position, size))]
        self.load[number] = 0


class FollowTap:
    """The hand-over of output from the thread that reads a command's pipes to the thread that publishes it."""

    def __init__(self, redactor: Redactor) -> None:
        self._lock = threading.Lock()
        self._pending = _PendingOutput()
        self._begun = [False, False]
        self._shown = (DisplayableLines(redactor), DisplayableLines(redactor))
        self._room = BURST

    def take_chunk(self, number: int, chunk: bytes, stream: StreamTruncator) -> None:
        """Add a chunk of stream `number`, before you feed it to `stream`; cheap, since it only appends."""
        with self._lock:
            pending = self._pending
            if pending.load[number] and pending.load[number] + len(chunk) > MAX_PENDING:
                pending.drop(number, stream.position(), keep=0 if self._begun[number] else HEAD_BYTES)
            pending.items.append((number, chunk))
            pending.load[number] += len(chunk) + CHUNK_COST

    def pieces(self, *, final: bool = False) -> list[OutputChunk]:
        """Return what may be shown now; call it about ten times a second, and with `final` at the end."""
        with self._lock:
            pending, self._pending = self._pending, _PendingOutput()
            begun = list(self._begun)
            self._begun = [was or load > 0 for was, load in zip(begun, pending.load, strict=True)]
        found: list[OutputChunk] = []
        excess = self._excess_bytes([item for _, item in pending.items])
        for number, item in pending.items:
            shown = self._shown[number]
            if isinstance(item, _DroppedRange):
                shown.resume(*item)
                continue
            head = HEAD_BYTES if excess and not begun[number] else 0
            begun[number] = True
            for part, droppable in ((item[:head], False), (item[head:], True)):
                over = min(excess, len(part))
                excess -= over
                shown.skip(part, over if droppable else 0)
                found += shown.pieces(STREAMS[number])
        for number, shown in enumerate(self._shown):
            if final:
                shown.finish()
            elif not pending.load[number]:
                shown.release_partial()
            found += shown.pieces(STREAMS[number])
        return found

    @property
    def dropped(self) -> int:
        """The bytes dropped after the last piece."""
        return sum(shown.dropped for shown in self._shown)

    def _excess_bytes(self, items: Sequence[bytes | _DroppedRange]) -> int:
        """Return how many of the first bytes of `items` exceed the work that is allowed now."""
        self._room = min(BURST, self._room + REFILL_RATE)
        chunks = [item for item in items if isinstance(item, bytes)]
        room = self._room if len(chunks) == len(items) else min(MAX_BACKLOG, self._room)
        size = sum(len(chunk) for chunk in chunks)
        cost = size + LINE_COST * sum(chunk.count(b"\n") for chunk in chunks)
        self._room -= min(room, cost)
        return 0 if cost <= room else size - size * room // cost
