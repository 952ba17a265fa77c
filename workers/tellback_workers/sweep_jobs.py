"""The sweep of commands: it records those whose worker died or whose host is absent, and repeats lost wake-ups.

It is a duty of the scheduler. Any number of sweeps may run at once, because each transition is one script that checks
the lease.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import structlog

from tellback.errors import Unavailable
from tellback.state.job_keys import pool_of, queue_of
from tellback.state.job_losses import AbsentHosts, Lost
from tellback.state.jobs import Jobs
from tellback.state.keys import Layout, Shard
from tellback.state.steady import gap_ms
from tellback_workers.lease_heartbeat import LeaseTimes
from tellback_workers.runtime import Runtime
from tellback_workers.wakeups import NotPublished, purge, queue_length, wake_pool

_logger = structlog.get_logger("tellback.jobs")

# The part of a lease between a sweep's first sight of an expired lease and the loss. When Redis comes back after an
# outage, all leases look expired, and their holders have to renew first.
WATCH: Final = 0.3

IDLE_SECONDS: Final = 2.0

WAKEUP_SECONDS: Final = 10.0

REPEATED: Final = 4  # wake-ups to which the sweep fills a queue at most: the host may be gone for days


def sweep_jobs(runtime: Runtime, layout: Layout) -> None:
    """Record lost and abandoned commands, and wake the pools whose ready jobs nobody has touched for a while.

    The records need Redis, and no broker.

    Raises:
        Unavailable: Redis is unavailable; the next sweep continues.
    """
    for step in (_lose_overdue, _abandon, _wake_idle):
        try:
            step(runtime, layout)
        except NotPublished as refusal:  # the records are written; only wake-ups wait
            _logger.warning("sweep.postponed", team=layout.team, reason=str(refusal))
        except Unavailable:
            raise
        except Exception:  # a step that fails must not stop the others
            _logger.exception("sweep_jobs.failed", team=layout.team, step=step.__name__)


def _lose_overdue(runtime: Runtime, layout: Layout) -> None:
    jobs = Jobs(runtime.database, layout)
    settings = runtime.settings
    longest = LeaseTimes.of(settings, "retry").lease
    queued_again = Counter[tuple[Shard, str]]()
    for lost in jobs.overdue(settings.job_lease, gap_ms(settings.beat_period), longest):
        try:
            if _lose(jobs, lost, settings.job_lease * WATCH) and lost.again is not None:
                queued_again[lost.shard, pool_of(lost.submitted)] += 1
        except Unavailable:
            raise
        except Exception:  # the other commands get their records; this one is retried later
            _logger.exception("job.not_recorded", command_id=lost.submitted.command_id)
            jobs.postpone_loss(lost.shard, lost.submitted.command_id)
    # Last, because each refusal may take the broker seconds; so the first ends it; the sweep of idle pools continues.
    for (shard, pool), commands in queued_again.items():
        if not wake_pool(shard, pool, commands):
            break


def _lose(jobs: Jobs, lost: Lost, watch: float) -> bool:
    if not jobs.mark_lost(lost, watch):
        return False
    _logger.warning(
        "job.lost",
        command_id=lost.submitted.command_id,
        worker=lost.attempt.worker,
        attempt=lost.attempt.number,
    )
    return True


def _abandon(runtime: Runtime, layout: Layout) -> None:
    abandoned = AbsentHosts(runtime.database, layout).abandon(runtime.settings.host_wait)
    for command_ids in abandoned.values():
        for command_id in command_ids:
            _logger.warning("job.abandoned", command_id=command_id)
    for host in abandoned:  # last, because the broker may be unavailable, and the records matter more
        purge(queue_of(host))


def _wake_idle(runtime: Runtime, layout: Layout) -> None:
    for shard, pool, queued in Jobs(runtime.database, layout).idle_pools(IDLE_SECONDS, WAKEUP_SECONDS):
        wake_pool(shard, pool, min(queued, REPEATED - queue_length(queue_of(pool))))
