"""The built-in providers: their words and their timing, driven as a worker would drive them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tellback import (
    BudgetFeedback,
    ContextChangeFeedback,
    DeadlineFeedback,
    FailureStreakFeedback,
    FeedbackProviderConfig,
    FeedbackTrigger,
    InvalidInput,
    RepeatedCallFeedback,
    StaticFeedback,
)
from tellback.testing import Call, Changed, FileCreated, Fire, Pause, Spent, Step, run, run_all


def calls(fires: list[Fire]) -> list[int]:
    return [fire.call for fire in fires]


def search(query: str, **more: object) -> Call:
    return Call("search", {"query": query, **more})


def test_the_same_call_is_reported_at_three_five_and_eight_and_then_never() -> None:
    fires = run(RepeatedCallFeedback(), [search("ruby creator")] * 40)
    assert calls(fires) == [3, 5, 8]
    assert [fire.feedback.severity for fire in fires] == ["info", "caution", "warning"]
    assert fires[0].feedback.render() == (
        "[Feedback - RepeatedCall]\n\n"
        "You have called search 3 times with the same or nearly the same arguments, and each time the result was the "
        "same.\n\n- first of them: call 1\n- last status: success\n\n"
        "→ Use this result, or ask something else; nothing that could change it has happened since."
    )


@pytest.mark.parametrize(
    "others",
    [
        [{"query": " Ruby  Creator "}, {"query": "RUBY CREATOR"}],
        [{"query": "ruby creator", "page": None}, {"query": "ruby creator"}],
    ],
)
def test_case_white_space_and_absent_values_do_not_make_another_call(others: list[dict[str, object]]) -> None:
    fires = run(RepeatedCallFeedback(), [search("ruby creator"), *(Call("search", params) for params in others)])
    assert calls(fires) == [3]


def test_nearly_identical_arguments_repeat() -> None:
    text = "the population of the largest city in the north of the country, by the newest census there is"
    near = [text, f"{text}?", text.replace("newest", "latest")[:-1] + "s"]
    assert calls(run(RepeatedCallFeedback(), [search(text), search(text + "."), search(near[1])])) == [3]


@pytest.mark.parametrize(
    "steps",
    [
        [search("ruby", page=page) for page in range(1, 12)],
        [Call("read", {"path": f"src/part{n}.py"}) for n in range(12)],
        [search(word) for word in ("ruby", "python", "perl", "rust", "go", "java", "ada", "c", "lua", "ml")],
        [Call(tool, {"query": "x"}) for tool in ("a", "b", "c", "d", "e")],
        [Call("TaskUpdate", {"taskId": "1", "status": "in_progress"}) for _ in range(12)],
    ],
)
def test_progress_is_no_repetition(steps: list[Step]) -> None:
    assert run(RepeatedCallFeedback(), steps) == []


def test_a_loop_over_several_calls_is_seen() -> None:
    steps = [search(name) for _ in range(3) for name in ("a", "b", "c")]
    assert calls(run(RepeatedCallFeedback(), steps)) == [7, 8, 9]


def test_a_level_lost_to_another_provider_is_reported_with_the_next_call() -> None:
    """The first that is due wins the third call; the loop must not go unreported for it."""
    configs = [
        FeedbackProviderConfig(StaticFeedback("x"), FeedbackTrigger(every_n_calls=3)),
        FeedbackProviderConfig(RepeatedCallFeedback(), FeedbackTrigger(every_n_calls=1)),
    ]
    fires = run_all(configs, [search("x")] * 4)
    assert [(fire.call, fire.feedback.provider_name) for fire in fires] == [
        (3, "StaticFeedback"),
        (4, "RepeatedCallFeedback"),
    ]


def test_failures_in_a_row_are_reported_at_each_level_and_a_success_ends_them() -> None:
    fail = Call("fetch", status="error", error="503 Service Unavailable\nretry later")
    fires = run(FailureStreakFeedback(), [fail] * 6 + [Call("fetch")] + [fail] * 3)
    assert calls(fires) == [3, 5, 10]
    assert fires[0].feedback.render() == (
        "[Feedback - FailureStreak]\n\nThe last 3 tool calls failed.\n\n"
        "- tools: fetch\n- last error: 503 Service Unavailable retry later\n\n"
        "→ Read the last error before the next call.\n"
        "→ Change the arguments, use another tool, or go on without it."
    )


def test_a_denied_call_is_a_failure() -> None:
    assert calls(run(FailureStreakFeedback(levels=(2,)), [Call("rm", status="denied")] * 2)) == [2]


def test_each_share_of_a_budget_is_reported_once_with_the_next_call() -> None:
    steps: list[Step] = []
    for _ in range(12):
        steps += [Spent(tokens=100), Call()]
    fires = run(BudgetFeedback(max_tokens=1_000), steps)
    assert calls(fires) == [5, 8, 10]
    assert [fire.feedback.severity for fire in fires] == ["info", "caution", "warning"]
    assert fires[1].feedback.render() == (
        "[Feedback - Budget]\n\nYou have used 80% of the budget.\n\n- tokens: 800 of 1,000\n\n"
        "→ Prioritize what is still needed.\n→ Prefer cheap steps."
    )


def test_money_adds_up_exactly() -> None:
    """Ten floats of a tenth are 0.9999999999999999, which would be under the budget of one."""
    steps: list[Step] = [Spent(cost=Decimal("0.1"))] * 10
    (fire,) = run(BudgetFeedback(max_cost=1, thresholds=(1.0,), currency="USD"), [*steps, Call()])
    assert [(seen.label, seen.value) for seen in fire.feedback.observations] == [("cost", "1 of 1 USD")]


def test_the_nearer_of_two_limits_counts() -> None:
    budget = BudgetFeedback(max_tokens=1_000, max_cost=Decimal("0.50"), thresholds=(0.5,))
    (fire,) = run(budget, [Spent(tokens=10, cost=Decimal("0.30")), Call()])
    assert fire.feedback.summary == "You have used 60% of the budget."


def test_each_change_is_reported_once_and_not_to_its_maker() -> None:
    steps: list[Step] = [
        Changed("file", "src/app.py", "edited by the user"),
        Call(),
        Call(),
        Changed("file", "own.py", by="evaluation"),
        Changed("branch", "main", by="agent-2"),
        Changed("instructions", "AGENTS.md"),
        Call(),
    ]
    fires = run(ContextChangeFeedback(), steps)
    assert calls(fires) == [1, 3]
    assert fires[0].feedback.render() == (
        "[Feedback - ContextChange]\n\nSomething changed since you last looked.\n\n"
        "- file: src/app.py: edited by the user\n\n→ Read the changed files again before you rely on them."
    )
    assert [seen.value for seen in fires[1].feedback.observations] == ["main (by agent-2)", "AGENTS.md"]


def test_of_many_changes_the_newest_are_named_and_all_are_counted() -> None:
    steps: list[Step] = [Changed("file", f"f{n}") for n in range(50)]
    (fire,) = run(ContextChangeFeedback(), [*steps, Call()])
    assert fire.feedback.summary == "50 things changed meanwhile."
    assert [seen.value for seen in fire.feedback.observations] == ["40", *(f"f{n}" for n in range(40, 50))]


def test_kinds_narrow_the_changes() -> None:
    steps: list[Step] = [Changed("file", "a"), Call(), Changed("branch", "main"), Call()]
    assert calls(run(ContextChangeFeedback(kinds=("branch",)), steps)) == [2]


def test_a_file_fires_once_when_it_exists() -> None:
    steps: list[Step] = [Call(), FileCreated("other"), Call(), FileCreated("plan.md"), Call(), Call()]
    fires = run(StaticFeedback("Follow the plan."), steps, file_created="plan.md")
    assert calls(fires) == [3]


def test_a_deadline_is_reported_to_an_agent_that_is_stuck_in_one_call() -> None:
    fires = run(DeadlineFeedback(), [Call(), Pause(100)], every_n_seconds=30, deadline=300)
    assert [(fire.call, fire.seconds, fire.timed) for fire in fires] == [(1, 30.0, True)]


@pytest.mark.parametrize(
    ("provider", "fields"),
    [
        (BudgetFeedback, {}),
        (BudgetFeedback, {"max_tokens": 0}),
        (BudgetFeedback, {"max_cost": -1}),
        (BudgetFeedback, {"max_tokens": 1, "thresholds": ()}),
        (BudgetFeedback, {"max_tokens": 1, "thresholds": (float("nan"),)}),
        (BudgetFeedback, {"max_cost": float("nan")}),
        (BudgetFeedback, {"max_cost": Decimal("Infinity")}),
        (RepeatedCallFeedback, {"levels": ()}),
        (RepeatedCallFeedback, {"levels": (1,)}),
        (FailureStreakFeedback, {"levels": (0,)}),
        (FailureStreakFeedback, {"levels": ("3",)}),
        (FailureStreakFeedback, {"levels": 3}),
        (RepeatedCallFeedback, {"levels": (33,)}),
        (BudgetFeedback, {"max_tokens": "many"}),
        (BudgetFeedback, {"max_tokens": True}),
        (BudgetFeedback, {"max_tokens": 1, "thresholds": 0.5}),
        (BudgetFeedback, {"max_cost": Decimal("NaN")}),
    ],
)
def test_what_could_never_speak_is_refused(provider: type[Any], fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"levels|max_tokens|thresholds"):
        provider(**fields)
