"""Lingering: a process that has consumed streams stays with them, and applies what comes next of any team at once.

A wake-up passes through a dispatcher, the broker and a worker's main process, and costs more than most of the batches
that it announces. While a process lingers on a stream, no wake-up is published for it. It reads notifications as
dispatchers do, and takes the streams that they name. The measurements are in docs/decisions/lingering.md.

leases ── blocking read ── apply ──▶ all quiet, a backlog, needed elsewhere, or a minute ──▶ release, check once more
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from heapq import nsmallest
from operator import itemgetter
from typing import Any, Final

import structlog

from tellback import clock
from tellback.names import Family
from tellback.state.intake import Intake, Notifications
from tellback.state.intake_lease import Fenced, IntakeEntry, Lease, RawEntry, Read
from tellback.state.keys import Shard
from tellback_workers.consumer import Consumer
from tellback_workers.runtime import Runtime
from tellback_workers.wakeups import NotPublished

MAX_SECONDS: Final = 60.0  # below the time limit of a task
CHECK_SECONDS: Final = 0.025  # between two checks for messages that need this process
# Between two checks of which both must find it: a message of this moment is often one that a process fetches which has
# just become free. Meanwhile the process reads every `NOTIFIED_SECONDS`, without blocking: a quiet Redis would end a
# read of so short a time 0.1 s late.
RECHECK_SECONDS: Final = 0.01
NOTIFIED_SECONDS: Final = 0.001  # from a notification to the next check
# At once, because each read names every stream. One that is left out costs a wake-up an event: with 16, fifty streams
# took two to five times as much processor time for each.
MAX_STREAMS: Final = 128
# After its last entry a stream makes room, if this process has no more. An agent's next call, for which the process
# stays longer, is worth less than the calls of others that come now.
IDLE_WHEN_FULL: Final = 0.5

# Sessions whose entries are applied together, before the process reads what has come meanwhile. With all sessions of a
# host's batch at once, a call that came just after it waited for 5 ms. Each part costs 0.5 ms of processor time.
SESSIONS: Final = 5

NO_ENTRY: Final = b"0-0"  # the id of the last entry read of a stream of which none was, or that is not there

_logger = structlog.get_logger("tellback.linger")


class NewStreams:
    """The streams of one family, of any team that a worker serves, that notifications name from now on."""

    def __init__(self, runtime: Runtime, family: Family) -> None:
        self._runtime = runtime
        self._family = family
        self._notifications = Notifications(runtime.database)

    def after(self) -> str:
        """Return the id of the last notification that was seen."""
        return self._notifications.last_seen()

    def named(self, reply: Any) -> list[Shard]:
        """Return the shards of the streams that the reply of `Intake.read_next` names."""
        found = self._runtime.streams_of(self._notifications.note_seen(reply))
        return [shard for shard, family in found if family == self._family]


class UnappliedEntries:
    """Entries that were read and not yet applied, each session's in order."""

    def __init__(self) -> None:
        self._sessions: dict[Lease, dict[str, list[IntakeEntry]]] = {}

    def __bool__(self) -> bool:
        return bool(self._sessions)

    @property
    def leases(self) -> Collection[Lease]:
        """The leases of their streams."""
        return self._sessions.keys()

    def add(self, lease: Lease, entries: Iterable[IntakeEntry]) -> None:
        """Add new entries of a stream."""
        for entry in entries:
            sessions = self._sessions.setdefault(lease, {})
            sessions.setdefault(entry.message.routing, []).append(entry)

    def take(self, most: int) -> dict[Lease, list[IntakeEntry]]:
        """Remove and return the entries of at most `most` sessions.

        Those with the fewest come first: a call whose feedback an agent awaits is often its session's only one.
        """
        waiting = [(len(some), lease, name) for lease, each in self._sessions.items() for name, some in each.items()]
        taken: dict[Lease, list[IntakeEntry]] = {}
        for _, lease, session in nsmallest(most, waiting, key=itemgetter(0)):
            taken.setdefault(lease, []).extend(self._sessions[lease].pop(session))
            if not self._sessions[lease]:
                del self._sessions[lease]
        return taken

    def take_stream(self, lease: Lease) -> list[IntakeEntry]:
        """Remove and return all entries of a stream."""
        return [entry for entries in self._sessions.pop(lease, {}).values() for entry in entries]


class Lingerer:
    """Lingers on streams of one family, for one task."""

    def __init__(
        self,
        intake: Intake,
        consumer: Consumer,
        has_other_work: Callable[[], bool],
        *,
        lease_seconds: float,
        idle_seconds: float,
        batch: int,
        news: NewStreams | None = None,
    ) -> None:
        """Set up a lingerer that takes streams that `news` names.

        It leaves when `has_other_work` returns True, and does so again `RECHECK_SECONDS` later. It leaves when all
        streams had no entry for `idle_seconds`, those that had none for `IDLE_WHEN_FULL` when it needs the room, and
        all of them when more than `batch` entries wait.
        """
        self._intake = intake
        self._consumer = consumer
        self._has_other_work = has_other_work
        self._lease_seconds = lease_seconds
        self._idle_seconds = idle_seconds
        self._batch = batch
        self._news = news
        self._wanted: dict[Shard, float] = {}  # the streams, and since when each is quiet
        self._leases: list[Lease] = []
        self._last_read: dict[Lease, bytes] = {}  # the id of the last entry of each stream
        self._unrecovered: list[Shard] = []
        self._extend_at = 0.0
        self._check_at = 0.0
        self._is_rechecking = False  # the last check found other work
        self._unapplied = UnappliedEntries()
        self._ahead = 0  # entries that were read since all were applied

    def linger(self, shards: Sequence[Shard], family: Family) -> list[Shard]:
        """Apply new entries until it is quiet, for at most a minute; return the shards that need another wake-up.

        Streams that others consume are leased as soon as they are free.

        Raises:
            Unavailable: Redis, or something that the loop needs, is unavailable; the entries stay in their streams.
        """
        self._extend_at = clock.monotonic() + self._lease_seconds / 4
        if self._news:
            self._news.after()  # from now on: what is notified while the first streams are taken must not be missed
        try:
            self._want(shards)
            self._run(family)
            while self._unapplied:
                self._renew_leases()
                self._apply_next()
        finally:
            self._consumer.release(self._last_read, self._leases)
        return [*self._unrecovered, *(lease.shard for lease in self._intake.with_new(self._leases))]

    def _run(self, family: Family) -> None:
        now = self._check_at = clock.monotonic()
        end = now + MAX_SECONDS
        while now < end:
            received = 0
            if now >= self._check_at:
                was_found, self._is_rechecking = self._is_rechecking, self._has_other_work()
                if was_found and self._is_rechecking:
                    return
                received = self._leave_quiet(now) or self._take_free(family)
                # After a recheck that found none soon again: a notification may have come since the check.
                pause = NOTIFIED_SECONDS if was_found else CHECK_SECONDS
                self._check_at = clock.monotonic() + (RECHECK_SECONDS if self._is_rechecking else pause)
            self._renew_leases()
            if not self._leases:
                return
            received = received or self._consume_next(family)
            if received > self._batch:  # with a backlog, several processes with a stream each are faster
                return
            now = clock.monotonic()

    def _want(self, shards: Iterable[Shard]) -> None:
        now = clock.monotonic()
        for shard in shards:
            if shard in self._wanted or len(self._wanted) < MAX_STREAMS:
                self._wanted[shard] = now

    def _leave_quiet(self, now: float) -> int:
        """Release streams that are quiet, if others need their room; return the number of entries that were read."""
        is_full = len(self._wanted) >= MAX_STREAMS
        idle = min(self._idle_seconds, IDLE_WHEN_FULL) if is_full else self._idle_seconds
        quiet = {shard for shard, since in self._wanted.items() if since + idle <= now}
        if len(quiet) < len(self._wanted) and not is_full:  # left now, each would cost a wake-up with its next entry
            quiet -= {lease.shard for lease in self._leases}
        quiet -= {lease.shard for lease in self._unapplied.leases}
        if not quiet:
            return 0
        leases = [lease for lease in self._leases if lease.shard in quiet]
        read = self._intake.read_or_release(leases, self._share(leases)) if leases else Read()
        for lease in read.fenced:
            self._drop(lease)
        for lease in read.released:
            self._leases.remove(lease)
        self._consumer.release(read.released, [])
        for shard in quiet - {lease.shard for lease in (*read.entries, *read.fenced)}:
            del self._wanted[shard]
        return self._keep(read.entries)

    def _take_free(self, family: Family) -> int:
        """Lease the wanted streams that are free, read what waits there, and return the number of entries."""
        leased = {lease.shard for lease in self._leases}
        missing = [shard for shard in self._wanted if shard not in leased]
        if not missing:
            return 0
        taken = self._intake.take_each(missing, family, self._lease_seconds, self._share(missing), linger=True)
        self._leases += [one.lease for one in taken]
        left_by_others = [one.lease for one in taken if one.pending]
        self._last_read |= self._intake.last_read(left_by_others) if left_by_others else {}
        # A stream without entries has none pending, so any entry is a new one.
        empty = {one.lease: NO_ENTRY for one in taken if not one.pending}
        self._last_read |= empty
        for lease in left_by_others:
            self._recover(lease)
        return self._keep({one.lease: one.entries for one in taken if one.entries})

    def _share(self, streams: Sequence[object]) -> int:
        """Return how many entries of each stream are read: together more than a batch, which shows a backlog."""
        return self._batch // len(streams) + 1

    def _recover(self, lease: Lease) -> None:
        """Apply what is pending; if that takes too long, give the stream up to a consumer of its own."""
        self._give_up_unless(lease, lambda: self._consumer.recover_pending(lease, self._quarter_lease()))

    def _give_up_unless(self, lease: Lease, recovered: Callable[[], bool]) -> None:
        with self._dropping_fenced(lease):
            if not recovered() and lease in self._leases:
                # New entries that were read before the rest is recovered would be applied before it.
                self._leases.remove(lease)
                self._intake.release(lease)
                self._unrecovered.append(lease.shard)

    def _consume_next(self, family: Family) -> int:
        """Apply entries of a few sessions, and wait for the next ones if there are none; return the number read."""
        if not self._unapplied:
            self._ahead = 0
        # So no session waits for more than two batches of others that come in between.
        received = self._read_next(family) if self._ahead <= self._batch else 0
        self._ahead += received
        if self._is_rechecking and not self._unapplied:
            clock.sleep(NOTIFIED_SECONDS)
        self._apply_next()
        return received

    def _read_next(self, family: Family) -> int:
        """Read the next entries of any stream, and wait for them if there are none to apply; return their number."""
        after = {lease: self._last_read[lease] for lease in self._leases}
        notified_after = self._news.after() if self._news else None
        check_soon = self._check_at <= clock.monotonic() + NOTIFIED_SECONDS
        wait = NOTIFIED_SECONDS if check_soon else CHECK_SECONDS
        block_ms = 0 if self._unapplied or self._is_rechecking else round(wait * 1000)
        read = self._intake.read_next(after, self._batch + 1, block_ms, notified_after)
        for lease in read.fenced:
            self._drop(lease)
        received = self._keep(read.entries)
        if self._news and read.notified:
            # A wake-up may follow that needs this process. Redis ends a blocking read whose time is over with the first
            # command that it gets, but by itself only ten times a second: this check alone would come 0.1 s late.
            if not self._is_rechecking:
                self._check_at = clock.monotonic() + NOTIFIED_SECONDS
            self._want(self._news.named(read.notified))
            received += self._take_free(family)
        return received

    def _keep(self, read: Mapping[Lease, Sequence[RawEntry]]) -> int:
        """Keep new entries until it is their turn, and return their number."""
        for lease, raws in read.items():
            self._last_read[lease] = raws[-1].id.encode()
        self._want(lease.shard for lease in read)
        decoded, fenced = self._consumer.decode_each(read)
        for lease in fenced:
            self._drop(lease)
        for lease, entries in decoded.items():
            self._unapplied.add(lease, entries)
        return sum(map(len, read.values()))

    def _apply_next(self) -> None:
        """Apply entries of a few sessions together; apply a stream alone if that is impossible or failed."""
        batches = self._unapplied.take(SESSIONS)
        if not batches:
            return
        deferred = self._consumer.apply_together(batches)
        for lease in deferred.fenced if deferred else ():
            self._drop(lease)
        for lease in list(deferred.separate if deferred else batches):
            self._renew_leases()  # the later streams wait for the providers of the earlier ones
            others = self._unapplied.take_stream(lease)  # recovery would apply them too
            if deferred:
                entries, end = [*deferred.separate[lease], *others], self._quarter_lease()
                self._give_up_unless(lease, partial(self._consumer.apply_entries, lease, entries, end))
            else:
                self._recover(lease)

    def _renew_leases(self) -> None:
        if clock.monotonic() >= self._extend_at:
            ours = self._intake.renew_lingering(self._leases, self._lease_seconds)
            for lost in set(self._leases).difference(ours):
                self._drop(lost)
            self._extend_at = self._quarter_lease()

    def _quarter_lease(self) -> float:
        return clock.monotonic() + self._lease_seconds / 4

    @contextmanager
    def _dropping_fenced(self, lease: Lease) -> Generator[None]:
        try:
            yield
        except Fenced:
            self._drop(lease)

    def _drop(self, lease: Lease) -> None:
        """Leave a stream until it is free again, and that of a removed team for good: its keys must stay deleted."""
        _logger.warning("linger.fenced", stream=lease.stream, fence=lease.fence)
        if self._intake.last_read([lease])[lease] == NO_ENTRY:
            self._wanted.pop(lease.shard, None)
        self._unapplied.take_stream(lease)
        if lease in self._leases:
            self._leases.remove(lease)


class QueuePressure:
    """The check of the worker's queues, by which a lingering process learns that it is needed.

    While another process of the worker is free, it is about to fetch what waits, most of all the wake-ups for the
    streams that this process lingers on. A process that left for those would find them gone, with more behind them.
    """

    def __init__(self, all_others_busy: Callable[[], bool], has_messages: Callable[[], bool]) -> None:
        self._all_others_busy = all_others_busy
        self._has_messages = has_messages

    def needs_worker(self) -> bool:
        """Return True if messages wait with no other process free, or if the broker cannot be asked.

        Raised, its error would leave what was read and not yet applied to the next visit.
        """
        try:
            return self._all_others_busy() and self._has_messages()
        except NotPublished:
            return True
