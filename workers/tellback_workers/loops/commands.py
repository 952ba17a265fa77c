"""The commands loop: it turns each submission into a queued job and wakes the workers of its pool.

submission in the intake ── this loop ──▶ queued job ── `tellback_workers.jobs` ──▶ record

Nearly always a worker of the pool applies the submissions itself and runs them next, so they need no wake-up.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import msgspec
import structlog

from tellback.commands.checks import addressing_error
from tellback.contracts.codec import encode
from tellback.contracts.commands import CommandSubmitted
from tellback.redaction import redact_text
from tellback.state.intake_lease import IntakeEntry, Lease, RawEntry
from tellback.state.job_keys import pool_of
from tellback.state.job_submissions import enqueue
from tellback_workers.runtime import Runtime
from tellback_workers.wakeups import wake_pool

_logger = structlog.get_logger("tellback.commands")


class _ServedPool(threading.local):
    """The pool whose jobs this thread runs, and how many it has queued for itself since they were counted."""

    pool: str | None = None
    jobs: int = 0


_served = _ServedPool()


@contextmanager
def serving(pool: str) -> Generator[_ServedPool]:
    """Count what this thread queues in `pool` while the block runs, instead of waking that pool's workers."""
    _served.pool, _served.jobs = pool, 0
    try:
        yield _served
    finally:
        _served.pool = None


class CommandsLoop:
    """Applies the submissions of one team."""

    def __init__(self, runtime: Runtime, team: str) -> None:
        self._queue_max = runtime.settings.command_queue_max
        self._db = runtime.database
        self._dead = runtime.dead(team)

    def ready(self) -> None:
        """Return at once: this loop needs only Redis."""

    def apply(self, lease: Lease, entries: Sequence[IntakeEntry]) -> None:
        """Queue each command, or store the record of one that cannot be run; then wake the pools.

        Raises:
            Fenced: another consumer has the lease.
        """
        submissions = [
            (entry, _under_trace(entry, entry.message))
            for entry in entries
            if isinstance(entry.message, CommandSubmitted)
            and not self._dead_letter_unaddressable(lease, entry, entry.message)
        ]
        enqueue(self._db, lease, submissions, self._queue_max)
        # After the commit, because a worker that is woken earlier would find no job.
        for pool, jobs in Counter(pool_of(submitted) for _, submitted in submissions).items():
            if pool == _served.pool:
                _served.jobs += jobs
            else:
                wake_pool(lease.shard, pool, jobs)

    def _dead_letter_unaddressable(self, lease: Lease, entry: IntakeEntry, submitted: CommandSubmitted) -> bool:
        """Add a dead letter and return True if no key could hold the command's record."""
        reason = addressing_error(submitted)
        if reason is None:
            return False
        _logger.warning("command.unaddressable", reason=redact_text(reason))
        self._dead.add(lease, RawEntry(entry.id, encode(submitted), entry.deliveries), reason)
        return True


def _under_trace(entry: IntakeEntry, submitted: CommandSubmitted) -> CommandSubmitted:
    """Return the command with the context of this application, under which its run is traced."""
    return msgspec.structs.replace(submitted, traceparent=entry.trace) if entry.trace else submitted
