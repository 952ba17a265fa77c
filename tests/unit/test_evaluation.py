"""Triggers, cadence and what a tool call earns, without Redis."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback import Feedback, FeedbackContext, FeedbackTrigger, InvalidInput, ProviderSpec
from tellback.contracts.guidance import DeliveryMode, EvaluationBegun, ToolCall, ToolInvoked
from tellback.guidance.evaluation import ProviderInvoker, apply_event
from tellback.guidance.provider import ProviderFailure
from tellback.guidance.state import FAILURES_MAX, RECENT_CALLS, BatchEffects, EvaluationState, new_evaluation

START = 1_000_000
WRONG_CALLS: Sequence[Any] = (0, -1, 2.5, True, "3", [])
WRONG_SECONDS: Sequence[Any] = (0, -1, float("nan"), float("inf"), "5", timedelta(seconds=3), False)


class Speaks(ProviderInvoker):
    """An invoker in which each provider says its own name; some fail, some decline."""

    def __init__(self, failing: Sequence[str] = (), silent: Sequence[str] = ()) -> None:
        self.failing = set(failing)
        self.silent = set(silent)
        self.seen: list[FeedbackContext] = []

    def ask(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        self.seen.append(context)
        if spec.name in self.failing:
            raise ProviderFailure("broken")
        return None if spec.name in self.silent else Feedback(spec.name, f"call {context.tool_call_count}")


def spec(name: str, calls: int | None = None, seconds: float | None = None) -> ProviderSpec:
    return ProviderSpec(name=name, trigger=FeedbackTrigger(calls, seconds))


def begun(*providers: ProviderSpec, delivery: DeliveryMode = "first", **config: Any) -> EvaluationBegun:
    return EvaluationBegun(
        event_id="b", session="s", evaluation="e", prompt="p", providers=list(providers), delivery=delivery, **config
    )


CALL = ToolInvoked(event_id="t", session="s", evaluation="e", prompt="p", tool="search", params={"q": "x"})


class EvaluationRun:
    """One evaluation, its panel and what it has earned."""

    def __init__(self, *events: EvaluationBegun, invoker: Speaks | None = None) -> None:
        self.invoker = invoker or Speaks()
        self.state = new_evaluation("s", "p", "e", START)
        self.effects = BatchEffects()
        for event in events:
            apply_event(self.state, event, START, self.invoker, self.effects)

    def call(self, at: int = START, times: int = 1) -> list[str]:
        """The names that spoke."""
        before = len(self.effects.feedback)
        for _ in range(times):
            apply_event(self.state, CALL, at, self.invoker, self.effects)
        return [feedback.provider_name for feedback in self.effects.feedback[before:]]

    @property
    def fired(self) -> list[tuple[int, str]]:
        return [(feedback.call_index, feedback.provider_name) for feedback in self.effects.feedback]


def test_each_provider_has_its_own_cadence_and_the_first_due_wins() -> None:
    """Per-prompt cadence would let A=3 starve B=5 for ever."""
    run = EvaluationRun(begun(spec("A", 3), spec("B", 5)))
    run.call(times=10)
    assert run.fired == [(3, "A"), (5, "B"), (6, "A"), (9, "A"), (10, "B")]


def test_who_loses_a_call_to_another_speaks_at_the_next() -> None:
    run = EvaluationRun(begun(spec("A", 2), spec("B", 2)))
    run.call(times=6)
    assert run.fired == [(2, "A"), (3, "B"), (4, "A"), (5, "B"), (6, "A")]


def test_with_delivery_all_each_due_provider_speaks() -> None:
    run = EvaluationRun(begun(spec("A", 2), spec("B", 2), delivery="all"))
    run.call(times=4)
    assert run.fired == [(2, "A"), (2, "B"), (4, "A"), (4, "B")]


def test_two_providers_of_one_name_do_not_share_a_cadence() -> None:
    run = EvaluationRun(begun(spec("A", 3), spec("A", 4)))
    run.call(times=8)
    assert [index for index, _ in run.fired] == [3, 4, 6, 8]


def test_seconds_count_from_the_beginning_and_then_from_the_own_last_feedback() -> None:
    run = EvaluationRun(begun(spec("A", seconds=30)))
    assert run.call(START + 29_999) == []
    assert run.call(START + 30_000) == ["A"]
    assert run.call(START + 59_999) == []
    assert run.call(START + 60_000) == ["A"]


def test_the_conditions_of_a_trigger_are_alternatives() -> None:
    run = EvaluationRun(begun(spec("A", calls=3, seconds=60)))
    assert run.call(times=3) == ["A"]
    assert run.call(START + 60_000) == ["A"]
    assert run.call(START + 60_000, times=2) == []
    assert run.call(START + 60_000) == ["A"]


def test_an_empty_trigger_never_fires() -> None:
    assert EvaluationRun(begun(spec("A"))).call(START + 10**9, times=50) == []


@pytest.mark.parametrize(
    ("calls", "seconds"),
    [
        *[(wrong, None) for wrong in WRONG_CALLS],
        *[(None, wrong) for wrong in WRONG_SECONDS],
    ],
)
def test_a_trigger_that_would_always_fire_or_is_no_number_is_refused(calls: Any, seconds: Any) -> None:
    with pytest.raises(InvalidInput, match="every_n_"):
        FeedbackTrigger(calls, seconds)


def test_one_that_does_not_want_to_run_lets_the_next_speak_and_stays_due() -> None:
    run = EvaluationRun(begun(spec("A", 1), spec("B", 1)), invoker=Speaks(silent=["A"]))
    assert run.call() == ["B"]
    run.invoker.silent.clear()
    assert run.call() == ["A"]


def test_a_failure_costs_its_own_feedback_only_and_is_in_the_history() -> None:
    run = EvaluationRun(begun(spec("A", 2), spec("B", 2)), invoker=Speaks(failing=["A"]))
    run.call(times=2)
    assert run.fired == [(2, "B")]
    kinds = [msgspec.json.decode(line)["kind"] for line in run.effects.history]
    assert kinds == ["tool_call", "tool_call", "provider_failure", "feedback"]


def test_a_provider_that_keeps_failing_is_not_asked_again_in_this_evaluation() -> None:
    run = EvaluationRun(begun(spec("A", 1)), invoker=Speaks(failing=["A"]))
    run.call(times=10)
    assert len(run.invoker.seen) == FAILURES_MAX
    assert run.state.slots[0].disabled
    run.invoker.failing.clear()
    assert run.call() == []


def test_a_success_forgives_earlier_failures() -> None:
    run = EvaluationRun(begun(spec("A", 1)), invoker=Speaks(failing=["A"]))
    run.call(times=FAILURES_MAX - 1)
    run.invoker.failing.clear()
    run.call()
    assert run.state.slots[0].streak == 0


def test_tool_calls_before_the_beginning_count_and_earn_later() -> None:
    run = EvaluationRun()
    run.call(times=4)
    apply_event(run.state, begun(spec("A", 5)), START, run.invoker, run.effects)
    assert run.call() == ["A"]


def test_the_first_configuration_counts_and_a_join_without_one_changes_nothing() -> None:
    run = EvaluationRun(
        begun(), begun(spec("A", 1), deadline_in=60.0, tools=["t"]), begun(spec("B", 1), deadline_in=5.0)
    )
    assert run.call() == ["A"]
    assert run.state.deadline_at == START + 60_000
    assert run.state.tools == ["t"]


def test_the_context_is_that_of_the_prompt_whoever_spoke_last() -> None:
    run = EvaluationRun(begun(spec("A", 2), spec("B", 3), deadline_in=60.0, question="why?"))
    run.call(times=3)
    context = run.invoker.seen[-1]
    assert (context.session, context.prompt, context.evaluation, context.question) == ("s", "p", "e", "why?")
    assert context.tool_call_count == 3
    assert context.last_feedback is not None
    assert (context.last_feedback.provider_name, context.last_feedback.call_index) == ("A", 2)
    assert context.tool_calls_since_last_feedback() == 1
    assert context.deadline is not None
    assert (context.deadline - context.began_at).total_seconds() == 60


@pytest.mark.parametrize("seconds", [1e300, -1e300, 1e12])
def test_a_deadline_beyond_all_dates_breaks_nothing(seconds: float) -> None:
    run = EvaluationRun(begun(spec("A", 1), deadline_in=seconds))
    assert run.call() == ["A"]


def test_recent_calls_are_bounded_and_the_newest_come_last() -> None:
    run = EvaluationRun(begun(spec("A", 50)))
    run.call(times=50)
    context = run.invoker.seen[0]
    assert [call.call_index for call in context.recent_tool_calls(3)] == [48, 49, 50]
    assert len(context.recent_tool_calls(1000)) == RECENT_CALLS
    assert context.recent_tool_calls(0) == ()
    assert context.recent_tool_calls(1)[0] == ToolCall(
        at=START, tool="search", call_index=50, prompt="p", evaluation="e", params={"q": "x"}, repeats=32
    )


def test_the_state_does_not_grow_with_recorded_calls() -> None:
    run = EvaluationRun(begun(spec("A", 3)))
    run.call(times=100)
    early = len(msgspec.json.encode(run.state))
    run.call(times=5_000)
    assert len(msgspec.json.encode(run.state)) < early * 1.1


triggers = st.tuples(st.integers(1, 7) | st.none(), st.integers(1, 9) | st.none())


def recount(triggers_: list[tuple[int | None, int | None]], gaps: list[int], *, every: bool) -> list[tuple[int, str]]:
    """The rule once more, from the definition: a list of past feedback, searched from the start each time."""
    fired: list[tuple[int, str, int]] = []
    now = 0
    for count, gap in enumerate(gaps, 1):
        now += gap
        for index, (calls, seconds) in enumerate(triggers_):
            own = [(at_count, at) for at_count, name, at in fired if name == str(index)]
            last_count, last_at = own[-1] if own else (0, 0)
            by_calls = calls is not None and count - last_count >= calls
            by_time = seconds is not None and now - last_at >= seconds
            if by_calls or by_time:
                fired.append((count, str(index), now))
                if not every:
                    break
    return [(count, name) for count, name, _ in fired]


@given(st.lists(triggers, max_size=4), st.lists(st.integers(0, 5), max_size=60), st.sampled_from(["first", "all"]))
def test_fires_are_those_of_the_definition(
    providers: list[tuple[int | None, int | None]], gaps: list[int], delivery: DeliveryMode
) -> None:
    specs = [spec(str(index), calls, seconds) for index, (calls, seconds) in enumerate(providers)]
    run = EvaluationRun(begun(*specs, delivery=delivery))
    now = START
    for gap in gaps:
        now += gap * 1000
        run.call(now)
    assert run.fired == recount(providers, gaps, every=delivery == "all")


@given(st.lists(triggers, max_size=3), st.lists(st.integers(0, 5), max_size=40), st.data())
def test_a_stop_between_two_calls_changes_nothing(
    providers: list[tuple[int | None, int | None]], gaps: list[int], data: st.DataObject
) -> None:
    """The state that is kept is the whole state: encoding and decoding it anywhere gives the same fires."""
    specs = [spec(str(index), calls, seconds) for index, (calls, seconds) in enumerate(providers)]
    whole, parted = EvaluationRun(begun(*specs)), EvaluationRun(begun(*specs))
    stop = data.draw(st.integers(0, len(gaps)))
    now = START
    for index, gap in enumerate(gaps):
        now += gap * 1000
        if index == stop:
            parted.state = msgspec.json.decode(msgspec.json.encode(parted.state), type=EvaluationState)
        whole.call(now)
        parted.call(now)
    assert parted.fired == whole.fired
