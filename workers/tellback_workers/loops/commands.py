"""The commands loop: a submission becomes a queued job, and wake-ups tell the workers of its pool.

Where a submission lives: intake ──▶ here ──▶ job, queued ──▶ `tellback_workers.jobs` runs it ──▶ record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import structlog

from tellback.commands.checks import problem, unaddressable
from tellback.contracts.codec import encode
from tellback.contracts.commands import CommandSubmitted
from tellback.redaction import redact_text
from tellback.state.intake import Entry, Lease, RawEntry, committed
from tellback.state.jobs import Jobs, pool_of
from tellback_workers.job_wakeups import wake_pool
from tellback_workers.runtime import Runtime

_log = structlog.get_logger("tellback.commands")


class CommandsLoop:
    """Applies the submissions of one team."""

    def __init__(self, runtime: Runtime, team: str) -> None:
        """Take the process's connections and the team."""
        self._db = runtime.database
        self._jobs = Jobs(runtime.database, runtime.layout(team))
        self._dead = runtime.dead(team)

    def ready(self) -> None:
        """Nothing is needed but Redis."""

    def apply(self, lease: Lease, entries: Sequence[Entry]) -> None:
        """Queue each command, or store the record of one that cannot be run; then wake the pools.

        Raises:
            Fenced: the lease has passed on.
        """
        facts = [(entry, entry.message) for entry in entries if isinstance(entry.message, CommandSubmitted)]
        calls = [
            self._jobs.enqueue(lease, entry, submitted, problem(submitted))
            for entry, submitted in facts
            if not self._buried(lease, entry, submitted)
        ]
        for reply in self._db.run_all(calls):
            committed(reply)
        for pool, jobs in Counter(pool_of(submitted) for _, submitted in facts).items():
            wake_pool(lease.shard, pool, jobs)

    def _buried(self, lease: Lease, entry: Entry, submitted: CommandSubmitted) -> bool:
        """Whether no record can be kept for it, so that it is a dead letter."""
        reason = unaddressable(submitted)
        if reason is None:
            return False
        _log.warning("command.unaddressable", reason=redact_text(reason))
        self._dead.bury(lease, RawEntry(entry.id, encode(submitted), entry.deliveries), reason)
        return True
