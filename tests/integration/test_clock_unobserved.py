"""Redis' wall clock steps back before anybody has observed it, or when everybody who had is gone: time continues."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tellback import RoutingOutcome, Tellback
from tellback.state.database import Database
from tellback.state.job_claims import JobClaimant
from tellback.state.job_keys import ANY_POOL
from tellback.state.jobs import Jobs
from tellback.state.keys import Layout
from tellback.state.steady import observe, skews
from tests.support.clocks import ServerClock
from tests.support.deliveries import answered, first
from tests.support.jobs import CommandQueue
from tests.support.turns import opened, swept

HOUR_MS = 3_600_000
LEASE = 10.0


def sweeps(tb: Tellback, clock: ServerClock, seconds: int) -> int:
    """Count the turns that get their fallback while this time passes, with a sweep every two seconds."""
    written = 0
    for _ in range(seconds // 2):
        clock.passes(2)
        written += swept(tb)
    return written


def test_a_turn_opened_before_any_observation_has_its_fallback_in_time(tb: Tellback, clock: ServerClock) -> None:
    """Seed 302615 of the simulated turns: it waited for as long as the step, since beat's first sweeps were lost."""
    opened(tb, answer_within=30)
    clock.passes(3)
    clock.step(-HOUR_MS)
    assert sweeps(tb, clock, 26) == 0, "not before its deadline"
    assert sweeps(tb, clock, 8) == 1, "late by the three seconds that nobody observed"


def test_turns_opened_on_both_sides_of_a_step_that_nobody_observed(tb: Tellback, clock: ServerClock) -> None:
    opened(tb, answer_within=30, conversation="before")
    clock.step(-HOUR_MS)
    turn = opened(tb, answer_within=30, conversation="between")
    clock.passes(2)
    turn.progress()
    assert sweeps(tb, clock, 26) == 0
    assert sweeps(tb, clock, 10) == 2


def test_time_before_the_first_observation_counts_while_the_shard_is_used(tb: Tellback, clock: ServerClock) -> None:
    """A host may open turns for an hour before there are workers: what is long overdue does not wait again."""
    opened(tb, answer_within=30)
    clock.passes(HOUR_MS / 1000)
    opened(tb, answer_within=30)
    clock.passes(1)
    clock.step(-HOUR_MS)
    assert sweeps(tb, clock, 2) == 1
    assert sweeps(tb, clock, 26) == 0
    assert sweeps(tb, clock, 6) == 1


def test_a_command_leased_before_any_observation_is_lost_in_time(
    database: Database, one: Layout, clock: ServerClock
) -> None:
    jobs = Jobs(database, one)
    CommandQueue(database, one).put("s", "c1")
    assert jobs.lease(JobClaimant(ANY_POOL, seconds=LEASE, worker="w@test", host="h")) is not None
    clock.step(-HOUR_MS)
    found: list[str] = []
    for _ in range(round(LEASE) + 2):
        clock.passes(2)
        found = found or [each.submitted.command_id for each in jobs.overdue(LEASE)]
    assert found == ["c1"]


def test_a_delivery_that_failed_before_any_observation_is_tried_again_in_its_time(
    tb: Tellback, clock: ServerClock
) -> None:
    answered(tb, "1")
    sending = first(tb)
    assert sending.settle(RoutingOutcome(attempted=True, error="429", retry_after=30)) == "retry"
    clock.step(-HOUR_MS)
    swept(tb)
    clock.passes(25)
    assert list(tb.outbox("chat")) == []
    clock.passes(10)
    assert first(tb).attempt == 2


def test_a_step_back_while_all_who_observed_are_gone_is_no_time(
    tb: Tellback, clock: ServerClock, on_another_host: Callable[[str], None]
) -> None:
    """After a reboot of the only machine, whose clock begins in the past, its new clock since boot is a new host."""
    assert swept(tb) == 0
    opened(tb, answer_within=30)
    clock.step(-HOUR_MS)
    on_another_host("after the reboot")
    assert sweeps(tb, clock, 28) == 0
    assert sweeps(tb, clock, 6) == 1
    opened(tb, answer_within=30, conversation="c2")
    clock.step(HOUR_MS)
    assert sweeps(tb, clock, 28) == 0, "the correction of the clock is seen by who has observed"
    assert sweeps(tb, clock, 4) == 1


def test_who_has_observed_corrects_what_a_new_host_could_not_know(
    database: Database, one: Layout, clock: ServerClock, on_another_host: Callable[[str], None]
) -> None:
    """A new host only knows that time did not go back: the time since the last observation is missing."""
    on_another_host("old")
    [before] = observe(database, one.all)
    clock.passes(60)
    clock.step(-HOUR_MS)
    on_another_host("new")
    [stands] = observe(database, one.all)
    assert stands.now == before.now
    on_another_host("old")
    [exact] = observe(database, one.all)
    assert exact.now - before.now == pytest.approx(60_000, abs=1_000)
    on_another_host("new")
    clock.passes(10)
    [goes_on] = observe(database, one.all)
    assert goes_on.now - before.now == pytest.approx(70_000, abs=1_000)
    assert skews(database, one.all) == [pytest.approx(-HOUR_MS, abs=1_000)]


def test_a_step_after_the_one_that_let_the_clock_stand_postpones_no_turn(tb: Tellback, clock: ServerClock) -> None:
    """Seed 873 of the simulated clock: the turn waited for as long as the second step."""
    assert swept(tb) == 0
    clock.passes(2)
    clock.step(-HOUR_MS)
    opened(tb, answer_within=30)
    assert swept(tb) == 0
    clock.step(-HOUR_MS)
    assert sweeps(tb, clock, 28) == 0, "not before its deadline"
    assert sweeps(tb, clock, 4) == 1


def test_two_steps_that_one_observation_counts_postpone_a_turn_by_seconds(tb: Tellback, clock: ServerClock) -> None:
    assert swept(tb) == 0
    clock.passes(4)
    clock.step(-HOUR_MS)
    opened(tb, answer_within=30)
    clock.step(-HOUR_MS)
    assert sweeps(tb, clock, 26) == 0, "not before its deadline"
    assert sweeps(tb, clock, 8) == 1, "late by no more than the time between two observations"


def test_a_turn_opened_while_the_clock_stood_has_its_time_once_it_is_corrected(
    tb: Tellback, clock: ServerClock, on_another_host: Callable[[str], None]
) -> None:
    """A new host counts the step but not the minute before it; who has observed adds the minute."""
    on_another_host("old")
    assert swept(tb) == 0
    clock.passes(60)
    clock.step(-HOUR_MS)
    opened(tb, answer_within=30)
    on_another_host("new")
    assert swept(tb) == 0
    on_another_host("old")
    assert sweeps(tb, clock, 28) == 0, "not before its deadline"
    assert sweeps(tb, clock, 4) == 1
