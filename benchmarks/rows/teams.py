"""Five thousand teams against one: what they cost while idle, when one has an event, and when each has ten.

The teams share one worker. Their events are appended as hosts append them, by the same script and with notifications,
but over one connection: 5,000 clients would measure themselves.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from statistics import median
from typing import TypeVar

import psutil

from benchmarks.measure import RowResult, spread
from benchmarks.system import BenchmarkSystem, wait
from tellback.contracts.codec import encode
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.messaging.append_call import Bounds, append_call, must_notify, notification
from tellback.messaging.spool import SpooledEvent
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.fleet import QUIET_SECONDS
from tellback.state.keys import FLEET, Layout, stream_of

TEAMS = 5_000
EVENTS = 10  # of each team, when all have some
SAMPLES = 25
RUNS = 3
IDLE_SECONDS = 20.0
BOUNDS = Bounds(1_000_000, 1 << 30)
AT_ONCE = 200  # calls in a round trip
ASKED = 16  # streams that are asked at once whether they are empty

T = TypeVar("T")

ONE = Layout("one", 4)


def measure(system: BenchmarkSystem) -> tuple[RowResult, RowResult, RowResult]:
    many = [Layout(f"team-{number}", 4) for number in range(TEAMS)]
    system.worker("tellback_workers.app", "events", "-E")
    worker = psutil.Process().children()[-1]
    _register(system.database, [ONE])
    single = [_latency(system.database, [ONE]) for _ in range(SAMPLES)]
    _warm(system.database, worker)
    alone = median(_idle(worker) for _ in range(RUNS))
    before = _megabytes(worker)
    _register(system.database, many)
    among = [_latency(system.database, many) for _ in range(SAMPLES)]
    bursts = [
        (_burst(system.database, [ONE], TEAMS * EVENTS), _burst(system.database, many, EVENTS)) for _ in range(RUNS)
    ]
    time.sleep(QUIET_SECONDS)
    _until(lambda: not system.database.command("ZCARD", FLEET.key("active")))
    quiet = [_idle(worker) for _ in range(RUNS)]
    grown = _megabytes(worker) - before
    return (
        RowResult(
            name="teams_idle",
            what=f"processor time that {TEAMS:,} idle teams cost a worker, in percent of a core",
            ratios=[busy - alone for busy in quiet],
            budget=1.0,
            sense="at most",
            details=[
                f"the worker took {alone:.2f} % with one team, {spread(quiet, 2)} % with all of them",
                f"its memory grew by {grown:.0f} MB while it served them; budget 50 MB",
            ],
        ),
        RowResult(
            name="teams_one_event",
            what=f"a cold event's way to its effect among {TEAMS:,} teams, against one team",
            ratios=[median(among) / median(single)],
            budget=1.5,
            sense="at most",
            details=[f"ms: among many {spread(among, 1)};  one {spread(single, 1)}"],
        ),
        RowResult(
            name="teams_burst",
            what=f"{TEAMS:,} teams with {EVENTS} events each, against one team with {TEAMS * EVENTS:,}",
            ratios=[theirs / one for one, theirs in bursts],
            budget=1.5,
            sense="at most",
            details=[f"seconds: many {spread([b[1] for b in bursts], 1)};  one {spread([b[0] for b in bursts], 1)}"],
        ),
    )


def _warm(database: Database, worker: psutil.Process) -> None:
    """Have each of the pool's processes apply tool events, because the first one loads the loop and its providers."""
    before = {child: _seconds(child) for child in worker.children(recursive=True)}
    while not all(_seconds(child) - at > 1 for child, at in before.items()):
        _burst(database, [ONE], TEAMS * EVENTS)


def _register(database: Database, layouts: Sequence[Layout]) -> None:
    """Make the teams known, as if each had been visited at some time in the last five minutes."""
    now = database.now_ms()
    for some in _batched(layouts):
        database.pipeline([("HSET", layout.shard(0).key("team"), "shards", layout.shards) for layout in some])
        database.pipeline(
            [("ZADD", FLEET.key("teams"), now - random.randrange(300_000), layout.team) for layout in some]
        )


def _events(layout: Layout, sessions: int, count: int) -> list[list[SpooledEvent]]:
    """Return the events of some sessions of a team, one list for each session."""
    stamp = time.time_ns()
    found: list[list[SpooledEvent]] = []
    for number in range(sessions):
        session = f"s{stamp}-{number}"
        stream = stream_of(layout.of(session), Family.EVENTS)
        events = [
            ToolInvoked(
                event_id=new_event_id(),
                session=session,
                evaluation="e",
                tool="search",
                params={"page": page},
                result="found",
            )
            for page in range(count)
        ]
        found.append([SpooledEvent(stream, encode(event)) for event in events])
    return found


def _append(database: Database, calls: Sequence[list[SpooledEvent]]) -> None:
    for some in _batched(calls):
        replies = database.run_all([append_call(events, BOUNDS) for events in some])
        due = [events[0].stream for events, reply in zip(some, replies, strict=True) if must_notify(reply)]
        database.pipeline([notification(stream) for stream in dict.fromkeys(due)])


def _latency(database: Database, layouts: Sequence[Layout]) -> float:
    """Return the milliseconds from the append of one event, of a stream without a consumer, until it is applied."""
    [events] = _events(random.choice(layouts), 1, 1)
    stream = events[0].stream
    lease = stream.replace("}:in:", "}:lease:")
    wait(lambda: not database.command("EXISTS", lease), 30)
    time.sleep(0.05)
    start = time.perf_counter()
    _append(database, [events])
    _until(lambda: not database.command("XLEN", stream))
    return (time.perf_counter() - start) * 1e3


def _burst(database: Database, layouts: Sequence[Layout], count: int) -> float:
    """Return the seconds from the first append until all events have had their effect; sessions have ten each."""
    calls = [events for layout in layouts for events in _events(layout, max(1, count // EVENTS), EVENTS)]
    random.shuffle(calls)
    streams = sorted({events[0].stream for events in calls})
    start = time.perf_counter()
    _append(database, calls)
    _until(partial(_are_empty, database, streams))
    return time.perf_counter() - start


def _are_empty(database: Database, streams: list[str]) -> bool:
    """Drop the streams at the end of the list that are empty; return True when none is left.

    Each is asked until it is empty, a few at a time: all streams in each round would take Redis and this process a core
    of those that they measure.
    """
    while streams:
        few = streams[-ASKED:]
        lengths = database.pipeline([("XLEN", stream) for stream in few])
        left = [stream for stream, length in zip(few, lengths, strict=True) if length]
        streams[-ASKED:] = left
        if left:
            return False
    return True


def _batched(items: Sequence[T]) -> Generator[Sequence[T]]:
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]


def _until(predicate: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not predicate():
        if time.monotonic() > end:
            raise SystemExit("events were not applied")
        time.sleep(0.001)


def _idle(worker: psutil.Process) -> float:
    """Return the percentage of a core that the worker and its children use while nothing happens."""
    before = _seconds(worker)
    time.sleep(IDLE_SECONDS)
    return (_seconds(worker) - before) / IDLE_SECONDS * 100


def _seconds(worker: psutil.Process) -> float:
    times = [process.cpu_times() for process in (worker, *worker.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def _megabytes(worker: psutil.Process) -> float:
    """Return the memory of the worker's main process and its children that they do not share."""
    return sum(process.memory_full_info().uss for process in (worker, *worker.children(recursive=True))) / 1e6
