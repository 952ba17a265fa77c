"""A custom provider costs its own feedback and nothing else, whatever it does."""

from __future__ import annotations

import gc
import itertools
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tellback import Feedback, FeedbackContext, FeedbackTrigger, ProviderSpec, StaticFeedback, ToolCall, clock
from tellback.contracts.guidance import EvaluationBegun, ToolInvoked
from tellback.guidance.evaluation import apply_event
from tellback.guidance.provider import ProviderFailure, ProviderSkipped, ProviderTimeout
from tellback.guidance.registry import ProviderRegistry
from tellback.guidance.state import BatchEffects, new_evaluation
from tellback_workers.isolation import IsolatedInvoker, call_within
from tests.support import providers
from tests.support.clocks import in_this_thread

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONTEXT = FeedbackContext(session="s", prompt="p", now=NOW, began_at=NOW, tool_call_count=3)
CALLED = replace(CONTEXT, recent=[ToolCall(at=1, tool="t", call_index=3)])
CUSTOM = (
    providers.Monitor,
    providers.Raises,
    providers.Mute,
    providers.Leaks,
    providers.Hangs,
    providers.Stubborn,
    providers.Nonsense,
    providers.Exits,
    providers.Forever,
    providers.Hog,
    providers.Floods,
    providers.Deep,
    providers.Outside,
    providers.Endless,
    providers.Vast,
    providers.Wordy,
    providers.Untellable,
    providers.Late,
)


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    """Keep the interruption out of hypothesis' callback of the garbage collector, where Python only reports it."""
    gc.disable()
    yield
    gc.enable()


def invoker(timeout: float = 60.0, budget: float = 10.0) -> IsolatedInvoker:
    return IsolatedInvoker(ProviderRegistry(CUSTOM), timeout=timeout, budget=budget)


def spec(name: str) -> ProviderSpec:
    return ProviderSpec(name=name, trigger=FeedbackTrigger(1))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Raises", "raised RuntimeError: broken on purpose"),
        ("Mute", r"raised UntoldError: \(its text cannot be read\)"),
        ("Leaks", r"raised RuntimeError: \[redacted: password\]"),
        ("Hangs", "did not return within 0.1 s"),
        ("Stubborn", "did not return within 0.1 s"),
        ("Nonsense", "returned dict, not Feedback"),
        ("Exits", "raised SystemExit: 3"),
        ("Floods", "did not return within 0.1 s"),
        ("Outside", "raised OutsideError: broken on purpose"),
        ("Endless", "returned a Feedback that is not valid: suggestions has repeat; use a tuple"),
        ("Untellable", "did not return within 0.1 s"),
        ("Late", "did not return within 0.1 s"),
        ("Unknown", "no provider Unknown on this worker"),
    ],
)
def test_misbehaviour_becomes_a_failure_that_says_what_happened(name: str, reason: str) -> None:
    timeout = 0.1 if "within 0.1 s" in reason else 60.0
    with pytest.raises(ProviderFailure, match=f"^{reason}"):
        invoker(timeout).ask(spec(name), CONTEXT)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("BudgetFeedback", {"max_cost": "NaN"}),
        ("BudgetFeedback", {}),
        ("RepeatedCallFeedback", {"levels": []}),
        ("DeadlineFeedback", {"warning_threshold_seconds": []}),
        ("ContextChangeFeedback", {"kinds": 7}),
    ],
    ids=str,
)
def test_a_built_in_provider_that_fails_over_its_fields_costs_nothing_else(
    name: str, fields: dict[str, object]
) -> None:
    """They come from a host, which may be of another release."""
    with pytest.raises(ProviderFailure):
        invoker().ask(ProviderSpec(name=name, trigger=FeedbackTrigger(1), fields=fields), CONTEXT)


def test_whatever_a_built_in_provider_raises_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_self: object, *, context: FeedbackContext) -> Feedback:
        raise ArithmeticError(context.session)

    monkeypatch.setattr(StaticFeedback, "provide", broken)
    with pytest.raises(ProviderFailure, match="raised ArithmeticError: s"):
        invoker().ask(ProviderSpec(name="StaticFeedback", trigger=FeedbackTrigger(1), fields={"summary": "x"}), CONTEXT)


def test_what_a_provider_says_is_redacted() -> None:
    feedback = invoker().ask(spec("Leaks"), replace(CONTEXT, tool_call_count=2))
    assert feedback is not None
    assert feedback.summary == "[redacted: password]"
    assert feedback.suggestions == ("[redacted: api-key]", "stay calm")


def test_the_timer_and_the_handler_are_as_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGALRM)
    for name in ("Hangs", "Raises"):
        with pytest.raises(ProviderFailure):
            invoker(0.1).ask(spec(name), CONTEXT)
    assert invoker().ask(spec("Forever"), CONTEXT) is not None
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before


@pytest.mark.parametrize(("name", "reason"), [("Hog", "raised MemoryError"), ("Deep", "raised RecursionError")])
def test_what_takes_too_much_is_stopped_by_its_limit_and_not_by_time(name: str, reason: str) -> None:
    with pytest.raises(ProviderFailure, match=f"^{reason}"):
        invoker().ask(spec(name), CONTEXT)


def test_an_answer_of_any_size_is_cut_before_anything_else_is_done_with_it() -> None:
    feedback = invoker().ask(spec("Vast"), CONTEXT)
    assert feedback is not None
    assert len(feedback.render()) < 100_000


def test_of_a_long_text_of_an_exception_the_beginning_is_kept() -> None:
    with pytest.raises(ProviderFailure, match=r"^raised RuntimeError: x{1000}") as caught:
        invoker().ask(spec("Wordy"), CONTEXT)
    assert len(str(caught.value)) < 3_000


def test_the_limits_of_the_process_are_as_before_afterwards() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS), sys.getrecursionlimit(), sys.stdout, sys.stderr
    for name in ("Deep", "Hog", "Floods"):
        with pytest.raises(ProviderFailure):
            invoker(0.1).ask(spec(name), CONTEXT)
    assert (resource.getrlimit(resource.RLIMIT_AS), sys.getrecursionlimit(), sys.stdout, sys.stderr) == before


def test_what_a_provider_prints_goes_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ProviderFailure):
        invoker(0.1).ask(spec("Floods"), CONTEXT)
    assert "xxx" not in "".join(capfd.readouterr())


def test_only_a_provider_that_ran_out_of_time_counts_as_timed_out() -> None:
    for name, timeout, kind in (("Hangs", 0.1, ProviderTimeout), ("Raises", 10.0, ProviderFailure)):
        with pytest.raises(ProviderFailure) as failed:
            invoker(timeout).ask(spec(name), CONTEXT)
        assert type(failed.value) is kind


def test_what_the_function_returns_is_returned() -> None:
    assert call_within(10.0, lambda: 42) == 42


def test_an_alarm_that_strikes_while_the_timer_is_being_stopped_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function has returned; the worker's own code must not be interrupted."""
    original = signal.setitimer

    def late(which: int, seconds: float, interval: float = 0.0) -> tuple[float, float]:
        if seconds == 0:
            signal.raise_signal(signal.SIGALRM)
        return original(which, seconds, interval)

    monkeypatch.setattr(signal, "setitimer", late)
    assert call_within(10.0, lambda: 42) == 42


# The first step of a call, and the last.
@pytest.mark.parametrize("step", ["tellback_workers.isolation._limit_memory", "sys.setrecursionlimit"])
def test_a_process_that_stands_still_beside_the_provider_has_its_answer(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Such an answer was taken for one that had swallowed its interruption, and three disable a provider."""
    late, (module, _, name) = 0.0, step.rpartition(".")
    original = getattr(sys.modules[module], name)

    def stand_still(*arguments: int) -> object:
        nonlocal late
        late = 60.0
        return original(*arguments)

    monkeypatch.setattr(step, stand_still)
    monotonic = clock.monotonic
    monkeypatch.setattr(clock, "monotonic", lambda: monotonic() + late)
    assert call_within(10.0, lambda: 42) == 42
    assert late


@pytest.mark.parametrize(("late", "counts"), [(0.04, True), (0.06, False)])
def test_an_answer_at_the_limit_is_in_time_until_the_next_interruption(
    monkeypatch: pytest.MonkeyPatch, late: float, *, counts: bool
) -> None:
    """The timer may strike a moment after the limit; one that swallowed it takes longer."""
    times = iter((0.0, 10.0 + late))
    in_this_thread(monkeypatch, "monotonic", lambda: next(times))
    if counts:
        assert call_within(10.0, lambda: 42) == 42
    else:
        with pytest.raises(ProviderTimeout):
            call_within(10.0, lambda: 42)


@pytest.mark.bulk
def test_many_short_calls_are_never_struck_by_a_late_alarm() -> None:
    """A timer that outlives its call would interrupt the worker's own work."""
    end = time.monotonic() + 1.0
    outcomes = {"in time": 0, "late": 0}
    lengths = itertools.cycle(range(0, 40_000, 500))  # from far below the limit to far above, on any machine
    while time.monotonic() < end:
        try:
            call_within(0.0002, lambda: sum(range(next(lengths))))
            outcomes["in time"] += 1
        except ProviderFailure:
            outcomes["late"] += 1
    assert outcomes["in time"]
    assert outcomes["late"]


def test_outside_the_main_thread_custom_providers_are_refused() -> None:
    """Signals reach the main thread alone: in another one a hang could not be ended."""
    caught: list[str] = []

    def ask() -> None:
        try:
            invoker().ask(spec("Monitor"), CONTEXT)
        except ProviderFailure as failure:
            caught.append(str(failure))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert caught == ["custom providers need a prefork or solo worker: this pool cannot end one that hangs"]


def test_with_the_budget_spent_custom_providers_are_not_asked_and_built_in_ones_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each call seems to take 0.15 s of a budget of 0.2 s: it reads the clock four times."""
    times = itertools.count()
    in_this_thread(monkeypatch, "monotonic", lambda: next(times) * 0.05)
    one = invoker(timeout=5.0, budget=0.2)
    assert [isinstance(one.ask(spec("Monitor"), CALLED), Feedback) for _ in range(2)] == [True, True]
    with pytest.raises(ProviderSkipped):
        one.ask(spec("Monitor"), CALLED)
    assert one.ask(spec("ToolUsageMonitor"), CONTEXT) is not None


class CountingInvoker(IsolatedInvoker):
    """A worker's invoker that counts how often a provider is asked."""

    asked = 0

    def ask(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        self.asked += 1
        return super().ask(spec, context)


class InsistentInvoker(CountingInvoker):
    """One that asks at each call."""

    def awaits_finding(self, spec: ProviderSpec) -> bool:
        return False


def test_a_provider_of_findings_is_asked_about_new_ones_alone_and_says_the_same() -> None:
    stuck = spec("StuckFeedback")
    queries = [*map(str, range(6)), *(["the same"] * 8), *map(str, range(6, 12))]
    outcomes: list[tuple[BatchEffects, object]] = []
    counts: list[int] = []
    for kind in (InsistentInvoker, CountingInvoker):
        panel = kind(ProviderRegistry(), timeout=1, budget=1)
        state, effects = new_evaluation("s", "p", "e", 1), BatchEffects()
        begun = EvaluationBegun(event_id="b", session="s", evaluation="e", prompt="p", providers=[stuck])
        apply_event(state, begun, 1, panel, effects)
        for n, query in enumerate(queries):
            call = ToolInvoked(event_id=f"c{n}", session="s", evaluation="e", tool="search", params={"query": query})
            apply_event(state, call, n, panel, effects)
        outcomes.append((effects, state))
        counts.append(panel.asked)
    assert outcomes[0] == outcomes[1]
    fires = len(outcomes[0][0].feedback)
    assert fires
    assert counts == [len(queries), 1 + fires]  # the first call builds the provider
