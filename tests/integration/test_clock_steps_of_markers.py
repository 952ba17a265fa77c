"""Redis' wall clock steps by an hour: markers, visits and rates keep their own length."""

from __future__ import annotations

from tellback import Tellback
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.fleet import TeamVisits
from tellback.state.intake import Intake, mark_pending
from tellback.state.keys import FLEET, Layout, lifetime_ms, stream_of
from tellback.state.limits import LimitStore
from tellback.state.presence import Presence, Worker
from tellback_workers.app import app
from tellback_workers.runtime import Runtime
from tellback_workers.scheduler import SILENT_PERIODS, TeamScheduler
from tests.support.clocks import HOUR, ServerClock, step, steps
from tests.support.intake_entries import idle_streams
from tests.support.turns import overdue, state, store


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
    TeamScheduler(app, runtime, lambda _: None).run(SILENT_PERIODS)
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
    assert not tb.context.publisher.spooled


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
