"""Wake-ups: the Celery message that says «this stream has entries», at most one pending for each stream."""

from __future__ import annotations

from typing import Any, Final

from celery import Celery

from tellback.broker import KEY_PREFIX
from tellback.names import Family, Task
from tellback.state.database import Database
from tellback.state.evaluations import due_shards
from tellback.state.intake import Intake, Ring
from tellback.state.keys import Layout, Shard

QUEUED: Final = 1_000  # in a family's queue at most for a round to add one: nobody may read it for days


def wake(app: Celery, intake: Intake, shard: Shard, family: Family) -> Ring:
    """Publish a wake-up, if one is due. Lost ones cost time only: idle streams are rung again."""
    ring = intake.ring(shard, family)
    if ring == "due":
        app.send_task(Task.DRAIN, (shard.team, shard.index, family.value), queue=family.value, ignore_result=True)
    return ring


def wake_idle(app: Celery, intake: Intake) -> None:
    """Wake the streams that have entries and neither a drainer nor a wake-up, unless its queue is long already."""
    idle = intake.idle()
    long = {family for family in {family for _, family in idle} if pending(app, family.value) >= QUEUED}
    for shard, family in idle:
        if family not in long:
            wake(app, intake, shard, family)


def wake_looks(app: Celery, intake: Intake, database: Database, layout: Layout) -> None:
    """Have evaluations looked at whose time has come, on the queue of those who have the providers."""
    due = due_shards(database, layout)
    if not due or pending(app, Family.EVENTS.value) >= QUEUED:
        return
    for shard in due:
        if intake.ring_looks(shard):
            app.send_task(Task.LOOK, (shard.team, shard.index), queue=Family.EVENTS.value, ignore_result=True)


def pending(app: Celery, queue: str) -> int:
    """Messages of a queue that no worker has taken yet."""
    with app.connection_for_write() as connection:
        channel: Any = connection.channel()  # kombu's stubs know only what all transports share
        # Not passive: kombu looks for the queue without the prefix of its keys, and never finds it.
        return int(channel.queue_declare(queue).message_count)


def next_in_line(app: Celery) -> frozenset[bytes]:
    """The message that is taken next of each queue that this worker reads and in which some wait."""
    with app.pool.acquire(block=True) as held:
        connection: Any = held  # kombu's stubs know only what all transports share
        pipe = connection.default_channel.client.pipeline(transaction=False)
        for queue in app.amqp.queues.consume_from:
            pipe.lindex(f"{KEY_PREFIX}{queue}", -1)  # kombu's client prefixes the keys of its own commands alone
        return frozenset(message for message in pipe.execute() if message is not None)
