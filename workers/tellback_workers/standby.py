"""Standing by: a process that has drained a stream stays with its family's streams, and takes what comes at once.

A wake-up goes through a dispatcher, the broker and a worker's main process, and costs more than most of the batches
that it announces. While somebody attends to a stream, none is published for it.

leases, tokens ── read, blocking ── apply ──▶ quiet, a backlog, needed elsewhere, a minute ──▶ release, look once more
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import IO, Any, Final

import structlog
from billiard.process import current_process
from celery import signals

from tellback import clock
from tellback.contracts.message import MAX_MESSAGE_BYTES
from tellback.names import Family
from tellback.state.intake import READ_BYTES, Fenced, Intake, Lease, RawEntry
from tellback.state.keys import Shard
from tellback_workers.drain import Drainer

LONGEST: Final = 60.0  # seconds, below the time limit of a task
LOOK: Final = 0.025  # seconds between two looks for messages
LOOKS: Final = 8  # in a row with messages that wait: others take them, and are too few
STREAMS: Final = 16  # at once: a read asks for each

_log = structlog.get_logger("tellback.standby")


class Standby:
    """Attends to streams of one family of one team, for one task."""

    def __init__(
        self,
        intake: Intake,
        drainer: Drainer,
        needed: Callable[[], bool],
        *,
        lease_seconds: float,
        quiet: float,
        batch: int,
    ) -> None:
        """Take the streams, what applies their entries, and what says that this process is needed elsewhere.

        It ends after `quiet` seconds without an entry, and when more than `batch` wait in a stream.
        """
        self._intake = intake
        self._drainer = drainer
        self._needed = needed
        self._lease_seconds = lease_seconds
        self._quiet = quiet
        self._batch = batch
        self._held: list[Lease] = []
        self._extend_at = 0.0

    def attend(self, shards: Sequence[Shard], family: Family) -> list[Shard]:
        """Apply what comes until it is quiet, at most for a minute; returns where a further wake-up is due.

        Streams that others drain are taken when they are free. With a backlog it ends too: then several processes are
        to drain, a stream each.

        Raises:
            Unavailable: Redis or what the loop needs is away; everything waits in the streams.
        """
        self._extend_at = clock.monotonic() + self._lease_seconds / 4
        try:
            self._attend(shards[:STREAMS], family)
        finally:
            self._intake.release(*self._held)
        return [lease.shard for lease in self._held if self._intake.has_new(lease)]

    def _attend(self, shards: Sequence[Shard], family: Family) -> None:
        now = look_at = clock.monotonic()
        end, quiet_at = now + LONGEST, now + self._quiet
        while now < min(end, quiet_at):
            if now >= look_at:
                if self._needed():
                    return
                self._join(shards, family)
                look_at = now + LOOK
            self._extend()
            if not self._held:
                return
            came = self._serve()
            if came > self._batch:
                return
            now = clock.monotonic()
            if came:
                quiet_at = now + self._quiet

    def _join(self, shards: Sequence[Shard], family: Family) -> None:
        """Take the streams that are free, and apply what a dead drainer left in them."""
        held = {lease.shard for lease in self._held}
        missing = [shard for shard in shards if shard not in held]
        if not missing:
            return
        joined = self._intake.attend(missing, family, self._lease_seconds)
        self._held += joined
        for lease in joined:
            with self._unless_fenced(lease):
                self._drainer.recover(lease, self._soon())

    def _serve(self) -> int:
        """Apply what comes next; returns the most that came in one stream."""
        read = self._intake.read_waiting(self._held, self._batch + 1)
        if not read:
            read = self._awaited()
        if read:
            self._apply(read)
        return max(map(len, read.values()), default=0)

    def _awaited(self) -> dict[Lease, list[RawEntry]]:
        """What comes next. A publisher's batch comes stream after stream: with its first entries the rest is there."""
        few = max(1, READ_BYTES // (MAX_MESSAGE_BYTES * len(self._held)))  # however large, memory is bounded
        read = self._intake.read_next(self._held, few, round(LOOK * 1000))
        if any(len(raws) == few for raws in read.values()):
            for lease, raws in self._intake.read_waiting(self._held, self._batch).items():
                read[lease] = [*read.get(lease, ()), *raws]
        return read

    def _apply(self, read: Mapping[Lease, Sequence[RawEntry]]) -> None:
        """Apply what came in all streams together, and alone where that is not possible or has failed."""
        left = self._drainer.apply_together(read)
        for lease in left.fenced if left else ():
            self._drop(lease)
        for lease in left.alone if left else read:
            self._extend()  # the streams that follow have waited for this one's providers
            with self._unless_fenced(lease):
                if left:
                    self._drainer.apply_entries(lease, left.alone[lease], self._soon())
                else:
                    self._drainer.recover(lease, self._soon())

    def _extend(self) -> None:
        if clock.monotonic() >= self._extend_at:
            self._held = self._intake.extend(self._held, self._lease_seconds)
            self._extend_at = self._soon()

    def _soon(self) -> float:
        return clock.monotonic() + self._lease_seconds / 4

    @contextmanager
    def _unless_fenced(self, lease: Lease) -> Generator[None]:
        try:
            yield
        except Fenced:
            self._drop(lease)

    def _drop(self, lease: Lease) -> None:
        _log.warning("standby.fenced", stream=lease.stream, fence=lease.fence)
        if lease in self._held:
            self._held.remove(lease)


class Queue:
    """Whether messages wait that need this process, too.

    A message that another process will take is no reason to leave, above all not a wake-up of the streams that are
    attended to: whoever left for one would find it gone, and more of them behind it.
    """

    def __init__(self, next_in_line: Callable[[], frozenset[bytes]]) -> None:
        """Take what reads the next message of each queue that has some."""
        self._next_in_line = next_in_line
        self._seen = frozenset[bytes]()
        self._looks = 0

    def needs_more(self) -> bool:
        """To be asked at each look: the same message is next again, or some have waited for many looks."""
        waiting, before = self._next_in_line(), self._seen
        self._seen, self._looks = waiting, self._looks + 1 if waiting else 0
        return not waiting.isdisjoint(before) or self._looks >= LOOKS


class Place:
    """The one place of a worker to stand by in: a lock on a file that its processes have from their parent.

    A worker of one process has none: that must be there for whatever comes. The lock ends with its holder, and a byte
    in the file says that the worker shuts down.
    """

    def __init__(self) -> None:
        """Open the file with the worker, before its pool."""
        self._file: IO[bytes] | None = None
        signals.worker_init.connect(self._open, weak=False)
        signals.worker_shutting_down.connect(self._close, weak=False)

    @property
    def closing(self) -> bool:
        """Whether the worker shuts down: a warm shutdown waits for what its processes do."""
        return self._file is None or os.fstat(self._file.fileno()).st_size > 0

    @contextmanager
    def taken(self) -> Generator[bool]:
        """Whether it was free; it is the caller's until the context ends."""
        if self._file is None or self.closing or current_process().name == "MainProcess":  # other pools run tasks there
            yield False
            return
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # which of them, depends on the system
            yield False
            return
        try:
            yield True
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _open(self, sender: Any, **_: object) -> None:
        self._file = TemporaryFile(buffering=0) if sender.concurrency > 1 else None  # noqa: SIM115 - open until the process ends

    def _close(self, **_: object) -> None:
        if self._file is not None:
            self._file.write(b"x")


place: Final = Place()
