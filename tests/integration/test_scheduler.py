"""Workers visit teams themselves where beat is silent, a team by one at a time; and how late they are can be asked."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress

import msgspec
import pytest
from celery import Celery
from structlog.testing import capture_logs

from tellback import Tellback, connect
from tellback.doctor.backlog import check_sweep as examined
from tellback.errors import Unavailable
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.fleet import TeamVisits
from tellback.state.gauges import TurnStats
from tellback.state.intake import Notifications, StreamRef
from tellback.state.job_claims import JobClaimant
from tellback.state.job_keys import ANY_POOL
from tellback.state.jobs import Jobs
from tellback.state.keys import FLEET, Layout, Shard, stream_of
from tellback.state.presence import Presence
from tellback.state.records import Records
from tellback_workers import scheduler
from tellback_workers.runtime import Runtime, current_runtime
from tellback_workers.scheduler import (
    SILENT_PERIODS,
    StandIn,
    TeamScheduler,
    visit_teams,
)
from tellback_workers.sweep_turns import sweep_turns
from tellback_workers.wakeups import NotPublished
from tests.support.clocks import ServerClock, later
from tests.support.jobs import CommandQueue
from tests.support.redis_server import RedisServer, free_port
from tests.support.scores import build_bank
from tests.support.team_visits import TEAM, due_at_once, nobody_woken, stand_in, visit
from tests.support.turns import HELLO, deadline_passes, opened, overdue, state, view
from tests.support.waiting import wait_until


@pytest.fixture
def beat_task(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The task that beat sends can be called here, with the settings that a worker would load."""
    monkeypatch.setenv("TELLBACK_REDIS_URL", settings.redis_url)
    current_runtime.cache_clear()
    yield
    current_runtime().database.close()
    current_runtime.cache_clear()


def runs_out_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slice of a team's turns takes as long as a whole run may."""
    sweep = sweep_turns

    def slow(runtime: Runtime, layout: Layout) -> bool:
        finished = sweep(runtime, layout)
        later(monkeypatch, scheduler.RUN_SECONDS)
        return finished

    monkeypatch.setitem(scheduler._DUTIES, "turns", slow)
    monkeypatch.setattr("tellback_workers.sweep_turns.SLICE", 0.0)


def test_a_worker_sweeps_when_nobody_has(tb: Tellback, settings: Settings) -> None:
    hasty = Runtime(msgspec.structs.replace(settings, beat_period=0.05))
    turn = overdue(tb)
    worker = StandIn(hasty, nobody_woken)
    worker.start()
    wait_until(lambda: state(turn) == "fallback", "the worker has visited the team")
    worker.stop()
    hasty.database.close()


@pytest.mark.usefixtures("beat_task")
def test_a_worker_leaves_the_visits_to_beat_while_beat_is_heard(
    tb: Tellback, runtime: Runtime, clock: ServerClock
) -> None:
    period = runtime.settings.beat_period
    TeamVisits(runtime.database).notice([TEAM])
    visit_teams()
    turn = overdue(tb)
    wait_until(lambda: Notifications(runtime.database).wait(1), "a dispatcher has read of the turn")
    clock.passes(1.2 * period)
    stand_in(runtime)
    assert state(turn) == "open", "beat's tick does it, although it is a little late"
    visit_teams()
    assert state(turn) == "fallback"
    assert Presence(runtime.database, TEAM).last_beat() is not None


def test_a_worker_visits_soon_after_beat_fell_silent(tb: Tellback, runtime: Runtime, clock: ServerClock) -> None:
    period = runtime.settings.beat_period
    TeamVisits(runtime.database).notice([TEAM])
    visit(runtime)
    turn = overdue(tb)
    clock.passes((SILENT_PERIODS + 0.1) * period)
    stand_in(runtime)
    assert state(turn) == "fallback"


def test_one_of_many_workers_stands_in(tb: Tellback, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    overdue(tb)
    due_at_once(tb.context.database)
    swept: list[Runtime] = []

    def count(runtime: Runtime, layout: Layout) -> bool:
        del layout
        swept.append(runtime)
        return True

    monkeypatch.setitem(scheduler._DUTIES, "turns", count)
    runtimes = [Runtime(settings) for _ in range(8)]
    barrier = threading.Barrier(8)

    def visit_once(runtime: Runtime) -> None:
        barrier.wait()
        stand_in(runtime)

    threads = [threading.Thread(target=visit_once, args=(runtime,)) for runtime in runtimes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for runtime in runtimes:
        runtime.database.close()
    assert len(swept) == 1, "the others lost the claim"


def test_who_stands_in_records_the_command_of_a_dead_worker(
    settings: Settings, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record needs no beat and no broker; the wake-up of its next attempt is left to the sweep of idle pools."""
    monkeypatch.setattr("tellback_workers.sweep_jobs.WATCH", 0.0)  # a loss is decided at first sight
    broken = Runtime(msgspec.structs.replace(settings, beat_period=0.05, job_lease=2.0))
    jobs, queue = Jobs(broken.database, layout), CommandQueue(broken.database, layout)
    sessions = [name for name in map(str, range(100)) if layout.of(name) == layout.shard(0)][:3]
    asked = list[str]()

    def refuse(_: Shard, pool: str, __: int) -> bool:
        asked.append(pool)
        return False

    monkeypatch.setattr("tellback_workers.sweep_jobs.wake_pool", refuse)
    for session in sessions:
        queue.put(session, on_lost="retry")
        assert jobs.lease(JobClaimant(ANY_POOL, seconds=0.001, worker="w@test", host="h", retry_seconds=0.001))
    TeamVisits(broken.database).notice([TEAM])

    def recorded() -> bool:
        stand_in(broken)
        return all(Records(broken.database, layout).last(session) for session in sessions)

    wait_until(recorded, "each has its record")
    assert set(asked) == {ANY_POOL}
    broken.database.close()


def test_what_a_dead_visitor_claimed_is_visited_by_another_in_time(
    tb: Tellback, settings: Settings, fleet: TeamVisits
) -> None:
    """The claim of one that was killed ends by itself; the next look is when it does."""
    hasty = Runtime(msgspec.structs.replace(settings, beat_period=0.05))
    turn = overdue(tb)
    due_at_once(tb.context.database)
    assert fleet.claim_visits(SILENT_PERIODS * 0.05, 10).active == [TEAM]

    def visited() -> bool:
        stand_in(hasty)
        return state(turn) == "fallback"

    wait_until(visited, "the claim has ended")
    hasty.database.close()


def test_a_backlog_above_one_run_is_gone_on_with_at_once(
    tb: Tellback, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run is bounded; the next one, of whichever worker, does not wait for the period."""
    turns = [overdue(tb, conversation=f"c{number}") for number in range(7)]
    due_at_once(tb.context.database)
    slow = Runtime(msgspec.structs.replace(settings, sweep_batch=2))
    with monkeypatch.context() as patched:
        runs_out_of_time(patched)
        stand_in(slow)
    assert [state(turn) for turn in turns] == ["fallback"] * 2 + ["open"] * 5
    stand_in(slow)
    slow.database.close()
    assert {state(turn) for turn in turns} == {"fallback"}


def test_a_team_with_much_to_do_holds_up_no_other(
    tb: Tellback, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each team in turn gets a slice, also the last one of a run whose time is over."""
    turns = [overdue(tb, conversation=f"c{number}") for number in range(5)]
    with connect(settings=msgspec.structs.replace(settings, team="zoo")) as other:
        few = overdue(other)
        due_at_once(tb.context.database)
        slow = Runtime(msgspec.structs.replace(settings, sweep_batch=2))
        runs_out_of_time(monkeypatch)
        stand_in(slow)
        slow.database.close()
        assert state(few) == "fallback"
    assert [state(turn) for turn in turns] == ["fallback"] * 2 + ["open"] * 3


def test_a_duty_that_fails_costs_neither_the_others_nor_the_other_teams(
    tb: Tellback,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The turns of the first team cannot be swept; what comes after them is done all the same."""
    sweep = sweep_turns

    def failing(runtime: Runtime, layout: Layout) -> bool:
        if layout.team == TEAM:
            raise ValueError("no turns")
        return sweep(runtime, layout)

    monkeypatch.setitem(scheduler._DUTIES, "turns", failing)
    named = Runtime(msgspec.structs.replace(settings, channels="chat"))
    unknown = opened(tb, channel="telegrm")
    unknown.respond(HELLO)
    overdue(tb)
    with connect(settings=msgspec.structs.replace(settings, team="zoo")) as other:
        turn = overdue(other)
        due_at_once(tb.context.database)
        with capture_logs() as logs:
            stand_in(named)
        assert state(turn) == "fallback"
    named.database.close()
    assert view(tb, unknown).delivery == "dead"
    assert [entry["team"] for entry in logs if entry["event"] == "scheduler.duty_failed"] == [TEAM]


def test_a_stopped_worker_ends_after_the_visits_at_hand(
    tb: Tellback, settings: Settings, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "BATCH", 1)
    with connect(settings=msgspec.structs.replace(settings, team="zoo")) as other:
        turns = [overdue(tb), overdue(other)]
        due_at_once(tb.context.database)
        ends = iter([False, True])
        TeamScheduler(runtime, nobody_woken).run(SILENT_PERIODS, lambda: next(ends))
        assert sorted(state(turn) for turn in turns) == ["fallback", "open"]
        stand_in(runtime)
        assert {state(turn) for turn in turns} == {"fallback"}, "who comes next visits the other"


def test_who_stands_in_ends_what_goes_to_unknown_channels_too(tb: Tellback, settings: Settings) -> None:
    turn, known = overdue(tb, channel="telegrm"), overdue(tb, conversation="c2")
    named = Runtime(msgspec.structs.replace(settings, channels="chat"))
    for _ in range(2):  # the fallbacks come first
        due_at_once(tb.context.database)
        stand_in(named)
    named.database.close()
    assert (view(tb, turn).delivery, view(tb, known).delivery) == ("dead", "waiting")


def test_a_visit_in_the_future_is_due_whatever_another_said(tb: Tellback, runtime: Runtime, database: Database) -> None:
    """Redis's clock was set back, and what was claimed a moment ago would be due in an hour."""
    turn = overdue(tb)
    due_at_once(database)
    for key in ("active", "noticed", "teams"):
        database.command("ZADD", FLEET.key(key), database.now_ms() + 3_600_000, TEAM)
    stand_in(runtime)
    assert state(turn) == "fallback"


def test_redis_away_is_logged_and_tried_again(settings: Settings, own_redis: RedisServer) -> None:
    away = Runtime(msgspec.structs.replace(settings, redis_url=f"redis://127.0.0.1:{free_port()}/0"))
    with pytest.raises(Unavailable):
        stand_in(away)
    known = msgspec.structs.replace(settings, redis_url=own_redis.url, beat_period=0.05)
    with connect(settings=known) as tb:
        turn = overdue(tb)
        own_redis.kill()
        worker = StandIn(Runtime(known), nobody_woken)
        with capture_logs() as logs:
            worker.start()
            wait_until(lambda: logs, "Redis is missed")
        assert {entry["event"] for entry in logs} == {"scheduler.postponed"}
        own_redis.launch()
        wait_until(lambda: state(turn) == "fallback", "the worker continues")
        worker.stop()


def test_a_refused_wakeup_costs_no_duty(tb: Tellback, runtime: Runtime, database: Database) -> None:
    """The broker is away: who waits for an answer has it all the same."""
    turn = overdue(tb)
    database.command("XADD", stream_of(tb.context.layout.shard(0), Family.EVENTS), "*", "m", b"waits")
    refused: list[StreamRef] = []

    def refuse(places: Sequence[StreamRef]) -> None:
        refused.extend(places)
        raise NotPublished("no broker")

    due_at_once(database)
    visit(runtime, wake=refuse)
    assert refused == [(tb.context.layout.shard(0), Family.EVENTS)]
    assert state(turn) == "fallback"


def test_a_silent_broker_delays_no_fallback(tb: Tellback, runtime: Runtime, database: Database, app: Celery) -> None:
    """Each team with due timers waited for it, and so did the fallbacks of the teams behind them: for minutes."""
    turn = opened(tb)
    deadline_passes(tb, turn)
    asked: list[str] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                kept.append(listener.accept()[0])
                asked.append(state(turn))

    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        app.conf.update(broker_url=f"redis://127.0.0.1:{listener.getsockname()[1]}/0")
        app.conf.broker_transport_options |= {"socket_timeout": 0.2, "socket_connect_timeout": 0.2}
        for shard in [shard for name in "abc" for shard in runtime.layout(name).all]:
            database.command("ZADD", shard.key("timers"), 1, "s:p:e")
            database.command("PEXPIRE", shard.key("timers"), 60_000)
        TeamVisits(database).notice(["a", "b", "c", TEAM])
        TeamScheduler(runtime, nobody_woken).run()
        listener.shutdown(socket.SHUT_RDWR)
        for each in kept:
            each.close()
    assert set(asked) == {"fallback"}, "it was written before the broker was asked"
    assert len(asked) < 12, "not for each shard of each team"


@pytest.mark.usefixtures("broker_away")
def test_a_broker_that_refuses_ends_no_run(tb: Tellback, runtime: Runtime, database: Database) -> None:
    """The decay of one team had no wake-up, and the duties of the teams behind it waited for another period."""
    bank = runtime.layout("a").shard(0)
    build_bank(database, bank, "b", facts=1, clusters=1, each=1, age_ms=30 * 86_400_000)
    turn = opened(tb)
    deadline_passes(tb, turn)
    TeamVisits(database).notice(["a", TEAM])
    TeamScheduler(runtime, nobody_woken).run()
    assert state(turn) == "fallback"


def test_a_full_redis_stops_no_visit(settings: Settings, own_redis: RedisServer) -> None:
    """Claims and what they note are writes, and fallbacks are owed most while nothing else can be stored."""
    full = msgspec.structs.replace(settings, redis_url=own_redis.url, beat_period=0.05)
    with connect(settings=full) as tb, closing(Database(own_redis.url)) as database:
        turn = overdue(tb)
        database.command("CONFIG", "SET", "maxmemory", 1)
        worker = StandIn(Runtime(full), nobody_woken)
        worker.start()
        wait_until(lambda: state(turn) == "fallback", "the worker has visited the team")
        worker.stop()


def test_the_lag_is_the_age_of_the_longest_overdue_turn(tb: Tellback, settings: Settings) -> None:
    database, layout = tb.context.database, tb.context.layout
    stats = TurnStats(database, layout)
    assert stats.gauges().lag == 0
    opened(tb, conversation="later")
    assert stats.gauges().lag == 0, "an open turn before its deadline is no lag"
    assert examined(database, layout, settings).state == "ok"
    deadline_passes(tb, opened(tb))
    age = (database.now_ms() - 1) / 1000
    assert age - 60 < stats.gauges().lag <= age + 60
    finding = examined(database, layout, settings)
    assert finding.state == "wrong"
    assert "past its deadline" in finding.found
    assert "tellback turns --overdue" in finding.advice
