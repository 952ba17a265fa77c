"""The tasks of the intake. Arguments name a stream and never carry what is in it."""

from __future__ import annotations

from threading import Lock

import structlog
from celery import shared_task

from tellback.errors import Unavailable
from tellback.names import Family, Task
from tellback.state.keys import Shard
from tellback.state.presence import Presence
from tellback_workers.app import app
from tellback_workers.drain import Drainer
from tellback_workers.loops import loop_of
from tellback_workers.runtime import Runtime, runtime
from tellback_workers.standby import Queue, Standby, place
from tellback_workers.wakeups import next_in_line, wake, wake_idle, wake_looks

_log = structlog.get_logger("tellback.tasks")
_trials = Lock()  # of the model, which the threads of a process share; no parent of a fork drains


def drainer(process: Runtime, team: str, family: Family) -> Drainer:
    """The drainer of a family; leases are longer where a model computes between reading and applying."""
    settings = process.settings
    embeds = family in (Family.SIGNALS, Family.RECALLS)
    return Drainer(
        process.intake(team),
        process.dead(team),
        loop_of(process, team, family),
        lease_seconds=settings.embed_lease if embeds else settings.drain_lease,
        batch=settings.drain_batch,
        trials=_trials if embeds else None,
        patience=settings.model_patience,
    )


@shared_task(name=Task.DRAIN)
def drain(team: str, shard_index: int, family_name: str) -> None:
    """Apply what waits in one stream."""
    process, family = runtime(), Family(family_name)
    shard = process.layout(team).shard(shard_index)
    try:
        again = drainer(process, team, family).drain(shard, family)
        shards = [shard] if again else _stand_by(process, team, shard, family)
    except Unavailable as away:
        _log.warning("drain.postponed", stream=f"{shard.team}.{shard.index}:{family}", reason=str(away))
        return
    for each in shards:
        wake(app, process.intake(team), each, family)


def _stand_by(process: Runtime, team: str, shard: Shard, family: Family) -> list[Shard]:
    """Stay with the family's streams where an agent awaits what comes of them, and nothing else needs this process."""
    settings = process.settings
    if family is not Family.EVENTS or not settings.standby:
        return []
    with place.taken() as free:
        if not free:
            return []
        queue = Queue(lambda: next_in_line(app))
        standby = Standby(
            process.intake(team),
            drainer(process, team, family),
            lambda: place.closing or queue.needs_more(),
            lease_seconds=settings.drain_lease,
            quiet=settings.standby,
            batch=settings.drain_batch,
        )
        return standby.attend((shard,) if process.is_cluster else process.layout(team).all, family)


@shared_task(name=Task.RING)
def ring(team: str) -> None:
    """Wake a team's streams that nobody drains: the safety net for lost wake-ups and dead drainers."""
    process = runtime()
    wake_idle(app, process.intake(team))
    wake_looks(app, process.intake(team), process.database, process.layout(team))
    Presence(process.database, process.layout(team)).rung()
