"""Checks of what waits: events in the intake, wake-ups in Celery's queues, overdue turns, deliveries, dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Final

from tellback.broker import KEY_PREFIX
from tellback.doctor.infrastructure import DoctorFinding, not_permitted, note, ok, wrong
from tellback.errors import ConfigurationError, Unavailable
from tellback.names import MAX_SHARDS, SWEEPS_QUEUE, Family
from tellback.settings import Settings
from tellback.state.database import Database, WrongType
from tellback.state.dead_letters import DeadLetters
from tellback.state.gauges import TurnStats, read_backlog
from tellback.state.keys import FAMILIES, Layout, Shard, stream_of
from tellback.state.presence import Worker
from tellback.state.quarantine import quarantined_keys
from tellback.state.turn_sweeps import stranded
from tellback.state.unavailable import NotPermitted
from tellback.state.unreadable import unreadable_jobs, unreadable_queues, unreadable_turns
from tellback.urls import without_secrets
from tellback.wording import count_phrase

SLOW_SECONDS: Final = 30.0  # age of the oldest waiting entry or delivery from which a backlog is reported
MANY_MESSAGES: Final = 10_000  # wake-ups are deduplicated by pending markers, so a long queue means no consumer
LATE_SWEEPS: Final = 2  # sweep periods after a deadline within which the user must have an answer
# kombu keeps a list for each step of the priority. Its own count needs kombu, which hosts lack, and the right to write
# to the broker, which operators lack; tests/contracts/test_kombu.py compares the two.
_PRIORITIES: Final = ("", "\x06\x163", "\x06\x166", "\x06\x169")

CHANGED_BY_HAND: Final = (
    "Tellback stores no such key, so somebody changed it by hand: rename it (`redis-cli RENAME`), or restore a backup"
)

QUARANTINED: Final = (
    "somebody wrote them by hand, and what they held before is gone: look at `quarantine:` and the name after `}:`, "
    "restore what you need from a backup, and delete it"
)

UNREADABLE_JOBS: Final = (
    "if a newer release queued them, upgrade the workers; otherwise somebody changed them by hand: each ends after "
    "an hour with a record that says so, if its session is known. Rename a key that is not a hash (`redis-cli RENAME`)"
)

UNREADABLE_TURNS: Final = (
    "if a newer release opened them, upgrade the workers; otherwise somebody changed them by hand: correct the field "
    "that the worker's log names (`sweep_turns.failed`), or answer the user and remove the key (`redis-cli DEL`)"
)

UNREADABLE_DELIVERIES: Final = (
    "if a newer release wrote them, upgrade the transports; otherwise somebody changed them by hand: remove the first "
    "delivery of such a key (`redis-cli LPOP`), and rename one that is not a list (`redis-cli RENAME`)"
)


def check_keys(database: Database, layout: Layout) -> Iterator[DoctorFinding]:
    """Yield a finding if a key that all of a shard share has another type; other checks may fail because of it."""
    try:
        yield from _wrong_types(database, layout)
    except NotPermitted:  # an agent's user may not ask for types; the checks that follow need none
        yield not_permitted("keys")


def _wrong_types(database: Database, layout: Layout) -> Iterator[DoctorFinding]:
    expected = {shard.key(family.name): family.type for shard in layout.all for family in FAMILIES.values()}
    expected |= {stream_of(shard, family): "stream" for shard in layout.all for family in Family}
    types = database.pipeline([("TYPE", key) for key in expected])
    odd = [
        f"{key} is a {kind.decode()}, not a {wanted}"
        for (key, wanted), kind in zip(expected.items(), types, strict=True)
        if kind.decode() not in ("none", wanted)
    ]
    if odd:
        yield wrong("keys", "; ".join(odd[:10]), CHANGED_BY_HAND)
    if renamed := quarantined_keys(database, layout):
        named = ", ".join(renamed[:10])
        yield wrong("quarantined keys", f"{len(renamed)} held another type, and were renamed: {named}", QUARANTINED)


def check_intake(
    database: Database, layout: Layout, settings: Settings, workers: Iterable[Worker]
) -> list[DoctorFinding]:
    """Check each family of streams: how many events wait, for how long, and whether a worker reads them."""
    read = {queue for worker in workers for queue in worker.queues}
    return [_check_family(database, layout, settings, family, served=family.value in read) for family in Family]


def _check_family(
    database: Database, layout: Layout, settings: Settings, family: Family, *, served: bool
) -> DoctorFinding:
    check, streams = f"intake {family}", [stream_of(shard, family) for shard in layout.all]
    waiting = read_backlog(database, layout, family)
    if waiting.since is None:
        return ok(check, "empty") if served else note(check, "no worker reads it", _start_command(family))
    age = waiting.age(database.now_ms())
    sizes = [size or 0 for size in database.pipeline([("MEMORY", "USAGE", one, "SAMPLES", 0) for one in streams])]
    found = f"{count_phrase(waiting.events, 'event')} waiting, the oldest for {age:.1f} s"
    found += f"; longest stream {waiting.longest}, largest {max(sizes)} bytes, total {sum(sizes)} bytes"
    if not served:
        return wrong(check, f"{found}; no worker reads it", _start_command(family))
    for name, reached in (
        ("intake_max", waiting.longest >= settings.intake_max),
        ("intake_max_bytes", max(sizes) * layout.shards >= settings.intake_max_bytes),
    ):
        if reached:
            return wrong(
                check, found, f"{name} is reached, so hosts spool to disk; start more workers: {_start_command(family)}"
            )
    if age > SLOW_SECONDS:
        return wrong(
            check, found, f"too few workers, or failing ones: check their logs, or start more: {_start_command(family)}"
        )
    return ok(check, found)


def streams_there(database: Database, shards: Iterable[Shard]) -> list[str]:
    """Return the streams that exist in these shards, by their keys alone."""
    keys = [stream_of(shard, family) for shard in shards for family in Family]
    return [key for key, found in zip(keys, database.pipeline([("EXISTS", key) for key in keys]), strict=True) if found]


def check_other_shards(database: Database, layout: Layout) -> Iterator[DoctorFinding]:
    """Yield a finding if streams wait in shards that the team does not have."""
    if there := streams_there(database, Layout(layout.team, MAX_SHARDS).all[layout.shards :]):
        yield wrong(
            "other shards",
            f"{count_phrase(len(there), 'stream')} of shards that the team does not have: {', '.join(there[:10])}",
            f"no worker reads them: have their host compute the shard modulo {layout.shards} (docs/messages.md) and "
            "send these events again, then remove the keys (`redis-cli DEL`)",
        )


def _start_command(family: Family) -> str:
    return f"`celery -A tellback_workers.app worker -E -Q {family}`, or `tellback up`"


def check_queues(url: str, workers: Iterable[Worker]) -> DoctorFinding:
    """Check the lengths of Celery's queues at the broker of this URL; they hold only wake-ups."""
    try:
        with closing(Database(url)) as broker:
            return _check_queue_lengths(broker, workers)
    except NotPermitted:
        return not_permitted("queues")
    except ConfigurationError as error:  # a file of TLS, or the checks that follow would be left out
        found = f"broker {without_secrets(url)}: {error}"
        return wrong("queues", found, "correct TELLBACK_BROKER_URL; until then, no worker starts")
    except Unavailable as error:
        reason = str(error).replace("TELLBACK_REDIS_URL", "TELLBACK_BROKER_URL")  # it names the variable of the state
        return wrong(
            "queues",
            f"broker {without_secrets(url)}: {reason}",
            "start the broker; until then, nothing wakes the workers",
        )
    except WrongType as error:  # or the checks that follow would be left out
        found = f"broker {without_secrets(url)}: {' or '.join(error.keys)} is not a list"
        return wrong("queues", found, CHANGED_BY_HAND)


def _check_queue_lengths(broker: Database, workers: Iterable[Worker]) -> DoctorFinding:
    names = {*map(str, Family), SWEEPS_QUEUE, *(queue for worker in workers for queue in worker.queues)}
    lengths = {name: _queue_length(broker, name) for name in sorted(names)}
    found = ", ".join(f"{name} {length}" for name, length in lengths.items() if length) or "all empty"
    if max(lengths.values()) > MANY_MESSAGES:
        return wrong("queues", found, "more wake-ups than workers take: check that a worker of this queue is running")
    return ok("queues", found)


def _queue_length(broker: Database, queue: str) -> int:
    return sum(broker.pipeline([("LLEN", f"{KEY_PREFIX}{queue}{priority}") for priority in _PRIORITIES]))


def check_sweep(database: Database, layout: Layout, settings: Settings) -> DoctorFinding:
    """Check that users whose deadline has passed get their fallbacks in time."""
    if keys := unreadable_turns(database, layout):
        found = f"{count_phrase(len(keys), 'open turn')} cannot be read: {', '.join(keys[:10])}"
        return wrong("sweep", found, UNREADABLE_TURNS)
    seconds = TurnStats(database, layout).gauges().lag
    if not seconds:
        return ok("sweep", "no turn is overdue")
    found = f"the longest overdue turn is {seconds:.1f} s past its deadline"
    if seconds > LATE_SWEEPS * settings.beat_period:
        return wrong(
            "sweep", found, "users get no fallback: start any worker; list the turns with `tellback turns --overdue`"
        )
    return ok("sweep", found)


def check_running(database: Database, layout: Layout) -> DoctorFinding:
    """Check for commands that wait under an expired lease because their messages cannot be read."""
    keys = unreadable_jobs(database, layout)
    if not keys:
        return ok("commands", "no lost command that cannot be read")
    found = f"{count_phrase(len(keys), 'leased command')} cannot be read: {', '.join(keys[:10])}"
    return wrong("commands", found, UNREADABLE_JOBS)


def check_outbox(database: Database, layout: Layout) -> DoctorFinding:
    """Check for deliveries that no transport asks for, or that none can see."""
    unseen = stranded(database, layout)
    if unseen:
        found = ", ".join(f"{place.channel!r} {place.conversation!r}" for place in unseen[:10])
        return wrong(
            "outbox",
            f"no transport can see the deliveries of {count_phrase(len(unseen), 'conversation')}: {found}",
            "the sweep restores them within a minute: start any worker; if they remain, check its log",
        )
    if keys := unreadable_queues(database, layout):
        found = f"the answers of {count_phrase(len(keys), 'conversation')} cannot be read: {', '.join(keys[:10])}"
        return wrong("outbox", found, UNREADABLE_DELIVERIES)
    states = TurnStats(database, layout).channels()
    alone = {
        channel: state
        for channel, state in states.items()
        if state.waits > SLOW_SECONDS and (state.unpolled is None or state.unpolled > SLOW_SECONDS)
    }
    if not alone:
        return ok("outbox", f"deliveries waiting: {sum(state.deliveries for state in states.values())}")
    found = ", ".join(f"{channel!r} {state.deliveries}" for channel, state in list(alone.items())[:10])
    return wrong(
        "outbox",
        f"deliveries are waiting, and no transport asks for them: {found}",
        "start a transport (`python -m tellback.transports`), or set TELLBACK_CHANNELS to fail deliveries to others",
    )


def check_dead_letters(database: Database, layout: Layout) -> DoctorFinding:
    """Check for entries that could not be applied."""
    count = DeadLetters(database, layout).count()
    if count:
        return note(
            "dead letters",
            str(count),
            "see the reasons with `tellback dead list`; retry with `tellback dead replay ID`",
        )
    return ok("dead letters", "none")
