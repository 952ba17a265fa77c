"""Redis' wall clock steps by an hour: leases of commands keep their time; a healthy command is never lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tellback.names import Family
from tellback.state.database import Database
from tellback.state.intake import Intake, mark_pending
from tellback.state.job_keys import ANY_POOL
from tellback.state.job_losses import AbsentHosts
from tellback.state.jobs import Jobs
from tellback.state.keys import Layout, stream_of
from tellback.state.records import Records
from tellback.state.steady import GAP_MS, observe, skews
from tests.support.clocks import HOUR, ServerClock, SteppedServer, faketime_library, step, steps
from tests.support.intake_entries import idle_streams
from tests.support.jobs import CommandQueue, taken
from tests.support.waiting import wait_until

LEASE = 10.0


@pytest.fixture
def layout(one: Layout) -> Layout:
    """The only shard, of which `jobs` and `queue` are then."""
    return one


def lost(jobs: Jobs) -> list[str]:
    return [each.submitted.command_id for each in jobs.overdue(LEASE)]


def lost_within(jobs: Jobs, clock: ServerClock, seconds: int) -> bool:
    """Find out if a sweep every two seconds finds a loss while this time passes."""
    for _ in range(seconds // 2):
        clock.passes(2)
        if lost(jobs):
            return True
    return False


def test_a_step_forward_postpones_no_lease_that_was_renewed(
    jobs: Jobs, queue: CommandQueue, clock: ServerClock, database: Database, one: Layout
) -> None:
    queue.put("s", "c1")
    lease, running = taken(jobs, LEASE), one.shard(0).key("running")
    assert lost(jobs) == []
    assert jobs.renew(lease, 30)
    until = database.command("ZSCORE", running, "c1")
    step(clock, 1)
    jobs.postpone_loss(lease.shard, "c1")
    assert database.command("ZSCORE", running, "c1") == until


@steps
def test_a_queue_that_was_used_before_the_step_is_observed_is_idle_in_its_time(
    jobs: Jobs, queue: CommandQueue, clock: ServerClock, hours: int
) -> None:
    """Its wake-up may be lost, and only a sweep that finds it idle repeats it."""
    queue.put("s", "c1")
    queue.put("s", "c2")
    assert lost(jobs) == []
    step(clock, hours)
    taken(jobs, LEASE)
    lost(jobs)
    clock.passes(15)
    lost(jobs)
    assert [(pool, queued) for _, pool, queued in jobs.idle_pools(2.0, 10.0)] == [(ANY_POOL, 1)]


@steps
def test_a_step_ends_no_wait_for_an_absent_host_and_lengthens_none(
    database: Database, one: Layout, jobs: Jobs, queue: CommandQueue, clock: ServerClock, hours: int
) -> None:
    absent = AbsentHosts(database, one)
    queue.put("s", "before", host="h")
    assert lost(jobs) == []
    assert absent.abandon(60) == {}
    step(clock, hours)
    queue.put("s", "after", host="i")
    assert absent.abandon(60) == {}, "nobody knows yet whether the time has passed"
    for _ in range(25):
        clock.passes(2)
        assert lost(jobs) == []
        assert absent.abandon(60) == {}
    clock.passes(25)
    lost(jobs)
    assert absent.abandon(60) == {"h": ["before"], "i": ["after"]}


@steps
def test_a_healthy_command_is_not_lost(jobs: Jobs, queue: CommandQueue, clock: ServerClock, hours: int) -> None:
    queue.put("s", "c1")
    lease = taken(jobs, LEASE)
    assert lost(jobs) == []
    step(clock, hours)
    for _ in range(20):
        assert lost(jobs) == []
        assert jobs.renew(lease, LEASE)
        clock.passes(3)


@steps
def test_a_command_whose_holder_died_is_lost_within_two_leases_of_the_step(
    jobs: Jobs, queue: CommandQueue, clock: ServerClock, hours: int
) -> None:
    queue.put("s", "c1")
    taken(jobs, LEASE)
    assert lost(jobs) == []
    step(clock, hours)
    assert lost_within(jobs, clock, round(2 * LEASE) + 4)


@steps
def test_a_command_leased_before_the_step_is_observed_is_neither_lost_nor_kept(
    jobs: Jobs, queue: CommandQueue, clock: ServerClock, hours: int
) -> None:
    queue.put("s", "c1")
    queue.put("s", "c2")
    assert lost(jobs) == []
    step(clock, hours)
    healthy, _ = taken(jobs, LEASE), taken(jobs, LEASE)
    for _ in range(3):
        assert lost(jobs) == []
        assert jobs.renew(healthy, LEASE)
        clock.passes(3)
    found: list[str] = []
    for _ in range(10):
        found = found or lost(jobs)
        assert jobs.renew(healthy, LEASE)
        clock.passes(2)
    assert found == ["c2"]


def test_a_loss_after_a_gap_waits_for_holders_that_could_not_renew(
    jobs: Jobs, queue: CommandQueue, clock: ServerClock, database: Database, one: Layout
) -> None:
    """Redis did not answer for a minute, to anybody: the first sweep afterwards declares nothing lost."""
    queue.put("s", "c1")
    queue.put("s", "c2")
    healthy, _ = taken(jobs, LEASE), taken(jobs, LEASE)
    assert lost(jobs) == []
    clock.passes(60)
    assert lost(jobs) == []
    assert jobs.renew(healthy, LEASE)
    assert lost_within(jobs, clock, round(LEASE) + 2)
    assert Records(database, one).last("s") == []


def test_a_step_between_the_sweep_and_its_verdict_loses_nothing(
    jobs: Jobs, queue: CommandQueue, clock: ServerClock, database: Database, one: Layout
) -> None:
    """A lease that the sweep has read may be renewed meanwhile; only the last observation says how late it is."""
    queue.put("s", "c1")
    lease = taken(jobs, LEASE)
    assert lost(jobs) == []
    clock.passes(LEASE + 1)
    observe(database, one.all)
    clock.passes(LEASE + 1)
    [found] = jobs.overdue()
    assert jobs.renew(lease, LEASE)
    step(clock, 1)
    assert not jobs.mark_lost(found)
    assert Records(database, one).last("s") == []


needs_faketime = pytest.mark.skipif(faketime_library() is None, reason="needs the library of the package `faketime`")


@needs_faketime
@pytest.mark.slow
def test_a_dead_consumer_blocks_its_stream_for_one_lease_after_a_step_back(tmp_path: Path) -> None:
    """A real redis-server on a clock of its own; what was measured before: a lease of 3,603 s."""
    with SteppedServer.start(tmp_path) as server:
        database, layout = Database(server.url), Layout("default", 1)
        intake, shard = Intake(database, layout), layout.shard(0)
        database.command("XADD", stream_of(shard, Family.EVENTS), "*", "m", b"waits")
        assert mark_pending(database, [(shard, Family.EVENTS)]) == ["due"]
        assert intake.take_lease(shard, Family.EVENTS, 10) is not None
        assert mark_pending(database, [(shard, Family.EVENTS)]) == ["due"]
        server.step_to(-HOUR)
        assert database.command("PTTL", shard.key("lease", Family.EVENTS)) > 1_000_000
        wait_until(lambda: idle_streams(database, layout, 10.0), "the visit finds the stream idle")
        wait_until(lambda: intake.take_lease(shard, Family.EVENTS, 10), "another consumer has it")
        database.close()


@needs_faketime
@pytest.mark.parametrize("seconds", [-HOUR, HOUR])
@pytest.mark.slow
def test_a_server_whose_clock_really_steps_leaves_turns_and_commands_alone(tmp_path: Path, seconds: int) -> None:
    with SteppedServer.start(tmp_path) as server:
        database, layout = Database(server.url), Layout("default", 1)
        jobs = Jobs(database, layout)
        CommandQueue(database, layout).put("s", "c1")
        lease = taken(jobs, LEASE)
        assert lost(jobs) == []
        server.step_to(seconds)
        assert lost(jobs) == []
        assert skews(database, layout.all)[0] == pytest.approx(1_000 * seconds, abs=GAP_MS)
        assert jobs.renew(lease, 0.5), "it dies now"
        wait_until(lambda: lost(jobs), "the loss is found when the grace of a lease is over", timeout=LEASE + 10)
        database.close()
