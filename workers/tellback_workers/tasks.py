"""The tasks of the intake: consuming a stream, lingering, and waking idle streams.

Their arguments name a stream and never carry an entry, so neither Flower nor a log shows what a host sent.
"""

from __future__ import annotations

import structlog
from celery import shared_task

from tellback.errors import Unavailable
from tellback.names import Family, Task
from tellback.state.keys import Shard
from tellback.state.presence import Presence
from tellback_workers.app import app
from tellback_workers.linger import Lingerer, QueuePressure, linger_slot
from tellback_workers.loops import consumer_of
from tellback_workers.runtime import Runtime, runtime
from tellback_workers.wakeups import next_messages, publish_wakeup, wake_idle, wake_timers

_log = structlog.get_logger("tellback.tasks")


@shared_task(name=Task.CONSUME)
def consume(team: str, shard_index: int, family_name: str) -> None:
    """Apply the entries that wait in one stream."""
    process, family = runtime(), Family(family_name)
    try:
        shard = process.shard(team, shard_index)
        again = consumer_of(process, team, family).consume(shard, family)
        shards = [shard] if again else _linger(process, team, shard, family)
        for each in shards:
            publish_wakeup(app, process.intake(team), each, family)
    except Unavailable as away:  # includes a wake-up that the broker refused: dispatchers find the waiting entries
        _log.warning("consumer.postponed", stream=f"{team}.{shard_index}:{family}", reason=str(away))


def _linger(process: Runtime, team: str, shard: Shard, family: Family) -> list[Shard]:
    """Linger on the family's streams, and return the shards that need another wake-up."""
    settings = process.settings
    # Only for events: an agent waits for the feedback that a tool call earns. Other families have nobody who waits.
    if family is not Family.EVENTS or not settings.linger:
        return []
    with linger_slot.acquire() as free:
        if not free:
            return []
        pressure = QueuePressure(lambda: next_messages(app))
        lingerer = Lingerer(
            process.intake(team),
            consumer_of(process, team, family),
            lambda: linger_slot.is_closing or pressure.needs_worker(),
            lease_seconds=settings.consumer_lease,
            idle_seconds=settings.linger,
            batch=settings.consume_batch,
        )
        return lingerer.linger((shard,) if process.is_cluster else process.layout(team).all, family)


@shared_task(name=Task.WAKE_STREAMS)
def wake_streams(team: str) -> None:
    """Wake a team's idle streams and due timers: the safety net for lost wake-ups and dead consumers."""
    process = runtime()
    try:
        Presence(process.database, process.layout(team)).note_beat()
        wake_idle(app, process.intake(team), process.settings.longest_consumer_lease)
        wake_timers(app, process.intake(team), process.database, process.layout(team))
    except Unavailable as away:
        _log.warning("wakeup.postponed", team=team, reason=str(away))
