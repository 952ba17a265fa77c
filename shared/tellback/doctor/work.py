"""What waits: facts in the intake, wake-ups in Celery's queues, dead letters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tellback.broker import KEY_PREFIX
from tellback.doctor.finding import Finding, note, ok, wrong
from tellback.errors import Unavailable
from tellback.names import SWEEPS_QUEUE, Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.dead import DeadLetters
from tellback.state.keys import Layout, stream_of
from tellback.state.presence import Worker
from tellback.state.sweeps import Sweeps
from tellback.state.turn_stats import TurnStats
from tellback.urls import without_secrets

SLOW_SECONDS: Final = 30.0
MANY_MESSAGES: Final = 10_000
LATE_SWEEPS: Final = 2  # periods after a deadline within which a user is to have an answer
_PRIORITIES: Final = ("", "\x06\x163", "\x06\x166", "\x06\x169")  # kombu keeps a list for each step of priority


def intake(database: Database, layout: Layout, settings: Settings, workers: Iterable[Worker]) -> list[Finding]:
    """A finding for each family of streams: how many facts wait, since when, and who reads them."""
    read = {queue for worker in workers for queue in worker.queues}
    return [_family(database, layout, settings, family, served=family.value in read) for family in Family]


def _family(database: Database, layout: Layout, settings: Settings, family: Family, *, served: bool) -> Finding:
    check, streams = f"intake {family}", [stream_of(shard, family) for shard in layout.all]
    lengths: list[int] = database.pipeline([("XLEN", stream) for stream in streams])
    oldest = database.pipeline([("XRANGE", stream, "-", "+", "COUNT", 1) for stream in streams])
    since = min((int(entry[0][0].partition(b"-")[0]) for entry in oldest if entry), default=None)
    if since is None:
        return ok(check, "nothing waits") if served else note(check, "no worker reads it", _start(family))
    age = (database.now_ms() - since) / 1000
    found = f"{sum(lengths)} facts wait, the oldest since {age:.1f} s, the longest stream {max(lengths)}"
    if not served:
        return wrong(check, f"{found}; no worker reads it", _start(family))
    if max(lengths) > settings.intake_max:
        return wrong(check, found, f"above intake_max, so hosts spool to disk; start more workers: {_start(family)}")
    if age > SLOW_SECONDS:
        return wrong(check, found, f"the workers are too few or failing: see their logs; more: {_start(family)}")
    return ok(check, found)


def _start(family: Family) -> str:
    return f"`celery -A tellback_workers.app worker -E -Q {family}`, or `tellback up`"


def queues(broker: Database, workers: Iterable[Worker]) -> Finding:
    """Celery's queues: wake-ups, which are small and few."""
    try:
        return _queues(broker, workers)
    except Unavailable as error:
        advice = "start it, or name another in TELLBACK_BROKER_URL: until then nothing wakes the workers"
        return wrong("queues", f"the broker at {without_secrets(broker.url)} does not answer: {error}", advice)


def _queues(broker: Database, workers: Iterable[Worker]) -> Finding:
    names = {*map(str, Family), SWEEPS_QUEUE, *(queue for worker in workers for queue in worker.queues)}
    lengths = {name: _length(broker, name) for name in sorted(names)}
    found = ", ".join(f"{name} {length}" for name, length in lengths.items() if length) or "all empty"
    if max(lengths.values()) > MANY_MESSAGES:
        return wrong("queues", found, "more wake-ups than workers take: is a worker of that queue running?")
    return ok("queues", found)


def _length(broker: Database, queue: str) -> int:
    return sum(broker.pipeline([("LLEN", f"{KEY_PREFIX}{queue}{priority}") for priority in _PRIORITIES]))


def sweep(database: Database, layout: Layout, settings: Settings) -> Finding:
    """Whether users whose deadline has passed get their fallbacks in time."""
    seconds = Sweeps(database, layout).lag_ms() / 1000
    if not seconds:
        return ok("sweep", "no turn is overdue")
    found = f"the longest overdue turn is {seconds:.1f} s past its deadline"
    if seconds > LATE_SWEEPS * settings.beat_period:
        return wrong(
            "sweep", found, "its user hears nothing: start a worker, any; `tellback turns --overdue` lists them"
        )
    return ok("sweep", found)


def outbox(database: Database, layout: Layout) -> Finding:
    """Channels whose deliveries wait while no transport asks for them."""
    states = TurnStats(database, layout).channels()
    alone = {
        channel: state
        for channel, state in states.items()
        if state.waits > SLOW_SECONDS and (state.unasked is None or state.unasked > SLOW_SECONDS)
    }
    if not alone:
        return ok("outbox", f"{sum(state.deliveries for state in states.values())} deliveries wait")
    found = ", ".join(f"{channel!r} {state.deliveries}" for channel, state in list(alone.items())[:10])
    return wrong(
        "outbox",
        f"deliveries wait, and no transport asks for them: {found}",
        "start one (`python -m tellback.transports`); TELLBACK_CHANNELS lets workers drop what no transport serves",
    )


def dead_letters(database: Database, layout: Layout) -> Finding:
    """What could not be processed."""
    count = DeadLetters(database, layout).count()
    if count:
        return note("dead letters", str(count), "`tellback dead list` says why; `tellback dead replay ID` tries again")
    return ok("dead letters", "none")
