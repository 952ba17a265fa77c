"""The task of the intake: consuming streams, then lingering for what comes next.

Its arguments name a stream and never carry an entry, so neither Flower nor a log shows what a host sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog
from celery import shared_task

from tellback.errors import InvalidInput, Unavailable
from tellback.names import Family, Task
from tellback.state.keys import Shard
from tellback_workers.app import app
from tellback_workers.linger import Lingerer, NewStreams, QueuePressure
from tellback_workers.loops import consumer_of
from tellback_workers.pool_locks import pool_locks
from tellback_workers.runtime import Runtime, runtime
from tellback_workers.wakeups import has_messages, publish_wakeups

SLICE: Final = 0.25  # seconds for each stream of several that are consumed one after the other

_log = structlog.get_logger("tellback.tasks")


@shared_task(name=Task.CONSUME)
def consume(family_name: str, streams: Sequence[tuple[str, int]]) -> None:
    """Apply the entries that wait in some streams of a family; each is a team and the number of a shard.

    Several streams get a share each: what is left has another wake-up, behind those of the others.

    Raises:
        InvalidInput: a team or shard does not exist; the other streams are consumed.
    """
    process, family = runtime(), Family(family_name)
    process.known_layouts(team for team, _ in streams)  # of all teams in one round trip
    shards, wrong = list[Shard](), list[InvalidInput]()
    for team, shard_index in streams:
        try:
            shards.append(process.shard(team, shard_index))
        except InvalidInput as error:
            wrong.append(error)
    # Tool events of many teams go together; the other families have a loop for each team, or a model that takes longer.
    together = family is Family.EVENTS and len(shards) > 1 and not process.is_cluster
    for some in [shards] if together else [[shard] for shard in shards]:
        try:
            left = _consume(process, some, family, None if len(shards) == 1 else SLICE)
            publish_wakeups(app, process.database, [(shard, family) for shard in left])
        except Unavailable as away:  # includes a wake-up that the broker refused: the scheduler finds what waits
            _log.warning("consumer.postponed", streams=[f"{one.team}.{one.index}" for one in some], reason=str(away))
    if wrong:
        raise wrong[0]


def _consume(process: Runtime, shards: Sequence[Shard], family: Family, most: float | None) -> list[Shard]:
    """Consume streams, linger if all of them are applied, and return those that need another wake-up."""
    first = shards[0]
    consumer = consumer_of(process, first.team, family)
    if len(shards) > 1:
        left = consumer.consume_together(shards, family)
    else:
        left = [first] if consumer.consume(first, family, most) else []
    if left or (most is not None and len(shards) == 1):
        return left
    # Alone, its team's other sessions are expected next; on a cluster one read cannot wait for several slots.
    whole = len(shards) == 1 and not process.is_cluster
    return _linger(process, process.layout(first.team).all if whole else shards, family)


def _linger(process: Runtime, shards: Sequence[Shard], family: Family) -> list[Shard]:
    """Linger on streams, and return those that need another wake-up."""
    settings = process.settings
    # Only for events: an agent waits for the feedback that a tool call earns. Other families have nobody who waits.
    if family is not Family.EVENTS or not settings.linger:
        return []
    with pool_locks.acquire_linger() as free:
        pressure = QueuePressure(pool_locks.all_others_busy, lambda: has_messages(app))
        # A burst of many teams has its next message in the queue already.
        is_burst = shards[0].team != shards[-1].team
        if not free or (is_burst and pressure.is_high()):
            return []
        lingerer = Lingerer(
            process.intake(shards[0].team),
            consumer_of(process, shards[0].team, family),
            lambda: pool_locks.is_closing or pressure.needs_worker(),
            lease_seconds=settings.consumer_lease,
            idle_seconds=settings.linger,
            batch=settings.consume_batch,
            news=None if process.is_cluster else NewStreams(process, family),
        )
        return lingerer.linger(shards, family)
