"""What a command prints, for those who follow it while it runs: the lines that its record would show, and all of them.

Lines are redacted here, before anything leaves the process, by the same rules and with the same result as the record's.
A private key of which only the end is seen is known by its last line, so lines that may be a part of one are held until
it is clear. Memory and work are bounded: of what comes faster than it can be shown the middle is dropped and counted.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tellback.commands.lines import KEY, CurrentLine, Line, follow_keys
from tellback.commands.truncation import Position, Truncation
from tellback.contracts.commands import Stream
from tellback.redaction import KeyBlocks, Redactor, marker
from tellback.redaction.blocks import MAX_LINES as MAX_HELD
from tellback.redaction.blocks import RULE as PRIVATE_KEY
from tellback.redaction.blocks import is_last_body, is_whole_body

STREAMS: Final[tuple[Stream, Stream]] = ("stdout", "stderr")
MAX_PENDING: Final = 1 << 20  # bytes of a stream that wait to be looked at; one read of a pipe may be as many
CHUNK_COST: Final = 128  # bytes that a chunk takes beside its own
HEAD_BYTES: Final = 32 << 10  # from the beginning of a stream, which are shown however fast it goes on
PIECE_BYTES: Final = 16 << 10  # after which a piece is full
# Work is bounded, since it is done beside a command whose output must not wait: bytes, and so many more for each line.
LINE_COST: Final = 16
BURST: Final = 2 << 20  # that may be spent at once
INCOME: Final = 64 << 10  # by which that is replenished with each look
FLOOD: Final = 32 << 10  # that is spent on a look at an output of which chunks have been dropped unseen
_QUIET_LOOKS: Final = 3  # after which a single short line is shown


class Piece(NamedTuple):
    """Whole lines of one stream; `raw` bytes of output made them, and `dropped` bytes before them are not shown."""

    stream: Stream
    text: str
    raw: int
    dropped: int


class Shown:
    """The lines of one stream that may be shown."""

    def __init__(self, redactor: Redactor) -> None:
        """Take what knows the secrets of this command."""
        self._redactor = redactor
        self._current = CurrentLine()
        self._blocks = KeyBlocks()
        self._names = KeyBlocks()  # of what is shown: a name may wait there for its value
        self._held: deque[Line] = deque()  # whole lines of what may be a key's text, and perhaps its short last line
        self._after_gap = False  # what was dropped may have been the beginning of what is held
        self._quiet = 0
        self._ready: list[Line] = []
        self.dropped = 0  # bytes, since the last piece

    def feed(self, chunk: bytes, position: int = 0) -> None:
        """Take what follows."""
        while (end := chunk.find(b"\n", position)) >= 0:
            self._current.extend(chunk, position, end)
            self._end_line(self._current.end())
            position = end + 1
        self._current.extend(chunk, position, len(chunk))

    def skip(self, chunk: bytes, size: int) -> None:
        """Take what follows, but drop the lines that end within its first `size` bytes."""
        cut = chunk.rfind(b"\n", 0, size)
        if cut < 0:
            self.feed(chunk)
            return
        self._drop_held()
        first = chunk.find(b"\n")
        self._current.extend(chunk, 0, first)
        line = self._current.end()
        self._blocks.takes(line.text())
        follow_keys(self._blocks, chunk, first + 1, cut + 1)
        self.dropped += line.raw + cut - first
        self.feed(chunk, cut + 1)

    def resume(self, position: Position, size: int) -> None:
        """Go on at a later place of the stream, `size` bytes from here."""
        self._drop_held()
        self.dropped += self._current.raw + size - position.current.raw
        self._current, self._blocks = position

    def settle(self) -> None:
        """Nothing has come for a while: a single short line is held no longer.

        It would be the end of a key of which nothing else is seen, and then the key's last line comes with it at once.
        """
        self._quiet += 1
        alone = len(self._held) == 1 and not is_whole_body(self._held[0].text())
        if alone and self._quiet >= _QUIET_LOOKS and not self._after_gap and not self._current.may_end_key():
            self._release()

    def finish(self) -> None:
        """Nothing more comes; a last line without newline is a line."""
        if self._current.pending:
            self._end_line(self._current.end(newline=0))
        self._release()

    def pieces(self, stream: Stream) -> Generator[Piece]:
        """What may be shown and has not been."""
        ready, self._ready = self._ready, []
        start = size = 0
        for number, line in enumerate(ready, 1):
            size += min(line.raw, PIECE_BYTES)
            if size >= PIECE_BYTES or number == len(ready):
                dropped, self.dropped = self.dropped, 0
                lines = ready[start:number]
                yield Piece(stream, self._text(lines), sum(line.raw for line in lines), dropped)
                start, size = number, 0

    def _end_line(self, line: Line) -> None:
        self._quiet = 0
        text = line.text()
        inside = self._blocks.inside
        if inside or KEY in line.start:
            line.key = self._blocks.takes(text)
            if not inside and KeyBlocks.ends(text):
                for held in self._held:
                    held.key = True
        if line.key:
            self._release()
            self._ready.append(line)
        elif is_last_body(text):  # and so may be any other
            self._hold(line)
        else:
            self._release()
            self._ready.append(line)

    def _hold(self, line: Line) -> None:
        if self._held and not is_whole_body(self._held[-1].text()):  # a short line was not the last one
            self._release()
        self._held.append(line)
        if len(self._held) > MAX_HELD:
            self._ready.append(self._held.popleft())

    def _release(self) -> None:
        self._ready += self._held
        self._held.clear()
        self._after_gap = False

    def _drop_held(self) -> None:
        self.dropped += sum(line.raw for line in self._held)
        self._held.clear()
        self._after_gap = True

    def _text(self, lines: Sequence[Line]) -> str:
        searched = "\n".join("" if line.key else line.text() for line in lines)
        hidden = self._redactor.hidden(searched, self._names)
        rules = [PRIVATE_KEY if line.key else hidden.get(number) for number, line in enumerate(lines)]
        return "".join(f"{marker(rule) if rule else line.shown()}\n" for line, rule in zip(lines, rules, strict=True))


class _Gap(NamedTuple):
    """Chunks of a stream that were dropped unseen, and where it goes on."""

    position: Position
    size: int


@dataclass(slots=True)
class _Pending:
    """What of both streams has not been looked at, in the order in which it came."""

    items: list[tuple[int, bytes | _Gap]] = field(default_factory=list[tuple[int, bytes | _Gap]])
    load: list[int] = field(default_factory=lambda: [0, 0])

    def drop(self, number: int, position: Position, keep: int) -> None:
        """Drop what there is of one stream, but for the first `keep` bytes of the first chunk."""
        kept: list[tuple[int, bytes | _Gap]] = []
        size = 0
        for other, item in self.items:
            if other != number:
                kept.append((other, item))
            elif isinstance(item, _Gap):
                size += item.size
            else:
                if keep:
                    kept.append((number, item[:keep]))
                size += len(item[keep:])
                keep = 0
        self.items = [*kept, (number, _Gap(position, size))]
        self.load[number] = 0


class Tap:
    """Takes what a command prints from the thread that reads it, and gives another one what may be shown."""

    def __init__(self, redactor: Redactor) -> None:
        """Take what knows the secrets of this command."""
        self._lock = threading.Lock()
        self._pending = _Pending()
        self._begun = [False, False]
        self._shown = (Shown(redactor), Shown(redactor))
        self._room = BURST

    def take(self, number: int, chunk: bytes, stream: Truncation) -> None:
        """Take a chunk of the first or second stream, which its `stream` has not been fed yet. Costs little."""
        with self._lock:
            pending = self._pending
            if pending.load[number] and pending.load[number] + len(chunk) > MAX_PENDING:
                pending.drop(number, stream.position(), keep=0 if self._begun[number] else HEAD_BYTES)
            pending.items.append((number, chunk))
            pending.load[number] += len(chunk) + CHUNK_COST

    def pieces(self, *, final: bool = False) -> list[Piece]:
        """What may be shown by now; to be asked for each tenth of a second or so, and at the end as `final`."""
        with self._lock:
            pending, self._pending = self._pending, _Pending()
            begun = list(self._begun)
            self._begun = [was or load > 0 for was, load in zip(begun, pending.load, strict=True)]
        found: list[Piece] = []
        excess = self._excess([item for _, item in pending.items])
        for number, item in pending.items:
            shown = self._shown[number]
            if isinstance(item, _Gap):
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
                shown.settle()
            found += shown.pieces(STREAMS[number])
        return found

    @property
    def dropped(self) -> int:
        """Bytes that were dropped after the last piece."""
        return sum(shown.dropped for shown in self._shown)

    def _excess(self, items: Sequence[bytes | _Gap]) -> int:
        """How many of the first bytes of `items` are more than may be worked on now."""
        self._room = min(BURST, self._room + INCOME)
        chunks = [item for item in items if isinstance(item, bytes)]
        room = self._room if len(chunks) == len(items) else min(FLOOD, self._room)
        size = sum(len(chunk) for chunk in chunks)
        cost = size + LINE_COST * sum(chunk.count(b"\n") for chunk in chunks)
        self._room -= min(room, cost)
        return 0 if cost <= room else size - size * room // cost
