"""Lingering: a process that has consumed a stream stays with its family's streams and applies new entries at once.

A wake-up passes through a dispatcher, the broker and a worker's main process, and costs more than most of the batches
that it announces. While a process lingers on a stream, no wake-up is published for it. The measurements are in
docs/decisions/lingering.md.

leases ── blocking read ── apply ──▶ quiet, a backlog, needed elsewhere, or a minute ──▶ release, check once more
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import structlog

from tellback import clock
from tellback.names import Family
from tellback.state.intake import Intake
from tellback.state.intake_entry import RawEntry
from tellback.state.intake_lease import Fenced, Lease
from tellback.state.keys import Shard
from tellback_workers.consumer import Consumer

MAX_SECONDS: Final = 60.0  # below the time limit of a task
CHECK_SECONDS: Final = 0.025  # between two checks for messages that need this process
# Checks in a row: a message of this moment is often one that a process fetches which has just become free.
PRESSURE_CHECKS: Final = 2
MAX_STREAMS: Final = 16  # at once, because each read names every stream

_log = structlog.get_logger("tellback.linger")


class Lingerer:
    """Lingers on the streams of one family of one team, for one task."""

    def __init__(
        self,
        intake: Intake,
        consumer: Consumer,
        has_other_work: Callable[[], bool],
        *,
        lease_seconds: float,
        idle_seconds: float,
        batch: int,
    ) -> None:
        """Set up a lingerer that leaves when `has_other_work` returns True.

        It also leaves after `idle_seconds` without an entry, and when more than `batch` entries wait in a stream.
        """
        self._intake = intake
        self._consumer = consumer
        self._has_other_work = has_other_work
        self._lease_seconds = lease_seconds
        self._idle_seconds = idle_seconds
        self._batch = batch
        self._leases: list[Lease] = []
        self._last_read: dict[Lease, bytes] = {}  # the id of the last entry of each stream
        self._unrecovered: list[Shard] = []
        self._extend_at = 0.0

    def linger(self, shards: Sequence[Shard], family: Family) -> list[Shard]:
        """Apply new entries until it is quiet, for at most a minute; return the shards that need another wake-up.

        Streams that others consume are leased as soon as they are free.

        Raises:
            Unavailable: Redis, or something that the loop needs, is unavailable; the entries stay in their streams.
        """
        self._extend_at = clock.monotonic() + self._lease_seconds / 4
        try:
            self._run(shards[:MAX_STREAMS], family)
        finally:
            self._consumer.release(self._last_read, self._leases)
        return [*self._unrecovered, *(lease.shard for lease in self._leases if self._intake.has_new(lease))]

    def _run(self, shards: Sequence[Shard], family: Family) -> None:
        now = check_at = clock.monotonic()
        end, quiet_at = now + MAX_SECONDS, now + self._idle_seconds
        while now < min(end, quiet_at):
            if now >= check_at:
                if self._has_other_work():
                    return
                self._take_free_streams(shards, family)
                check_at = now + CHECK_SECONDS
            self._renew_leases()
            if not self._leases:
                return
            received = self._consume_next()
            if received > self._batch:  # with a backlog, several processes with a stream each are faster
                return
            now = clock.monotonic()
            if received:
                quiet_at = now + self._idle_seconds

    def _take_free_streams(self, shards: Sequence[Shard], family: Family) -> None:
        """Lease the streams that are free, and recover what a dead consumer left in them."""
        leased = {lease.shard for lease in self._leases}
        missing = [shard for shard in shards if shard not in leased]
        if not missing:
            return
        joined = self._intake.lease_to_linger(missing, family, self._lease_seconds)
        self._leases += joined
        self._last_read |= self._intake.last_read(joined)
        for lease in joined:
            self._recover(lease)

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

    def _consume_next(self) -> int:
        """Wait for the next entries of any stream and apply them; return the largest number of them in one stream."""
        after = {lease: self._last_read[lease] for lease in self._leases}
        read = self._intake.read_next(after, self._batch + 1, round(CHECK_SECONDS * 1000))
        for lease in read.fenced:
            self._drop(lease)
        for lease, raws in read.entries.items():
            self._last_read[lease] = raws[-1].id.encode()
        if read.entries:
            self._apply(read.entries)
        return max(map(len, read.entries.values()), default=0)

    def _apply(self, read: Mapping[Lease, Sequence[RawEntry]]) -> None:
        """Apply the entries of all streams together; apply a stream alone if that is impossible or failed."""
        deferred = self._consumer.apply_together(read)
        for lease in deferred.fenced if deferred else ():
            self._drop(lease)
        for lease in list(deferred.separate if deferred else read):
            self._renew_leases()  # the later streams wait for the providers of the earlier ones
            if deferred:
                entries, end = deferred.separate[lease], self._quarter_lease()
                self._give_up_unless(lease, partial(self._consumer.apply_entries, lease, entries, end))
            else:
                self._recover(lease)

    def _renew_leases(self) -> None:
        if clock.monotonic() >= self._extend_at:
            self._leases = self._intake.renew_lingering(self._leases, self._lease_seconds)
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
        _log.warning("linger.fenced", stream=lease.stream, fence=lease.fence)
        if lease in self._leases:
            self._leases.remove(lease)


class QueuePressure:
    """The test of the worker's queues that tells a lingering process when it is needed.

    While another process of the worker is free, it is about to fetch what waits, most of all the wake-ups for the
    streams that this process lingers on. A process that left for those would find them gone, with more behind them.
    """

    def __init__(self, all_others_busy: Callable[[], bool], has_messages: Callable[[], bool]) -> None:
        self._all_others_busy = all_others_busy
        self._has_messages = has_messages
        self._checks = 0

    def needs_worker(self) -> bool:
        """Return True if messages have waited, with no other process free, in the last `PRESSURE_CHECKS` calls."""
        needed = self._all_others_busy() and self._has_messages()
        self._checks = self._checks + 1 if needed else 0
        return self._checks >= PRESSURE_CHECKS
