"""The task of the intake: consuming streams, then lingering for what comes next.

Its arguments name a stream and never carry an entry, so neither Flower nor a log shows what a host sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import structlog
from celery import shared_task
from celery.exceptions import SoftTimeLimitExceeded

from tellback.errors import InvalidInput, NotFound, Unavailable
from tellback.names import Family, Task
from tellback.state.keys import Shard
from tellback_workers.consumer import SLICE
from tellback_workers.linger import Lingerer, NewStreams, QueuePressure
from tellback_workers.loops import consumer_of
from tellback_workers.pool_locks import pool_locks
from tellback_workers.runtime import Runtime, current_runtime
from tellback_workers.wakeups import has_messages, publish_wakeups

_logger = structlog.get_logger("tellback.tasks")


@shared_task(name=Task.CONSUME)
def consume(family_name: str, streams: Sequence[tuple[str, int]]) -> None:
    """Apply the entries that wait in some streams of a family; each is a team and the number of a shard.

    They get a slice of time: what is left has another wake-up, behind those of the others.

    Raises:
        NotFound: a team does not exist; the other streams are consumed. So they are after other errors.
        InvalidInput: a team has no such shard.
    """
    runtime, family = current_runtime(), Family(family_name)
    shards, failures = _shards_of(runtime, streams)
    # Tool events of many teams go together; the other families have a loop for each team, or a model that takes longer.
    together = family is Family.EVENTS and len(shards) > 1 and not runtime.is_cluster
    groups = deque([shards] if together else [[shard] for shard in shards])
    while groups:
        group = groups.popleft()
        try:
            left = _consume(runtime, group, family, is_all=len(group) == len(shards))
            publish_wakeups(runtime.database, [(shard, family) for shard in left])
        except Unavailable as away:  # includes a wake-up that the broker refused: the scheduler finds what waits
            _postpone([(shard.team, shard.index) for shard in group], away)
        except SoftTimeLimitExceeded:
            raise
        except Exception as error:  # raised below: a team that broke its own keys costs no other anything
            if len(group) == 1:
                _logger.exception("consumer.failed", stream=f"{group[0].team}.{group[0].index}")  # only one is raised
                failures.append(error)
            else:
                groups.extend([shard] for shard in group)
    if failures:
        raise failures[0]


def _shards_of(runtime: Runtime, streams: Sequence[tuple[str, int]]) -> tuple[list[Shard], list[Exception]]:
    """Return the shards of streams, without those whose node does not answer, and the errors of absent ones."""
    shards, failures = list[Shard](), list[Exception]()
    try:
        runtime.known_layouts(team for team, _ in streams)  # of all teams in one round trip
    except Unavailable as away:
        _postpone(streams, away)
        return [], []
    for team, shard_index in streams:
        try:
            shards.append(runtime.shard(team, shard_index))
        except (InvalidInput, NotFound) as error:
            failures.append(error)
        except Unavailable as away:  # of a cluster, its node or the one with the team's own key
            _postpone([(team, shard_index)], away)
    return shards, failures


def _postpone(streams: Sequence[tuple[str, int]], away: Unavailable) -> None:
    _logger.warning("consumer.postponed", streams=[f"{team}.{index}" for team, index in streams], reason=str(away))


def _consume(runtime: Runtime, shards: Sequence[Shard], family: Family, *, is_all: bool) -> list[Shard]:
    """Consume streams, and return those that need another wake-up.

    If these are all of a message's, and all of them are applied, linger.
    """
    first = shards[0]
    consumer = consumer_of(runtime, first.team, family)
    left = consumer.consume_together(shards, family, SLICE)
    if left or not is_all:
        return left
    # Alone, its team's other sessions are expected next; on a cluster one read cannot wait for several slots.
    whole = len(shards) == 1 and not runtime.is_cluster
    return _linger(runtime, runtime.layout(first.team).all if whole else shards, family, is_part=not whole)


def _linger(runtime: Runtime, shards: Sequence[Shard], family: Family, *, is_part: bool) -> list[Shard]:
    """Linger on streams, and return those that need another wake-up.

    If the streams are only a part (`is_part`) of what waits, messages name the others, and come first.
    """
    settings = runtime.settings
    # Only for events: an agent waits for the feedback of each of its many tool calls.
    if family is not Family.EVENTS or not settings.linger:
        return []
    with pool_locks.acquire_linger() as free:
        # In a burst the next message is in the queue already. To wait until no other process is free, as a lingering
        # one does, took a third of the processes' time: each is free for a moment between two messages.
        if not free or (is_part and has_messages()):
            return []
        pressure = QueuePressure(pool_locks.all_others_busy, has_messages)
        lingerer = Lingerer(
            runtime.intake(shards[0].team),
            consumer_of(runtime, shards[0].team, family),
            lambda: pool_locks.is_closing or pressure.needs_worker(),
            lease_seconds=settings.consumer_lease,
            idle_seconds=settings.linger,
            batch=settings.consume_batch,
            news=None if runtime.is_cluster else NewStreams(runtime, family),
        )
        return lingerer.linger(shards, family)
