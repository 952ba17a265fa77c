"""Redis' wall clock steps by an hour: deadlines of turns keep their time, and no process knows beforehand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tellback import LlmResponse, Tellback
from tellback.names import Family
from tellback.state.turn_view import TurnView
from tellback.state.turns import Turns
from tellback_workers.loops import consumer_of
from tellback_workers.runtime import Runtime
from tests.support.clocks import ServerClock, step, steps
from tests.support.deliveries import first
from tests.support.turns import HELLO, SENT, opened, overdue, sent, state, store, swept, view


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


@pytest.mark.parametrize("seen", [True, False], ids=["observed", "not yet observed"])
@steps
def test_an_answer_after_the_fallback_is_late_and_not_stale(
    tb: Tellback, clock: ServerClock, hours: int, *, seen: bool
) -> None:
    """Stale answers are sent to nobody, and the answer cannot wait for a sweep."""
    turn = overdue(tb)
    swept(tb)
    first(tb).settle(SENT)
    step(clock, hours)
    if seen:
        swept(tb)
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
