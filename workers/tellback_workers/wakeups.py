"""Wake-ups: the Celery message that says «this stream has entries», at most one pending for each stream."""

from __future__ import annotations

from celery import Celery

from tellback.names import Family, Task
from tellback.state.intake import Intake
from tellback.state.keys import Shard


def wake(app: Celery, intake: Intake, shard: Shard, family: Family) -> None:
    """Publish a wake-up, unless one is pending. Lost ones cost time only: idle streams are rung again."""
    if intake.ring(shard, family):
        app.send_task(Task.DRAIN, (shard.team, shard.index, family.value), queue=family.value, ignore_result=True)


def wake_idle(app: Celery, intake: Intake) -> int:
    """Wake the streams that have entries and neither a drainer nor a wake-up; returns how many."""
    idle = intake.idle()
    for shard, family in idle:
        wake(app, intake, shard, family)
    return len(idle)
