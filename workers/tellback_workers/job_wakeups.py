"""Wake-ups of pools: the Celery message that says «a job may be ready» and names no job."""

from __future__ import annotations

from typing import Final

from celery import current_app

from tellback.names import Task
from tellback.state.jobs import queue_of
from tellback.state.keys import Shard

MOST: Final = 32  # at once: whoever is woken goes on with the next job, so more would only stand in the queue


def wake_pool(shard: Shard, pool: str, jobs: int) -> None:
    """Wake up to `jobs` workers of a pool. Lost wake-ups cost time only: the sweep wakes pools that nobody touches."""
    for _ in range(min(jobs, MOST)):
        current_app.send_task(Task.RUN_JOB, (shard.team, shard.index, pool), queue=queue_of(pool), ignore_result=True)
