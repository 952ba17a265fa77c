"""`tellback.testing`: a provider's unit test without Redis."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from tellback import (
    DeadlineFeedback,
    Feedback,
    FeedbackContext,
    FeedbackProviderConfig,
    FeedbackTrigger,
    InvalidInput,
    recommended_providers,
)
from tellback.testing import BrokenProvider, Call, Pause, context, run, run_all
from tests.support.processes import run_program


@dataclass(frozen=True)
class Parrot:
    """Tells the last tool, from the second call on."""

    word: str = "tool"
    at_least: int = 2

    @property
    def name(self) -> str:
        return "Parrot"

    def should_run(self, *, context: FeedbackContext) -> bool:
        return context.tool_call_count >= self.at_least

    def provide(self, *, context: FeedbackContext) -> Feedback:
        (last,) = context.recent_tool_calls(1)
        return Feedback(self.name, f"{self.word} {last.tool}")


class Bad(Parrot):
    def provide(self, *, context: FeedbackContext) -> Any:
        return context.session


class Raising(Parrot):
    def provide(self, *, context: FeedbackContext) -> Feedback:
        raise ZeroDivisionError(context.session)


@dataclass(frozen=True)
class Unsendable(Parrot):
    check: Callable[[str], bool] = field(default=str.isalpha)


def test_a_number_of_calls_or_their_tools_names_will_do() -> None:
    assert [(fire.call, fire.seconds) for fire in run(Parrot(), 3)] == [(2, 2.0), (3, 3.0)]
    assert [fire.feedback.summary for fire in run(Parrot(), ["a", "b"])] == ["tool b"]


def test_the_trigger_decides_as_on_a_worker() -> None:
    assert [fire.call for fire in run(Parrot(), 9, every_n_calls=4)] == [4, 8]
    slow = [Call(after=10.0)] * 6
    assert [fire.call for fire in run(Parrot(), slow, every_n_seconds=30)] == [3, 6]


def test_time_passes_without_calls() -> None:
    fires = run(DeadlineFeedback(), [Pause(40), Pause(40), Call()], every_n_seconds=30, deadline=600)
    assert [(fire.call, fire.seconds, fire.timed) for fire in fires] == [(0, 30.0, True), (0, 70.0, True)]
    waits = run(DeadlineFeedback(), [Pause(40, take=False), Pause(40, take=False)], every_n_seconds=30, deadline=600)
    assert [fire.seconds for fire in waits] == [30.0], "one waits; its renewals are none"


def test_several_providers_share_an_evaluation() -> None:
    configs = [FeedbackProviderConfig(Parrot(word), FeedbackTrigger(every_n_calls=2)) for word in ("a", "b")]
    assert [fire.feedback.summary for fire in run_all(configs, ["x"] * 3)] == ["a x", "b x"]
    assert [fire.call for fire in run_all(configs, ["x"] * 2, delivery="all")] == [2, 2]


def test_what_a_worker_would_count_as_a_failure_fails_the_test() -> None:
    with pytest.raises(BrokenProvider, match="returned str, not Feedback"):
        run(Bad(), 3)
    with pytest.raises(ZeroDivisionError):
        run(Raising(), 3)
    with pytest.raises(InvalidInput, match="Unsendable"):
        run(Unsendable(), 3)


def test_a_context_for_a_direct_call() -> None:
    made = context(calls=["search", "fetch"], elapsed=90, remaining=30, tokens_spent=5)
    assert (made.tool_call_count, made.tokens_spent) == (2, 5)
    assert made.recent_tool_calls(1)[0].tool == "fetch"
    assert made.elapsed == timedelta(seconds=90)
    assert made.deadline is not None
    assert DeadlineFeedback().provide(context=made).severity == "warning"
    assert context().deadline is None


@pytest.mark.programs
def test_it_needs_neither_redis_nor_celery() -> None:
    code = "import sys, tellback.testing; print(sorted({'redis', 'celery', 'kombu'} & set(sys.modules)))"
    done = run_program([sys.executable, "-c", code], check=True)
    assert done.stdout == "[]\n"


def test_a_result_that_is_not_text_is_read_as_a_host_sends_it() -> None:
    """A mapping raised `TypeError`."""
    said = {"stdout": "E   AssertionError: 1 != 2\n1 failed in 0.1s"}
    as_text = '{"stdout":"E   AssertionError: 1 != 2\\n1 failed in 0.1s"}'
    fires = [run_all(recommended_providers(), [Call("Bash", result=result)] * 9) for result in (said, as_text)]
    assert fires[0] == fires[1] != []
