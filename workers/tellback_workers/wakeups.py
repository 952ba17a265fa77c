"""The publisher of wake-ups: Celery messages that say "this stream has entries" or "this pool may have a job".

They carry no payload, so a lost one costs time only: sweeps repeat it. At most one is pending for each stream.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import structlog
from celery.app import default_app  # `current_app` is one that a custom provider made in this thread, if any did
from kombu.exceptions import KombuError
from redis import exceptions

from tellback import clock
from tellback.errors import Unavailable
from tellback.names import Family, Task
from tellback.state.database import Database
from tellback.state.evaluations import shards_with_due_timers
from tellback.state.intake import Intake, StreamRef, mark_pending, unmark_pending
from tellback.state.job_keys import ANY_POOL, queue_of
from tellback.state.keys import Layout, Shard

# Wake-ups in a family's queue above which a round adds none. A queue that no worker reads grew by 28,800 messages a day
# for each idle stream.
MAX_QUEUED: Final = 1_000

MAX_STREAMS: Final = 50  # named by one message
MIN_MESSAGES: Final = 4  # into which a burst is divided, so that several processes take part

# Seconds without a call after one that the broker did not answer, which takes five or more: a run of the scheduler has
# some for each team, and the fallbacks of the last of them waited for minutes.
SILENT_SECONDS: Final = 5.0

_silent_until: Final[dict[str, float]] = {}  # by the broker's URL, monotonic

_RETRIES: Final = {"max_retries": 1, "interval_start": 0, "interval_max": 0.1}  # a pooled connection may be dead

_logger = structlog.get_logger("tellback.wakeups")


class NotPublished(Unavailable):
    """Raised when the broker is unavailable or full, so no wake-up can be published."""


def publish(task: Task, arguments: Sequence[Any], queue: str) -> None:
    """Publish a wake-up.

    Raises:
        NotPublished: the broker refused it.
    """
    with _refusals():
        default_app.send_task(task, arguments, queue=queue, ignore_result=True, retry_policy=_RETRIES)


@contextmanager
def _refusals() -> Generator[None]:
    broker = str(default_app.conf.broker_url)
    if clock.monotonic() < _silent_until.get(broker, 0.0):
        raise NotPublished("the broker did not answer a moment ago")
    try:
        yield
    except (KombuError, exceptions.RedisError, OSError) as error:
        if any(isinstance(each, (TimeoutError, exceptions.TimeoutError)) for each in (error, error.__cause__)):
            _silent_until[broker] = clock.monotonic() + SILENT_SECONDS
        raise NotPublished(f"can't publish to the broker ({error})") from error


def publish_wakeups(database: Database, streams: Sequence[StreamRef], *, again: bool = False) -> None:
    """Publish the wake-ups that are due: of streams that have no pending marker and no lingering consumer.

    A burst of many streams is announced in few messages, because publishing one costs more than consuming a small
    stream. `again` is for streams that a visit found, not a notification: families whose queue is long get none, since
    nobody may read it.

    Raises:
        NotPublished: the broker refused one; the markers of what it refused are removed, so that the next try is not
            held back.
    """
    if not streams:
        return
    long = {family for family in {family for _, family in streams} if again and is_long(family)}
    wanted = [stream for stream in streams if stream[1] not in long]
    states = mark_pending(database, wanted)
    due: dict[Family, list[Shard]] = {}
    for (shard, family), state in zip(wanted, states, strict=True):
        if state == "due":
            due.setdefault(family, []).append(shard)
    messages = [
        (family, shards[start : start + size])
        for family, shards in due.items()
        for size in [_streams_in_one(family, len(shards))]
        for start in range(0, len(shards), size)
    ]
    for number, (family, shards) in enumerate(messages):
        try:
            publish(*_message_for(family, shards), family.value)
        except NotPublished:
            unmark_pending(database, [(shard, family) for family, left in messages[number:] for shard in left])
            raise


def _streams_in_one(family: Family, streams: int) -> int:
    """Return how many of a family's streams one message names."""
    return 1 if family is Family.COMMANDS else max(1, min(MAX_STREAMS, streams // MIN_MESSAGES))


def _message_for(family: Family, shards: Sequence[Shard]) -> tuple[Task, tuple[Any, ...]]:
    """Return the task of a wake-up and its arguments.

    A submitted command is run by the task that applies its submission: one message leads from submission to record.
    """
    if family is Family.COMMANDS:
        return Task.RUN_JOB, (shards[0].team, shards[0].index, ANY_POOL)
    return Task.CONSUME, (family.value, [[shard.team, shard.index] for shard in shards])


def is_long(family: Family) -> bool:
    """Check whether so many wake-ups wait in a family's queue that a round of visits should add none."""
    try:
        return queue_length(family.value) >= MAX_QUEUED
    except NotPublished:  # rescue works without the broker, so its outage must not hide idle streams
        return False


def wake_timers(intake: Intake, database: Database, layout: Layout) -> None:
    """Publish a wake-up for each shard with due timers, on the queue of events, whose workers have the providers.

    Without a broker the timers wait: the next tool call of an evaluation fires them too.
    """
    due = shards_with_due_timers(database, layout)
    if not due or is_long(Family.EVENTS):
        return
    for shard in due:
        if intake.try_mark_timers_pending(shard):
            try:
                publish(Task.FIRE_TIMERS, (shard.team, shard.index), Family.EVENTS.value)
            except NotPublished as refusal:
                intake.clear_timers_pending(shard)
                _logger.debug("timers.wakeup_failed", reason=str(refusal))


def queue_length(queue: str) -> int:
    """Return the number of messages in a queue that no worker has fetched.

    Raises:
        NotPublished: the broker is unavailable.
    """
    with _refusals(), default_app.connection_for_write() as connection:
        channel: Any = connection.channel()  # kombu's stubs know only what all transports share
        # Not a passive declare: kombu looks for that queue without its own key prefix and never finds it.
        return int(channel.queue_declare(queue).message_count)


def purge(queue: str) -> None:
    """Drop the wake-ups of a queue that nobody reads; the sweep wakes a worker that reads it later.

    Raises:
        NotPublished: the broker is unavailable.
    """
    with _refusals(), default_app.connection_for_write() as connection:
        channel: Any = connection.channel()  # as in `queue_length`
        channel.queue_purge(queue)


def has_messages() -> bool:
    """Check whether a message waits in any queue that this worker reads.

    Raises:
        NotPublished: the broker is unavailable.
    """
    with _refusals(), default_app.pool.acquire(block=True) as held:
        connection: Any = held  # as in `queue_length`
        channel = connection.default_channel
        return any(channel.queue_declare(queue).message_count for queue in default_app.amqp.queues.consume_from)


MAX_WAKEUPS: Final = 32  # at once; a woken worker continues with the next job, so more would only wait in the queue


def wake_pool(shard: Shard, pool: str, jobs: int) -> bool:
    """Publish up to `jobs` wake-ups for a pool; return False if one was refused, which the sweep repeats."""
    queue = queue_of(pool)
    try:
        # A host may be gone forever: 400 commands for an absent one left 400 messages in its queue. An expiry would
        # bound nothing, because only a reader drops expired messages, and by comparing the clocks of two hosts. The
        # queue of ANY_POOL always has readers: the workers that apply the submissions.
        room = MAX_WAKEUPS if pool == ANY_POOL else MAX_WAKEUPS - queue_length(queue)
        for _ in range(min(jobs, room)):
            publish(Task.RUN_JOB, (shard.team, shard.index, pool), queue)
    except NotPublished as refusal:
        _logger.warning("job.wakeup_failed", team=shard.team, pool=pool, reason=str(refusal))
        return False
    return True
