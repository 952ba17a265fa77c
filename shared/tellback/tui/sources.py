"""The sources of records: a session in Redis, a file with its rotated files, or JSON lines on standard input.

A source runs in a thread and delivers first what exists and then what arrives. Repeats are allowed, since the review
skips them, but for a waiver that came since; a gap isn't, so a follower starts before the existing records are loaded.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Final, Protocol

from tellback.commands.record import LoadedRecords, RecordFile, decode_record
from tellback.contracts.commands import CommandRecord
from tellback.errors import InvalidInput, Unavailable
from tellback.state.audit import AuditEntry, newest_actions
from tellback.state.database import Database, WrongType
from tellback.state.keys import Layout
from tellback.state.records import Records
from tellback.wording import count_phrase

POLL: Final = 0.3  # seconds between polls
CHUNK: Final = 2_000  # records in one batch; the app handles keys between batches
READ_BYTES: Final = 1 << 20
MAX_LINE_BYTES: Final = 16 << 20  # far above any record; bounds memory when the input has no line ends

DeliverRecords = Callable[[list[CommandRecord], str], None]
"""Called with records, oldest first, and the source's current status."""


class RecordSource(Protocol):
    """A source that delivers the existing records, then new ones."""

    @property
    def title(self) -> str:
        """The name that the title line shows."""
        ...

    def run(self, deliver: DeliverRecords, stopped: Event) -> None:
        """Deliver records until `stopped` is set or the source ends.

        Raises:
            TellbackError: the source can't be read.
        """
        ...


class SessionSource:
    """The records of a session in Redis."""

    def __init__(self, database: Database, layout: Layout, session: str) -> None:
        self.title = f"session {session}"
        self._session = session
        self._database, self._layout = database, layout
        self._records = Records(database, layout)

    def run(self, deliver: DeliverRecords, stopped: Event) -> None:
        """Deliver the session's records; once it has begun, it keeps retrying while Redis is unavailable."""
        act = self._last_act()
        kept, gone = self._records.all(self._session)
        said = _evicted_note(gone)
        _deliver_in_chunks(kept, deliver, said)

        def deliver_waived() -> str:
            """Put records into the batch again if somebody may have waived them: they change in place."""
            nonlocal act
            try:
                if (last := self._last_act()) != act:
                    stored, _ = self._records.all(self._session)
                    pacer.batch += [record for record in stored if record.waiver is not None]
                    act = last
            except Unavailable:
                return "Redis is away; retrying"
            return said

        pacer = _PollPacer(deliver, stopped, deliver_waived)
        for record in self._records.follow(self._session, len(kept) + gone, pacer):
            pacer.batch.append(record)

    def _last_act(self) -> list[AuditEntry]:
        with suppress(WrongType):  # of the audit log, which costs no other key
            return newest_actions(self._database, self._layout, 1)
        return []


class FileSource:
    """A `feedback_record.jsonl` and its rotated files; the current file need not exist yet.

    With `session` it delivers only the records of that session.
    """

    def __init__(self, path: Path, session: str | None = None) -> None:
        self.title = str(path) if session is None else f"{path} · session {session}"
        self._file, self._session = RecordFile(path), session

    def run(self, deliver: DeliverRecords, stopped: Event) -> None:
        """Deliver the file's records; those written while it is loaded may be delivered twice."""
        while not stopped.is_set():
            try:
                self._follow(deliver, stopped)
            except TimeoutError:  # a suspended writer holds the lock
                deliver([], "the file is locked; retrying")
            except OSError as error:
                raise InvalidInput(f"can't read {self._file.path}: {error.strerror or error}") from error

    def _follow(self, deliver: DeliverRecords, stopped: Event) -> None:
        said = ""
        pacer = _PollPacer(deliver, stopped, lambda: said)

        def load_first() -> Iterator[None]:
            nonlocal said
            # The follower has its position by now, so nothing is missed.
            loaded = self._file.load(rotated=True, session=self._session)
            said = _load_notes(loaded)
            _deliver_in_chunks(loaded.records, deliver, said)
            yield from pacer

        for record in self._file.follow(load_first()):
            if self._session in (None, record.session):
                pacer.batch.append(record)


class LineSource:
    """JSON lines from a file descriptor, such as a pipe; the caller closes it."""

    title = "standard input"

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._unreadable = 0
        self._rest = b""

    def run(self, deliver: DeliverRecords, stopped: Event) -> None:
        """Deliver a record for each line until the input ends; count the lines that hold none."""
        while not stopped.is_set():
            # Wait with a limit: a read of a silent pipe would never notice `stopped`.
            if not select.select([self._descriptor], [], [], POLL)[0]:
                continue
            data = os.read(self._descriptor, READ_BYTES)
            *lines, self._rest = (self._rest + data).split(b"\n")
            if not data or len(self._rest) > MAX_LINE_BYTES:
                lines.append(self._rest)
                self._rest = b""
            records = list(self._decoded(lines))
            _deliver_in_chunks(records, deliver, self._status_text(ended=not data))
            if not data:
                return

    def _decoded(self, lines: Iterable[bytes]) -> Iterator[CommandRecord]:
        for line in lines:
            record = decode_record(line)
            if record is not None:
                yield record
            elif line.strip():
                self._unreadable += 1

    def _status_text(self, *, ended: bool) -> str:
        said = ["ended"] if ended else []
        return " · ".join(said + ([count_phrase(self._unreadable, "unreadable line")] if self._unreadable else []))


class _PollPacer:
    """Paces a follower: each step delivers what the previous poll found."""

    def __init__(self, deliver: DeliverRecords, stopped: Event, said: Callable[[], str]) -> None:
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


def _deliver_in_chunks(records: list[CommandRecord], deliver: DeliverRecords, said: str) -> None:
    for start in range(0, len(records), CHUNK) or (0,):
        deliver(records[start : start + CHUNK], said)


def _evicted_note(number: int) -> str:
    return f"{number} older are gone" if number else ""


def _load_notes(loaded: LoadedRecords) -> str:
    unreadable = count_phrase(len(loaded.unreadable), "unreadable line") if loaded.unreadable else ""
    return " · ".join(filter(None, (_evicted_note(loaded.dropped), unreadable)))
