"""Workers sweep turns themselves where beat is silent, one at a time; and how late the sweep is can be asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import msgspec
import pytest

from tellback import Tellback
from tellback.doctor.backlog import check_sweep as examined
from tellback.errors import Unavailable
from tellback.settings import Settings
from tellback.state.job_keys import ANY_POOL
from tellback.state.jobs import JobClaimant, Jobs
from tellback.state.keys import Layout, Shard
from tellback.state.records import Records
from tellback.state.turn_sweeps import SweepClaims
from tellback_workers.runtime import Runtime
from tellback_workers.runtime import runtime as task_runtime
from tellback_workers.sweep_turns import MIN_WAIT, SILENT_PERIODS, StandInSweeper, sweep_turns
from tests.support.jobs import Queue
from tests.support.redis_server import free_port
from tests.support.turns import deadline_passes, opened, overdue, state, view
from tests.support.waiting import wait_until

TEAM = "default"


@pytest.fixture
def runtime(settings: Settings) -> Iterator[Runtime]:
    """What a worker's main process has."""
    process = Runtime(settings)
    yield process
    process.database.close()


@pytest.fixture
def beat_task(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The task that beat sends can be called here, with the settings that a worker would load."""
    monkeypatch.setenv("TELLBACK_REDIS_URL", settings.redis_url)
    task_runtime.cache_clear()
    yield
    task_runtime().database.close()
    task_runtime.cache_clear()


def sweeps(tb: Tellback) -> SweepClaims:
    return SweepClaims(tb.context.database, tb.context.layout)


def test_a_worker_sweeps_when_nobody_has(tb: Tellback, runtime: Runtime) -> None:
    turn = overdue(tb)
    assert 0 < StandInSweeper(runtime).sweep_if_silent(TEAM) <= SILENT_PERIODS * runtime.settings.beat_period
    assert state(turn) == "fallback"


@pytest.mark.usefixtures("beat_task")
def test_a_worker_leaves_the_sweep_to_beat_while_beat_is_heard(tb: Tellback, runtime: Runtime) -> None:
    sweep_turns(TEAM)
    turn = overdue(tb)
    pause = StandInSweeper(runtime).sweep_if_silent(TEAM)
    assert state(turn) == "open", "beat's next tick does it"
    assert 0 < pause <= SILENT_PERIODS * runtime.settings.beat_period, "and if not, the worker looks again then"
    sweep_turns(TEAM)
    assert state(turn) == "fallback"


def test_one_of_many_workers_stands_in(tb: Tellback, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    overdue(tb)
    swept: list[Settings] = []

    def count(turns: object, given: Settings) -> bool:
        del turns
        swept.append(given)
        return True

    monkeypatch.setattr("tellback_workers.sweep_turns.sweep_all", count)
    runtimes = [Runtime(settings) for _ in range(8)]
    barrier = threading.Barrier(8)

    def sweep_once(process: Runtime) -> None:
        sweeper = StandInSweeper(process)
        barrier.wait()
        sweeper.sweep_if_silent(TEAM)

    threads = [threading.Thread(target=sweep_once, args=(process,)) for process in runtimes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for process in runtimes:
        process.database.close()
    assert len(swept) == 1, "the others lost the claim"


def test_who_stands_in_records_the_command_of_a_dead_worker(
    settings: Settings, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record needs no beat and no broker; the wake-up of its next attempt is left to the sweep of idle pools."""
    monkeypatch.setattr("tellback_workers.sweep_jobs.WATCH", 0.0)  # a loss is decided at first sight
    broken = Runtime(msgspec.structs.replace(settings, beat_period=0.05, job_lease=2.0))
    jobs, queue = Jobs(broken.database, layout), Queue(broken.database, layout)
    sessions = [name for name in map(str, range(100)) if layout.of(name) == layout.shard(0)][:3]
    asked = list[str]()

    def refuse(_: Shard, pool: str, __: int) -> bool:
        asked.append(pool)
        return False

    monkeypatch.setattr("tellback_workers.sweep_jobs.wake_pool", refuse)
    for session in sessions:
        queue.put(session, on_lost="retry")
        assert jobs.lease(JobClaimant(ANY_POOL, seconds=0.001, worker="w@test", host="h", retry_seconds=0.001))
    sweeper = StandInSweeper(broken)

    def recorded() -> bool:
        sweeper.sweep_if_silent(TEAM)
        return all(Records(broken.database, layout).last(session) for session in sessions)

    wait_until(recorded, "each has its record", timeout=30)
    assert set(asked) == {ANY_POOL}
    broken.database.close()


def test_what_a_dead_sweeper_claimed_is_swept_by_another_in_time(tb: Tellback, settings: Settings) -> None:
    """The claim of one that was killed ends by itself; the next look is when it does."""
    hasty = Runtime(msgspec.structs.replace(settings, beat_period=0.05))
    turn = overdue(tb)
    assert sweeps(tb).claim(SILENT_PERIODS * 0.05)
    sweeper = StandInSweeper(hasty)
    wait_until(lambda: sweeper.sweep_if_silent(TEAM) > 0 and state(turn) == "fallback", "the claim has ended")
    hasty.database.close()


def test_a_backlog_above_one_run_stays_with_the_worker_that_began(
    tb: Tellback, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run is bounded; the worker goes on from run to run until nothing is overdue."""
    monkeypatch.setattr("tellback_workers.sweep_turns.RUN_SECONDS", 0.0)
    turns = [overdue(tb, conversation=f"c{number}") for number in range(7)]
    slow = Runtime(msgspec.structs.replace(settings, sweep_batch=2))
    StandInSweeper(slow).sweep_if_silent(TEAM)
    slow.database.close()
    assert {state(turn) for turn in turns} == {"fallback"}


def test_a_stopped_worker_ends_after_the_run_at_hand(
    tb: Tellback, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tellback_workers.sweep_turns.RUN_SECONDS", 0.0)
    turns = [overdue(tb, conversation=f"c{number}") for number in range(5)]
    slow = Runtime(msgspec.structs.replace(settings, sweep_batch=2))
    sweeper = StandInSweeper(slow)
    sweeper.stop()
    sweeper.sweep_if_silent(TEAM)
    slow.database.close()
    assert [state(turn) for turn in turns] == ["fallback"] * 2 + ["open"] * 3


def test_who_stands_in_buries_what_goes_to_unknown_channels_too(tb: Tellback, settings: Settings) -> None:
    turn, known = overdue(tb, channel="telegrm"), overdue(tb, conversation="c2")
    named = Runtime(msgspec.structs.replace(settings, channels="chat"))
    StandInSweeper(named).sweep_if_silent(TEAM)
    named.database.close()
    assert (view(tb, turn).delivery, view(tb, known).delivery) == ("dead", "waiting")


def test_a_worker_checks_again_within_its_own_time_whatever_another_said(tb: Tellback, runtime: Runtime) -> None:
    """One of other settings; or Redis's clock was set back, and what was to end soon ends in an hour."""
    sweeps(tb).mark_swept(600.0)
    assert StandInSweeper(runtime).sweep_if_silent(TEAM) == SILENT_PERIODS * runtime.settings.beat_period


def test_redis_away_is_logged_and_tried_again(settings: Settings) -> None:
    away = Runtime(msgspec.structs.replace(settings, redis_url=f"redis://127.0.0.1:{free_port()}/0"))
    with pytest.raises(Unavailable):
        StandInSweeper(away).sweep_if_silent(TEAM)


def test_a_claim_belongs_to_one_and_for_its_time(tb: Tellback) -> None:
    assert sweeps(tb).seconds_left(600.0) == 0.0
    assert sweeps(tb).claim(30.0)
    assert not sweeps(tb).claim(30.0)
    assert 29.0 < sweeps(tb).seconds_left(600.0) <= 30.0
    sweeps(tb).mark_swept(1e9)
    assert sweeps(tb).seconds_left(600.0) <= 600.0, "no longer than the key is declared to live"
    assert MIN_WAIT > 0


def test_the_lag_is_the_age_of_the_longest_overdue_turn(tb: Tellback, settings: Settings) -> None:
    assert sweeps(tb).lag_ms() == 0
    opened(tb, conversation="later")
    assert sweeps(tb).lag_ms() == 0, "an open turn before its deadline is no lag"
    assert examined(tb.context.database, tb.context.layout, settings).state == "ok"
    deadline_passes(tb, opened(tb))
    age = tb.context.database.now_ms() - 1
    assert age - 60_000 < sweeps(tb).lag_ms() <= age + 60_000
    finding = examined(tb.context.database, tb.context.layout, settings)
    assert finding.state == "wrong"
    assert "past its deadline" in finding.found
    assert "tellback turns --overdue" in finding.advice
