"""Redis' wall clock steps by an hour: leases and deadlines keep their time, and no process knows beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tellback import LlmResponse, RoutingOutcome, Tellback
from tellback.client.outbox import open_outbox
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.absent_hosts import AbsentHosts
from tellback.state.database import Database
from tellback.state.fleet import TeamVisits
from tellback.state.intake import Intake, mark_pending
from tellback.state.job_keys import ANY_POOL
from tellback.state.jobs import JobClaimant, JobLease, Jobs
from tellback.state.keys import FLEET, Layout, lifetime_ms, stream_of
from tellback.state.limits import LimitStore
from tellback.state.presence import Presence, Worker
from tellback.state.records import Records
from tellback.state.steady import GAP_MS, observe, skews
from tellback.state.turn_view import TurnView
from tellback.state.turns import Turns
from tellback_workers.app import app
from tellback_workers.loops import consumer_of
from tellback_workers.runtime import Runtime
from tellback_workers.scheduler import SILENT_PERIODS, TeamScheduler
from tests.support.clocks import ServerClock, SteppedServer, faketime_library
from tests.support.deliveries import answered, first
from tests.support.intake_entries import idle_streams
from tests.support.jobs import Queue
from tests.support.turns import HELLO, SENT, opened, overdue, sent, state, store, swept, view
from tests.support.waiting import wait_until

HOUR = 3_600
LEASE = 10.0
steps = pytest.mark.parametrize("hours", [-1, 1])


@pytest.fixture
def jobs(database: Database, one: Layout) -> Jobs:
    return Jobs(database, one)


@pytest.fixture
def queue(database: Database, one: Layout) -> Queue:
    return Queue(database, one)


def step(clock: ServerClock, hours: int) -> None:
    clock.step(1_000 * HOUR * hours)


def take(jobs: Jobs) -> JobLease:
    lease = jobs.lease(JobClaimant(ANY_POOL, seconds=LEASE, worker="w@test", host="h"))
    assert lease is not None
    return lease


def lost(jobs: Jobs) -> list[str]:
    return [each.submitted.command_id for each in jobs.overdue(LEASE)]


def lost_within(jobs: Jobs, clock: ServerClock, seconds: int) -> bool:
    """Find out if a sweep every two seconds finds a loss while this time passes."""
    for _ in range(seconds // 2):
        clock.passes(2)
        if lost(jobs):
            return True
    return False


@steps
def test_a_turn_keeps_its_deadline(tb: Tellback, clock: ServerClock, hours: int) -> None:
    turn = opened(tb, answer_within=30)
    assert swept(tb) == 0
    step(clock, hours)
    assert swept(tb) == 0
    assert view(tb, turn).deadline == pytest.approx(tb.context.database.now_ms() + 30_000, abs=5_000), (
        "as people see it"
    )
    clock.passes(25)
    assert swept(tb) == 0, "not before its deadline"
    clock.passes(6)
    assert swept(tb) == 1


@steps
def test_a_turn_opened_before_the_step_is_observed_keeps_its_time(tb: Tellback, clock: ServerClock, hours: int) -> None:
    """For two seconds or so nobody knows of the step; the sweep corrects what was set meanwhile."""
    assert swept(tb) == 0
    clock.passes(1)
    step(clock, hours)
    turn = opened(tb, answer_within=30)
    clock.passes(2)
    assert swept(tb) == 0
    clock.passes(20)
    assert turn.progress() is None or state(turn) == "open"
    clock.passes(25)
    assert swept(tb) == 0, "progress has given it thirty seconds more"
    clock.passes(10)
    assert swept(tb) == 1


@pytest.mark.parametrize("seen", [True, False], ids=["observed", "not yet observed"])
@steps
def test_progress_around_a_step_gives_its_time_and_no_more(
    tb: Tellback, clock: ServerClock, hours: int, *, seen: bool
) -> None:
    """The user waits thirty seconds from the progress, and at most ten more if nobody had observed the step."""
    turn = opened(tb, answer_within=30)
    assert swept(tb) == 0
    clock.passes(20)
    assert swept(tb) == 0
    step(clock, hours)
    if seen:
        assert swept(tb) == 0
    turn.progress()
    clock.passes(2)
    assert swept(tb) == 0
    clock.passes(26)
    assert (swept(tb), state(turn)) == (0, "open"), "not before its deadline"
    clock.passes(14)
    assert (swept(tb), state(turn)) == (1, "fallback")


@steps
def test_progress_between_a_step_and_one_back_gives_its_time_and_no_more(
    tb: Tellback, clock: ServerClock, hours: int
) -> None:
    """An operator sets the clock, sees the mistake and sets it back; each time an agent reports progress first."""
    turn = opened(tb, answer_within=30)
    assert swept(tb) == 0
    for each in (hours, -hours):
        clock.passes(10)
        step(clock, each)
        turn.progress()
        clock.passes(1)
        assert swept(tb) == 0
    clock.passes(26)
    assert (swept(tb), state(turn)) == (0, "open"), "not before its deadline"
    clock.passes(16)
    assert (swept(tb), state(turn)) == (1, "fallback")


@steps
def test_progress_extends_no_turn_beyond_its_limit_by_steps(tb: Tellback, clock: ServerClock, hours: int) -> None:
    """Ten steps, each with progress before anybody observes it: the hard limit moves by at most ten seconds each."""
    turn = opened(tb, answer_within=30)
    assert swept(tb) == 0
    limit = tb.context.settings.turn_limit
    waited = 0
    while not swept(tb):
        if waited < 250:
            step(clock, -hours if waited % 50 else hours)
        turn.progress()
        clock.passes(25)
        waited += 25
    assert limit <= waited <= limit + 10 * 10 + 2 * 25, "seconds until the fallback"


@pytest.mark.parametrize("seen", [True, False], ids=["observed", "not yet observed"])
@steps
def test_a_step_around_a_finish_lets_no_fallback_overtake_the_answer(
    tb: Tellback, runtime: Runtime, clock: ServerClock, hours: int, *, seen: bool
) -> None:
    """The answer waits in the intake until shortly before its grace ends; the clock steps before or after it."""
    turn = opened(tb, answer_within=30)
    for _ in range(14):  # sweeps observe; from the last one the steady clock stands still after a step back
        clock.passes(2)
        assert swept(tb) == 0
    step(clock, hours)
    if seen:
        assert swept(tb) == 0
    turn.finish(llm_response=LlmResponse(text="hello"), final_answer_ready=True)
    tb.flush()
    assert state(turn) == "finishing"
    clock.passes(tb.context.settings.finish_grace - 2)
    step(clock, -hours)
    assert swept(tb) == 0, "within the grace"
    for shard in tb.context.layout.all:
        consumer_of(runtime, "default", Family.TURNS).consume(shard, Family.TURNS)
    assert (state(turn), [kind for _, kind, _ in sent(tb)]) == ("responded", ["answer"])


@steps
def test_a_finish_whose_answer_never_comes_gets_its_fallback_after_its_grace(
    tb: Tellback, clock: ServerClock, hours: int
) -> None:
    """Its event was lost with its host; the step comes before the finish, and is observed after it."""
    turn = opened(tb, answer_within=30)
    assert swept(tb) == 0
    clock.passes(10)
    step(clock, hours)
    turn.finish(llm_response=LlmResponse(text="hello"), final_answer_ready=True)
    tb.flush()
    grace = max(20.0, tb.context.settings.finish_grace)
    clock.passes(2)
    assert swept(tb) == 0
    clock.passes(grace - 4)
    assert swept(tb) == 0
    clock.passes(16)
    assert (swept(tb), state(turn)) == (1, "fallback")


@steps
def test_a_turn_opened_before_the_step_is_observed_gets_its_fallback_on_time(
    tb: Tellback, clock: ServerClock, hours: int
) -> None:
    """Nobody touches the turn between its opening and its deadline but the sweeps."""
    assert swept(tb) == 0
    clock.passes(1)
    step(clock, hours)
    opened(tb, answer_within=30)
    for _ in range(14):
        clock.passes(2)
        assert swept(tb) == 0, "not before its deadline"
    clock.passes(5)
    assert swept(tb) == 1


@steps
def test_a_step_between_a_sweep_and_its_fallbacks_postpones_no_turn(
    tb: Tellback, clock: ServerClock, hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 549 of the simulated clock: corrected by less than a step forward, the turn waited for the rest of it."""
    assert swept(tb) == 0
    clock.passes(1)
    step(clock, 2)
    opened(tb, answer_within=30)
    load = Turns.load

    def load_after_a_step(turns: Turns, ids: Sequence[str]) -> list[TurnView | None]:
        monkeypatch.setattr(Turns, "load", load)
        step(clock, hours)
        return load(turns, ids)

    monkeypatch.setattr(Turns, "load", load_after_a_step)
    clock.passes(1)
    for _ in range(14):
        assert swept(tb) == 0, "not before its deadline"
        clock.passes(2)
    clock.passes(5)
    assert swept(tb) == 1


def test_the_clock_steps_back_and_forth(tb: Tellback, clock: ServerClock) -> None:
    opened(tb, answer_within=100)
    swept(tb)
    for hours in (1, -1, -1, 2, 5, -9):
        step(clock, hours)
        clock.passes(10)
        assert swept(tb) == 0
    clock.passes(45)
    assert swept(tb) == 1


def test_time_in_which_nobody_observes_passes_as_the_clock_says(tb: Tellback, clock: ServerClock) -> None:
    """No worker has ever seen this Redis: a step cannot be distinguished from time."""
    opened(tb, answer_within=30)
    step(clock, 1)
    assert swept(tb) == 1


@steps
def test_an_answer_after_the_fallback_is_late_and_not_stale(tb: Tellback, clock: ServerClock, hours: int) -> None:
    turn = overdue(tb)
    swept(tb)
    first(tb).settle(RoutingOutcome(attempted=True, sent_text=True))
    step(clock, hours)
    swept(tb)
    assert turn.respond(HELLO) == "late"


@steps
def test_an_answer_before_the_step_is_observed_is_late_and_not_stale(
    tb: Tellback, clock: ServerClock, hours: int
) -> None:
    """Stale answers are sent to nobody, and the answer cannot wait for a sweep."""
    turn = overdue(tb)
    swept(tb)
    first(tb).settle(SENT)
    step(clock, hours)
    assert turn.respond(HELLO) == "late"


@steps
def test_a_turn_postponed_before_the_step_is_observed_is_tried_again_in_its_time(
    tb: Tellback, clock: ServerClock, hours: int
) -> None:
    """A sweep found it overdue, and could not write its fallback."""
    turn = overdue(tb)
    assert store(tb).overdue(10) == [turn.id]
    step(clock, hours)
    store(tb).postpone(turn.id, 60_000)
    for _ in range(29):
        clock.passes(2)
        assert swept(tb) == 0
    clock.passes(15)
    assert swept(tb) == 1


def test_a_step_forward_postpones_no_lease_that_was_renewed(
    jobs: Jobs, queue: Queue, clock: ServerClock, database: Database, one: Layout
) -> None:
    queue.put("s", "c1")
    lease, running = take(jobs), one.shard(0).key("running")
    assert lost(jobs) == []
    assert jobs.renew(lease, 30)
    until = database.command("ZSCORE", running, "c1")
    step(clock, 1)
    jobs.postpone_loss(lease.shard, "c1")
    assert database.command("ZSCORE", running, "c1") == until


@steps
def test_a_queue_that_was_used_before_the_step_is_observed_is_idle_in_its_time(
    jobs: Jobs, queue: Queue, clock: ServerClock, hours: int
) -> None:
    """Its wake-up may be lost, and only a sweep that finds it idle repeats it."""
    queue.put("s", "c1")
    queue.put("s", "c2")
    assert lost(jobs) == []
    step(clock, hours)
    take(jobs)
    lost(jobs)
    clock.passes(15)
    lost(jobs)
    assert [(pool, queued) for _, pool, queued in jobs.idle_pools(2.0, 10.0)] == [(ANY_POOL, 1)]


@steps
def test_a_step_ends_no_wait_for_an_absent_host_and_lengthens_none(
    database: Database, one: Layout, jobs: Jobs, queue: Queue, clock: ServerClock, hours: int
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
def test_a_healthy_command_is_not_lost(jobs: Jobs, queue: Queue, clock: ServerClock, hours: int) -> None:
    queue.put("s", "c1")
    lease = take(jobs)
    assert lost(jobs) == []
    step(clock, hours)
    for _ in range(20):
        assert lost(jobs) == []
        assert jobs.renew(lease, LEASE)
        clock.passes(3)


@steps
def test_a_command_whose_holder_died_is_lost_within_two_leases_of_the_step(
    jobs: Jobs, queue: Queue, clock: ServerClock, hours: int
) -> None:
    queue.put("s", "c1")
    take(jobs)
    assert lost(jobs) == []
    step(clock, hours)
    assert lost_within(jobs, clock, round(2 * LEASE) + 4)


@steps
def test_a_command_leased_before_the_step_is_observed_is_neither_lost_nor_kept(
    jobs: Jobs, queue: Queue, clock: ServerClock, hours: int
) -> None:
    queue.put("s", "c1")
    queue.put("s", "c2")
    assert lost(jobs) == []
    step(clock, hours)
    healthy, _ = take(jobs), take(jobs)
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
    jobs: Jobs, queue: Queue, clock: ServerClock, database: Database, one: Layout
) -> None:
    """Redis did not answer for a minute, to anybody: the first sweep afterwards declares nothing lost."""
    queue.put("s", "c1")
    queue.put("s", "c2")
    healthy, _ = take(jobs), take(jobs)
    assert lost(jobs) == []
    clock.passes(60)
    assert lost(jobs) == []
    assert jobs.renew(healthy, LEASE)
    assert lost_within(jobs, clock, round(LEASE) + 2)
    assert Records(database, one).last("s") == []


def test_a_step_between_the_sweep_and_its_verdict_loses_nothing(
    jobs: Jobs, queue: Queue, clock: ServerClock, database: Database, one: Layout
) -> None:
    """A lease that the sweep has read may be renewed meanwhile; only the last observation says how late it is."""
    queue.put("s", "c1")
    lease = take(jobs)
    assert lost(jobs) == []
    clock.passes(LEASE + 1)
    observe(database, one.all)
    clock.passes(LEASE + 1)
    [found] = jobs.overdue()
    assert jobs.renew(lease, LEASE)
    step(clock, 1)
    assert not jobs.mark_lost(found)
    assert Records(database, one).last("s") == []


@steps
def test_a_delivery_is_tried_again_in_its_time(tb: Tellback, clock: ServerClock, hours: int) -> None:
    answered(tb, "1")
    swept(tb)
    assert first(tb).settle(RoutingOutcome(attempted=True, error="429", retry_after=300)) == "retry"
    step(clock, hours)
    swept(tb)
    clock.passes(290)
    assert list(tb.outbox("chat")) == []
    clock.passes(20)
    assert first(tb).attempt == 2


@pytest.fixture
def on_another_host(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Moves this process to a host that has never compared its clock with the server's."""
    return lambda name: monkeypatch.setattr("tellback.clock.boot_id", lambda: name)


@steps
@pytest.mark.parametrize("host", ["", "another"])
def test_a_step_ends_no_lease_of_a_delivery(
    tb: Tellback, clock: ServerClock, on_another_host: Callable[[str], None], hours: int, host: str
) -> None:
    """No sweep comes in between; a second transport once got, and sent, what the first was sending."""
    answered(tb, "1")
    swept(tb)
    sending = first(tb)
    if host:
        on_another_host(host)
    step(clock, hours)
    assert list(tb.outbox("chat")) == []
    assert sending.settle(SENT) == "delivered"


@steps
def test_a_step_between_a_list_and_a_claim_ends_no_lease(tb: Tellback, clock: ServerClock, hours: int) -> None:
    answered(tb, "1")
    swept(tb)
    outbox = open_outbox(tb.context)
    [(place, listed)] = outbox.ready("chat", 10)
    taken = outbox.claim(place, listed)
    assert taken is not None
    step(clock, hours)
    assert outbox.claim(place, listed) is None
    assert outbox.settle(place, taken, RoutingOutcome(attempted=True, error="?", ambiguous=True)) == "ambiguous"
    swept(tb)
    clock.passes(2)
    [(place, listed)] = outbox.ambiguous("chat", 10)
    assert outbox.claim_ambiguous(place, listed) is not None
    step(clock, hours)
    assert outbox.claim_ambiguous(place, listed) is None, "one asks at a time"


def test_a_delivery_claimed_before_a_step_forward_is_observed_keeps_its_lease(tb: Tellback, clock: ServerClock) -> None:
    answered(tb, "1")
    swept(tb)
    step(clock, 24)
    first(tb, 0)
    swept(tb)
    assert list(tb.outbox("chat")) == []
    clock.passes(tb.context.settings.outbox_lease + 1)
    assert first(tb, 0).attempt == 2


def test_a_delivery_that_fails_before_a_step_forward_is_observed_is_tried_within_seconds(
    tb: Tellback, clock: ServerClock
) -> None:
    """`make chaos SEED=11` found one that waited an hour."""
    answered(tb, "1")
    swept(tb)
    sending = first(tb, 0)
    step(clock, 1)
    assert sending.settle(RoutingOutcome(attempted=True, error="429", retry_after=30)) == "retry"
    swept(tb)
    clock.passes(29)
    assert list(tb.outbox("chat")) == []
    clock.passes(11)
    assert first(tb, 0).attempt == 2


def test_a_new_host_without_workers_takes_the_time_for_time_after_ten_seconds(
    tb: Tellback, clock: ServerClock, on_another_host: Callable[[str], None]
) -> None:
    """Until then a worker may still say that it was a step; afterwards this host can tell by itself."""
    swept(tb)
    on_another_host("another")
    clock.passes(60)
    answered(tb, "1")
    assert list(tb.outbox("chat")) == []
    clock.passes(9)
    assert list(tb.outbox("chat")) == []
    clock.passes(2)
    first(tb, 0)
    step(clock, 1)
    assert list(tb.outbox("chat")) == []
    clock.passes(tb.context.settings.outbox_lease + 1)
    assert first(tb, 0).attempt == 2


def test_an_answer_before_a_step_forward_is_observed_waits_for_seconds(tb: Tellback, clock: ServerClock) -> None:
    """`make chaos SEED=1` found three answers that waited an hour, since their turns came before the next sweep."""
    swept(tb)
    answered(tb, "before")
    step(clock, 1)
    answered(tb, "behind it")
    answered(tb, "between", conversation="c2")
    first(tb, 0).settle(SENT)  # what is behind it may be taken from now on
    swept(tb)
    clock.passes(10)
    swept(tb)
    assert sorted(text or "" for _, _, text in sent(tb)) == ["behind it", "between"]


def test_observers_that_come_and_go_count_each_step_once(
    database: Database, one: Layout, clock: ServerClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hosts, whose clocks began at different times, see the same steps; a third comes between."""
    import tellback.clock as host

    boots = {"a": 100.0, "b": 5_000.0, "c": 77.0}
    elapsed = host.since_boot

    def sees(name: str) -> int:
        monkeypatch.setattr(host, "boot_id", lambda: name)
        real = elapsed
        monkeypatch.setattr(host, "since_boot", lambda: real() + boots[name])
        observe(database, one.all)
        return round(skews(database, one.all)[0] / 1000)

    assert [sees(name) for name in "abab"] == [0, 0, 0, 0]
    step(clock, 1)
    assert [sees(name) for name in "cabcab"] == [0, HOUR, HOUR, HOUR, HOUR, HOUR]
    step(clock, -3)
    assert [sees(name) for name in "bcaabc"] == [-2 * HOUR] * 6


@pytest.fixture
def runtime(settings: Settings, database: Database) -> Iterator[Runtime]:  # noqa: ARG001 - emptied
    runtime = Runtime(settings)
    yield runtime
    runtime.database.close()


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
        assert intake.take_lease(shard, Family.EVENTS, 3) is not None
        assert mark_pending(database, [(shard, Family.EVENTS)]) == ["due"]
        server.step_to(-HOUR)
        assert database.command("PTTL", shard.key("lease", Family.EVENTS)) > 1_000_000
        wait_until(lambda: idle_streams(database, layout, 3.0), "the visit finds the stream idle", timeout=20)
        wait_until(lambda: intake.take_lease(shard, Family.EVENTS, 3), "another consumer has it", timeout=20)
        database.close()


@needs_faketime
@pytest.mark.parametrize("seconds", [-HOUR, HOUR])
@pytest.mark.slow
def test_a_server_whose_clock_really_steps_leaves_turns_and_commands_alone(tmp_path: Path, seconds: int) -> None:
    with SteppedServer.start(tmp_path) as server:
        database, layout = Database(server.url), Layout("default", 1)
        jobs = Jobs(database, layout)
        Queue(database, layout).put("s", "c1")
        lease = take(jobs)
        assert lost(jobs) == []
        server.step_to(seconds)
        assert lost(jobs) == []
        assert skews(database, layout.all)[0] == pytest.approx(1_000 * seconds, abs=GAP_MS)
        assert jobs.renew(lease, 0.5), "it dies now"
        wait_until(lambda: lost(jobs), "the loss is found when the grace of a lease is over", timeout=LEASE + 10)
        database.close()


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
