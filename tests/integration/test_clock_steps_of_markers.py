"""Redis' wall clock steps by an hour: markers, visits and rates keep their own length."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tellback import Tellback
from tellback.messaging.append_call import Bounds, append_call
from tellback.messaging.spool import SpooledEvent
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.fleet import TeamVisits
from tellback.state.intake import Intake, mark_pending
from tellback.state.keys import FLEET, Layout, lifetime_ms, stream_of
from tellback.state.limits import LimitStore
from tellback.state.presence import Presence, Worker
from tellback.state.team import open_layout
from tellback_workers.runtime import Runtime
from tellback_workers.scheduler import SILENT_PERIODS, TeamScheduler
from tests.support.clocks import HOUR, ServerClock, SteppedServer, faketime_library, step, steps
from tests.support.examples import examples
from tests.support.intake_entries import idle_streams
from tests.support.turns import overdue, state, store
from tests.support.waiting import wait_until


def test_a_marker_that_lives_too_long_is_cut_by_whoever_meets_it(database: Database, layout: Layout) -> None:
    """A step of -1 h leaves such markers: each is to live an hour more than its length, and its holder is dead."""
    intake, shard = Intake(database, layout), layout.shard(0)
    assert intake.take_lease(shard, Family.EVENTS, 5) is not None
    assert mark_pending(database, [(shard, Family.EVENTS)]) == ["due"]
    assert intake.try_mark_timers_pending(shard)
    Presence(database, layout.team).announce(Worker(name="w", host="h", pid=1, queues=(), version="1"))
    keys = {
        shard.key("lease", Family.EVENTS): 5_000,
        shard.key("wakeup", Family.EVENTS): lifetime_ms("wakeup"),
        shard.key("wakeup", "timers"): 3_000,
        FLEET.key("worker", "w"): lifetime_ms("worker"),
    }
    for key in keys:
        database.command("PEXPIRE", key, 1_000 * HOUR)
    database.command("XADD", stream_of(shard, Family.EVENTS), "*", "m", b"waits")
    assert idle_streams(database, layout, 5.0) == [(shard, Family.EVENTS)], "no lease and no wake-up live so long"
    assert mark_pending(database, [(shard, Family.EVENTS)]) == ["pending"]
    assert intake.take_lease(shard, Family.EVENTS, 5) is None
    assert not intake.try_mark_timers_pending(shard)
    Presence(database, layout.team).announce(Worker(name="v", host="h", pid=2, queues=(), version="1"))
    assert [worker.name for worker in Presence(database, layout.team).workers()] == ["v", "w"]
    left = {key: database.command("PTTL", key) for key in keys}
    assert {key: ms for key, ms in left.items() if ms > keys[key]} == {}


def test_a_stand_in_finds_a_silent_beat_after_a_step_back(
    tb: Tellback, runtime: Runtime, database: Database, clock: ServerClock
) -> None:
    """The last visit is an hour ahead; what waits is answered all the same, and once in a period as before."""
    fleet, period = TeamVisits(database), runtime.settings.beat_period
    fleet.notice([tb.context.layout.team])
    turn = overdue(tb)
    step(clock, -1)
    TeamScheduler(runtime, lambda _: None).run(SILENT_PERIODS)
    assert state(turn) == "fallback"
    assert store(tb).overdue(10) == []
    assert fleet.claim_visits(period, 10).active == [], "the claim is of the clock as it is now"
    clock.passes(period)
    assert fleet.claim_visits(period, 10).active == [tb.context.layout.team]


def test_a_step_back_holds_no_team_at_its_rate(tb: Tellback, clock: ServerClock) -> None:
    """Its bucket was last filled an hour ahead: no event passed until the clock had caught up."""
    prompt = tb.prompt("s", "p")
    tb.flush()
    LimitStore(tb.context.database, tb.context.layout).change(events_per_second=1)
    while not tb.context.publisher.spooled:
        prompt.tool_invoked("search")
        tb.flush()
    step(clock, -1)
    tb.flush()
    clock.passes(len(tb.context.layout.all))  # until a shard's share of the rate is an event
    tb.flush()
    assert not tb.context.publisher.spooled


RATE, BURST = 1, 10  # of a shard
MOST = 15  # events of one call
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, MOST)),
        st.tuples(st.just("passes"), st.integers(1, 5)),
        st.tuples(st.just("steps"), st.integers(-HOUR, HOUR) | st.integers(-2, -1)),
    ),
    max_size=30,
)


@pytest.fixture
def accepted(database: Database, layout: Layout) -> Callable[[int], int]:
    """Append so many events to a shard's stream in one call; 0 if its team is at its rate."""
    LimitStore(database, layout).change(events_per_second=RATE * len(layout.all))
    stream = stream_of(layout.shard(0), Family.EVENTS)

    def append(events: int) -> int:
        outcome, *_ = database.run(append_call([SpooledEvent(stream, b"e")] * events, Bounds(100_000, 1 << 30)))
        return events if outcome == b"appended" else 0

    return append


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(50))
@given(moves=MOVES)
def test_no_step_gives_a_team_more_than_a_bucket_or_holds_it_for_longer_than_that_takes_to_fill(
    database: Database, layout: Layout, clock: ServerClock, accepted: Callable[[int], int], moves: list[tuple[str, int]]
) -> None:
    """A step forward fills the bucket, as time does. Each step back did so too, and small ones lifted the limit."""
    database.command("DEL", layout.shard(0).key("bucket"))
    clock.stand_still(database.now_ms())
    allowed, taken = float(BURST), 0
    for move, amount in moves:
        if move == "append":
            taken += accepted(amount)
            assert taken <= allowed + MOST - BURST, "a call of more than a bucket is paid for by those that follow"
        elif move == "passes":
            clock.step(1_000 * amount)
            allowed += RATE * amount
        else:
            clock.step(1_000 * amount)
            allowed += min(BURST + MOST, max(0, amount) * RATE)
    accepted(1)
    clock.step(1_000 * (1 + MOST - BURST) / RATE)
    assert accepted(1)


@pytest.mark.skipif(faketime_library() is None, reason="needs the library of the package `faketime`")
def test_the_server_s_own_clock_steps_and_a_team_has_its_rate(tmp_path: Path) -> None:
    with SteppedServer.start(tmp_path) as server, closing(Database(server.url)) as database:
        layout = open_layout(database, "default", 1)
        LimitStore(database, layout).change(events_per_second=RATE)
        stream = stream_of(layout.shard(0), Family.EVENTS)

        def passes(events: int) -> bool:
            call = append_call([SpooledEvent(stream, b"e")] * events, Bounds(100_000, 1 << 30))
            return bool(database.run(call)[0] == b"appended")

        assert passes(BURST)
        for hours in (-1, 1):
            server.step_to(hours * HOUR)
            assert passes(BURST) is (hours > 0)
            assert not passes(BURST)
            wait_until(lambda: passes(1), "the rate lets one more pass")


@steps
def test_a_step_lets_a_team_rest_and_wake(database: Database, clock: ServerClock, hours: int) -> None:
    """Its last notification is an hour ahead, or an hour old."""
    fleet = TeamVisits(database)
    fleet.notice(["acme"])
    step(clock, hours)
    fleet.rest(["acme"])
    assert fleet.last_noticed() == {}
    fleet.notice(["acme"])
    fleet.rest(["acme"])
    assert fleet.last_noticed().keys() == {"acme"}
    clock.passes(1)
    assert fleet.claim_visits(1.0, 10).active == ["acme"]
