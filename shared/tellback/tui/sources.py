"""Where the records come from: a session in Redis, a file with its rotated set, or lines on standard input."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Event
from typing import Final, Protocol

from tellback.commands.recordfile import Loaded, RecordFile, decode
from tellback.contracts.commands import CommandRecord
from tellback.errors import InvalidInput, Unavailable
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.records import Records

POLL: Final = 0.3  # seconds between looks
CHUNK: Final = 2_000  # records given at a time, so that keys are answered in between
READ_BYTES: Final = 1 << 20
MAX_LINE_BYTES: Final = 16 << 20  # far above any record

Deliver = Callable[[list[CommandRecord], str], None]  # records, oldest first, and what is to be said of the source now


class Source(Protocol):
    """Gives what is there, then what comes."""

    @property
    def title(self) -> str:
        """What it is called."""
        ...

    def run(self, deliver: Deliver, stopped: Event) -> None:
        """Deliver until `stopped` is set, or nothing can come any more.

        Raises:
            TellbackError: the source cannot be read.
        """
        ...


class SessionSource:
    """The records of a session in Redis."""

    def __init__(self, database: Database, layout: Layout, session: str) -> None:
        """Take the Redis, the team's shards and the session."""
        self.title = f"session {session}"
        self._database, self._session = database, session
        self._records = Records(database, layout)

    def run(self, deliver: Deliver, stopped: Event) -> None:
        """See `Source`; a Redis that goes away later is asked again."""
        kept, gone = self._records.all(self._session)
        said = _older_are_gone(gone)
        _in_chunks(kept, deliver, said)
        looks = _Looks(deliver, stopped, lambda: self._state() or said)
        for record in self._records.follow(self._session, len(kept) + gone, looks):
            looks.batch.append(record)

    def _state(self) -> str:
        try:
            self._database.command("PING")
        except Unavailable:
            return "Redis is away; asked again"
        return ""


class FileSource:
    """A `feedback_record.jsonl` and the rotated files beside it."""

    def __init__(self, path: Path, session: str | None = None) -> None:
        """Take the path of the current file, which need not exist yet; `session` leaves out others."""
        self.title = str(path) if session is None else f"{path} · session {session}"
        self._file, self._session = RecordFile(path), session

    def run(self, deliver: Deliver, stopped: Event) -> None:
        """See `Source`. What comes while the file is loaded may be delivered twice."""
        while not stopped.is_set():
            try:
                self._follow(deliver, stopped)
            except TimeoutError:  # a writer that was stopped holds the lock
                deliver([], "the file is locked; asked again")
            except OSError as error:
                raise InvalidInput(f"{self._file.path} cannot be read: {error}") from error

    def _follow(self, deliver: Deliver, stopped: Event) -> None:
        said = ""
        looks = _Looks(deliver, stopped, lambda: said)

        def load_first() -> Iterator[None]:
            nonlocal said
            loaded = self._file.load(rotated=True, session=self._session)  # the follower has its place by now
            said = _notes(loaded)
            _in_chunks(loaded.records, deliver, said)
            yield from looks

        for record in self._file.follow(load_first()):
            if self._session in (None, record.session):
                looks.batch.append(record)


class LineSource:
    """JSON lines from a descriptor, such as a pipe that may go on."""

    title = "standard input"

    def __init__(self, descriptor: int) -> None:
        """Take the descriptor, which stays the caller's."""
        self._descriptor = descriptor
        self._unreadable = 0
        self._rest = b""

    def run(self, deliver: Deliver, stopped: Event) -> None:
        """See `Source`."""
        while not stopped.is_set():
            if not select.select([self._descriptor], [], [], POLL)[0]:
                continue
            data = os.read(self._descriptor, READ_BYTES)
            *lines, self._rest = (self._rest + data).split(b"\n")
            if not data or len(self._rest) > MAX_LINE_BYTES:
                lines.append(self._rest)
                self._rest = b""
            records = list(self._decoded(lines))
            _in_chunks(records, deliver, self._said(ended=not data))
            if not data:
                return

    def _decoded(self, lines: Iterable[bytes]) -> Iterator[CommandRecord]:
        for line in lines:
            record = decode(line)
            if record is not None:
                yield record
            elif line.strip():
                self._unreadable += 1

    def _said(self, *, ended: bool) -> str:
        said = ["ended"] if ended else []
        return " · ".join(said + ([f"{self._unreadable} lines are no records"] if self._unreadable else []))


class _Looks:
    """Paces a follower: each step delivers what the look before has found."""

    def __init__(self, deliver: Deliver, stopped: Event, said: Callable[[], str]) -> None:
        self.batch: list[CommandRecord] = []
        self._deliver, self._stopped, self._said = deliver, stopped, said
        self._last = ""

    def __iter__(self) -> Iterator[None]:
        while not self._stopped.is_set():
            yield
            said = self._said()
            if self.batch or said != self._last:
                self._deliver(self.batch, said)
                self.batch, self._last = [], said
            self._stopped.wait(POLL)


def _in_chunks(records: list[CommandRecord], deliver: Deliver, said: str) -> None:
    for start in range(0, len(records), CHUNK) or (0,):
        deliver(records[start : start + CHUNK], said)


def _older_are_gone(number: int) -> str:
    return f"{number} older are gone" if number else ""


def _notes(loaded: Loaded) -> str:
    unreadable = f"{len(loaded.unreadable)} lines are no records" if loaded.unreadable else ""
    return " · ".join(filter(None, (_older_are_gone(loaded.dropped), unreadable)))
