"""Time triggers while no tool is called: when they fire, what waits, and when an evaluation is left alone."""

from __future__ import annotations

from tellback import Feedback, FeedbackContext, FeedbackTrigger, ProviderSpec
from tellback.contracts.guidance import DeliveryMode, EvaluationBegun, ToolInvoked
from tellback.guidance.evaluation import ProviderInvoker, apply_event, fire_timers, next_timer, restart_taken_slots
from tellback.guidance.provider import ProviderFailure, ProviderTimeout
from tellback.guidance.state import BatchEffects, new_evaluation

START = 1_000_000
IDLE = 3_600_000
CALL = ToolInvoked(event_id="t", session="s", evaluation="e", prompt="p", tool="search")


class Says(ProviderInvoker):
    """An invoker that records who was asked when."""

    def __init__(self, *, silent: tuple[str, ...] = (), failing: tuple[str, ...] = ()) -> None:
        self.silent, self.failing = silent, failing

    def ask(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        if spec.name in self.failing:
            raise ProviderTimeout("late") if spec.name == "Late" else ProviderFailure("broken")
        at = round((context.now - context.began_at).total_seconds())
        return None if spec.name in self.silent else Feedback(spec.name, f"{spec.name} at {at}")


class TimerRun:
    """An evaluation that is looked at whenever it is due."""

    def __init__(
        self,
        *specs: tuple[str, float | None, int | None],
        delivery: DeliveryMode = "first",
        deadline: float | None = None,
        invoker: Says | None = None,
    ) -> None:
        self.invoker = invoker or Says()
        self.effects = BatchEffects()
        self.taken = 0
        self.state = new_evaluation("s", "p", "e", START)
        providers = [
            ProviderSpec(name=name, trigger=FeedbackTrigger(every_n_seconds=seconds, every_n_calls=calls))
            for name, seconds, calls in specs
        ]
        event = EvaluationBegun(
            event_id="b",
            session="s",
            evaluation="e",
            prompt="p",
            providers=providers,
            delivery=delivery,
            deadline_in=deadline,
        )
        apply_event(self.state, event, START, self.invoker, self.effects)

    def call(self, second: float) -> list[str]:
        before = len(self.effects.feedback)
        apply_event(self.state, CALL, START + round(second * 1000), self.invoker, self.effects)
        return [feedback.summary for feedback in self.effects.feedback[before:]]

    def tick(self, second: float) -> list[str]:
        """Return what is put into the mailbox at this time."""
        effects = BatchEffects()
        now = START + round(second * 1000)
        fire_timers(self.state, now, self.invoker, effects, generation=self.taken, idle_ms=IDLE)
        return [feedback.summary for feedback in effects.timed.values()]

    def take(self, second: float) -> None:
        self.taken += 1
        restart_taken_slots(self.state, self.taken, START + round(second * 1000))

    def due(self) -> float | None:
        """The second of the next look."""
        at = next_timer(self.state, IDLE)
        return None if at is None else (at - START) / 1000


def test_it_is_due_after_its_period_and_not_before() -> None:
    run = TimerRun(("A", 30, None))
    assert run.due() == 30
    assert run.tick(29.9) == []
    assert run.tick(30) == ["A at 30"]


def test_without_a_time_trigger_no_timer_is_set() -> None:
    assert TimerRun(("A", None, 3)).due() is None


def test_while_it_waits_it_counts_once_and_is_renewed_after_twice_as_long_each_time() -> None:
    run = TimerRun(("A", 30, None))
    assert run.tick(30) == ["A at 30"]
    renewals: list[float] = []
    while (due := run.due()) is not None and due < 500:
        renewals.append(due)
        assert run.tick(due) == [f"A at {due:.0f}"]
    assert renewals == [60, 120, 240, 480]
    assert run.state.fires == 1


def test_taking_restarts_the_cadence() -> None:
    run = TimerRun(("A", 30, None))
    run.tick(30)
    run.take(100)
    assert run.due() == 130
    assert run.tick(129) == []
    assert run.tick(130) == ["A at 130"]
    assert run.state.fires == 2


def test_a_call_that_fires_outdates_what_waits() -> None:
    run = TimerRun(("A", 30, None))
    run.tick(30)
    assert run.call(45) == []
    assert run.call(60) == ["A at 60"]
    assert run.effects.outdated == {0}
    assert run.due() == 90


def test_of_several_the_first_due_wins_a_tick_and_the_others_the_next() -> None:
    run = TimerRun(("A", 30, None), ("B", 30, None))
    assert run.tick(30) == ["A at 30"]
    assert run.due() == 30
    assert run.tick(32) == ["B at 32"]


def test_with_delivery_all_each_speaks_at_once() -> None:
    assert TimerRun(("A", 30, None), ("B", 30, None), delivery="all").tick(30) == ["A at 30", "B at 30"]


def test_once_the_deadline_has_passed_what_waits_says_so_and_no_further_tick_comes() -> None:
    run = TimerRun(("A", 30, None), deadline=100)
    run.tick(30)
    run.tick(60)
    assert run.due() == 100
    assert run.tick(100) == ["A at 100"]
    assert run.due() is None


def test_with_nothing_waiting_one_last_message_comes_after_the_deadline() -> None:
    run = TimerRun(("A", 30, None), deadline=100)
    for second in (30, 60, 90):
        run.tick(second)
        run.take(second)
    assert run.due() == 120
    assert run.tick(120) == ["A at 120"]
    run.take(125)
    assert run.due() is None
    assert run.call(151) == []
    assert run.call(156) == ["A at 156"], "calls still fire"
    assert run.due() is None


def test_an_abandoned_evaluation_is_left_alone_and_an_event_brings_it_back() -> None:
    run = TimerRun(("A", 30, None))
    ticks = 0
    while (due := run.due()) is not None:
        run.tick(due)
        ticks += 1
    assert ticks == 7, "30, 60, 120, ... within the hour"
    run.call(4_000)
    assert run.due() is not None


def test_a_period_above_the_idle_limit_still_fires_once() -> None:
    run = TimerRun(("A", 7_200, None))
    assert run.due() == 7_200
    assert run.tick(7_200) == ["A at 7200"]
    assert run.due() is None


def test_one_that_has_nothing_to_say_is_asked_again_after_a_period() -> None:
    run = TimerRun(("A", 30, None), invoker=Says(silent=("A",)))
    assert run.tick(30) == []
    assert run.due() == 60
    run.invoker.silent = ()
    assert run.call(31) == ["A at 31"], "it stayed due for a call"


def test_failures_by_time_count_and_disable_as_those_by_calls() -> None:
    run = TimerRun(("Late", 30, None), invoker=Says(failing=("Late",)))
    for second in (30, 60, 90):
        run.tick(second)
    assert run.state.slots[0].disabled
    assert run.due() is None


def test_a_time_fire_restarts_the_count_of_calls() -> None:
    run = TimerRun(("A", 30, 3))
    run.call(1)
    run.call(2)
    run.tick(32)
    run.take(33)
    assert run.call(34) == []
    assert run.call(35) == []
    assert run.call(36) == ["A at 36"]
