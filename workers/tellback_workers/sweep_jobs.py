"""The sweep of jobs: a command whose worker died gets the record that says so, and lost wake-ups are repeated.

Any number of sweeps may run at a time: each transition is one script that checks the lease.
"""

from __future__ import annotations

from typing import Final

import structlog
from celery import current_app, shared_task

from tellback.errors import Unavailable
from tellback.names import Task
from tellback.state.absent_hosts import AbsentHosts
from tellback.state.jobs import Jobs, queue_of
from tellback_workers.job_wakeups import wake_pool
from tellback_workers.runtime import runtime
from tellback_workers.wakeups import pending

QUIET_SECONDS: Final = 2.0
RING_SECONDS: Final = 10.0
WAKE_UPS: Final = 4  # that stand in a queue at most for the sweep to add one: a host may be gone for days

_log = structlog.get_logger("tellback.jobs")


@shared_task(name=Task.SWEEP_JOBS)
def sweep_jobs(team: str) -> None:
    """Record what was lost or has nobody to run it, and wake pools whose commands nobody has touched for a while."""
    process = runtime()
    jobs = Jobs(process.database, process.layout(team))
    try:
        for lost in jobs.overdue():
            pool = jobs.lose(lost)
            _log.warning(
                "job.lost",
                command_id=lost.submitted.command_id,
                worker=lost.attempt.worker,
                attempt=lost.attempt.number,
            )
            if pool is not None:
                wake_pool(lost.shard, pool, 1)
        for command_id in AbsentHosts(process.database, process.layout(team)).abandon(process.settings.host_patience):
            _log.warning("job.abandoned", command_id=command_id)
        for shard, pool, queued in jobs.idle_pools(QUIET_SECONDS, RING_SECONDS):
            wake_pool(shard, pool, min(queued, WAKE_UPS - pending(current_app, queue_of(pool))))
    except Unavailable as away:
        _log.warning("sweep.postponed", team=team, reason=str(away))
