"""Reports of hosts beside tool calls: budgets, changes, files; on a real Redis, consumed in this process."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest

from tellback import (
    BudgetFeedback,
    ContextChangeFeedback,
    FeedbackProvider,
    FeedbackProviderConfig,
    FeedbackTrigger,
    InvalidInput,
    Prompt,
    StaticFeedback,
    Tellback,
    connect,
)
from tellback.client.guidance_events import build_budget_spent, build_context_changed
from tellback.settings import Settings
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tellback.state.keys import Layout

ID = EvaluationId("s", "p", "e")


def each_call(provider: FeedbackProvider) -> FeedbackProviderConfig:
    return FeedbackProviderConfig(provider, FeedbackTrigger(every_n_calls=1))


def said(prompt: Prompt) -> list[str]:
    return [observation.value for feedback in prompt.feedback() for observation in feedback.observations]


def test_reports_of_several_processes_add_up_and_a_duplicate_counts_once(
    tb: Tellback, settings: Settings, consume: Callable[[], None]
) -> None:
    budget = BudgetFeedback(max_tokens=100, max_cost=1, thresholds=(1.0,))
    prompt = tb.prompt("s", "p", evaluation="e", feedback_providers=[each_call(budget)])
    with connect(settings=settings) as other:
        joined = other.prompt("s", "p", evaluation="e")
        for _ in range(5):
            prompt.spent(tokens=3, cost=0.1)
            joined.spent(tokens=3, cost=Decimal("0.1"))
    again = build_budget_spent(ID, 0, "0.000000000001")
    for _ in range(3):
        tb.context.publisher.publish(again)
        consume()
    prompt.tool_invoked("t")
    consume()
    assert said(prompt) == ["30 of 100", "1.000000000001 of 1"]


def test_a_budget_speaks_once_for_each_threshold_whoever_reports(tb: Tellback, consume: Callable[[], None]) -> None:
    prompt = tb.prompt("s", "p", feedback_providers=[each_call(BudgetFeedback(max_tokens=10))])
    for _ in range(12):
        prompt.spent(tokens=1)
        prompt.tool_invoked("t")
        consume()
    shares = [entry["summary"] for entry in tb.history("s") if entry["kind"] == "feedback"]
    assert shares == [f"You have used {share}% of the budget." for share in (50, 80, 100)]


@pytest.mark.parametrize(
    ("tokens", "cost"),
    [
        (-1, 0),
        (1.5, 0),
        (True, 0),
        (10**13, 0),
        (0, -0.1),
        (0, "nan"),
        (0, "inf"),
        (0, "much"),
        (0, Decimal("1e-13")),
        (0, 10**10),
        (0, None),
    ],
)
def test_amounts_that_cannot_be_added_up_are_refused(tb: Tellback, tokens: Any, cost: Any) -> None:
    with pytest.raises(InvalidInput, match="tokens" if tokens else "cost"):
        tb.prompt("s", "p").spent(tokens=tokens, cost=cost)


def test_a_session_gets_a_change_once_in_each_evaluation_but_the_makers(
    tb: Tellback, settings: Settings, consume: Callable[[], None]
) -> None:
    """The second agent is on another host, and publishes what it changed."""
    watch = each_call(ContextChangeFeedback())
    first = tb.prompt("s", "agent-1", feedback_providers=[watch])
    maker = tb.prompt("s", "agent-2", feedback_providers=[watch])
    elsewhere = tb.prompt("other", "agent-3", feedback_providers=[watch])
    consume()
    with connect(settings=settings) as other:
        other.context_changed("s", "file", "src/app.py", "rewritten", by=maker)
        other.context_changed("s", "branch", "main")
    consume()
    for _ in range(3):
        for prompt in (first, maker, elsewhere):
            prompt.tool_invoked("t")
        consume()
    assert said(first) == [f"src/app.py: rewritten (by {maker.evaluation})", "main"]
    assert said(maker) == ["main"]
    assert said(elsewhere) == []
    reported = [(entry["what"], entry["name"]) for entry in tb.history("s") if entry["kind"] == "context_changed"]
    assert reported == [("file", "src/app.py"), ("branch", "main")]


@pytest.mark.parametrize("by", [5, ["agent-1"], "\ud800", "x" * 257])
def test_a_maker_that_is_no_text_is_refused(tb: Tellback, by: Any) -> None:
    """It was published, and every worker refused it: a dead letter, of which the caller learned nothing."""
    with pytest.raises(InvalidInput, match=r"by is .*; use a prompt, or the name of its evaluation"):
        tb.context_changed("s", "file", "a", by=by)
    tb.context_changed("s", "file", "a", by="")


def test_a_change_published_twice_by_a_retry_is_one_change(tb: Tellback, consume: Callable[[], None]) -> None:
    prompt = tb.prompt("s", "p", feedback_providers=[each_call(ContextChangeFeedback())])
    consume()
    whole = build_context_changed("s", "file", "a", None)
    own = build_context_changed("s", "file", "b", None, id_=EvaluationId("s", "p", prompt.evaluation))
    for _ in range(3):
        tb.context.publisher.publish(whole)
        tb.context.publisher.publish(own)
        consume()
    prompt.tool_invoked("t")
    consume()
    assert sorted(said(prompt)) == ["a", "b"]


def test_who_begins_later_gets_nothing_of_what_was_before(tb: Tellback, consume: Callable[[], None]) -> None:
    tb.context_changed("s", "file", "old")
    tb.flush()
    prompt = tb.prompt("s", "p", feedback_providers=[each_call(ContextChangeFeedback())])
    tb.flush()
    tb.context_changed("s", "file", "new")
    prompt.tool_invoked("t")
    consume()
    prompt.tool_invoked("t")
    consume()
    assert said(prompt) == ["new"]


def test_changes_are_redacted_and_cut(tb: Tellback, consume: Callable[[], None]) -> None:
    prompt = tb.prompt("s", "p", feedback_providers=[each_call(ContextChangeFeedback())])
    prompt.context_changed("file", "config.py", "password=hunter22")
    prompt.context_changed("file", "n" * 9_000, "d" * 9_000)
    prompt.tool_invoked("t")
    consume()
    first, second = said(prompt)
    assert first == "config.py: [redacted: password]"
    assert len(second) == 500
    for wrong in ("", None, 7):
        with pytest.raises(InvalidInput, match="name is"):
            prompt.context_changed("file", cast("str", wrong))
        with pytest.raises(InvalidInput, match="kind is"):
            tb.context_changed("s", cast("str", wrong), "x")
        with pytest.raises(InvalidInput, match="session is"):
            tb.context_changed(cast("str", wrong), "file", "x")


def test_a_session_keeps_a_hundred_changes(tb: Tellback, consume: Callable[[], None], layout: Layout) -> None:
    prompt = tb.prompt("s", "p", feedback_providers=[each_call(ContextChangeFeedback())])
    consume()
    for n in range(150):
        tb.context_changed("s", "file", f"f{n}")
    consume()
    assert tb.context.database.command("LLEN", layout.of("s").key("changes", "s")) == 100
    prompt.tool_invoked("t")
    consume()
    assert said(prompt)[-1] == "f149"


def test_a_file_fires_once_in_an_evaluation_however_many_processes_see_it(
    tb: Tellback, settings: Settings, consume: Callable[[], None], tmp_path: Path
) -> None:
    plan = tmp_path / "plan.md"
    when = FeedbackTrigger(file_created=str(plan))
    config = FeedbackProviderConfig(StaticFeedback("Follow the plan."), when)
    prompt = tb.prompt("s", "p", evaluation="e", feedback_providers=[config])
    with connect(settings=settings) as other:
        joined = other.prompt("s", "p", evaluation="e", feedback_providers=[config])
        for one in (prompt, joined):
            one.tool_invoked("t")
        other.flush()
        consume()
        assert prompt.feedback() == []
        plan.touch()
        for _ in range(3):
            for one in (prompt, joined):
                one.tool_invoked("t")
            other.flush()
            consume()
    assert Evaluations(tb.context.database, tb.context.layout.of("s")).counts(ID).fires == 1


def test_a_file_in_the_working_directory_may_be_named_relatively(
    tb: Tellback, consume: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = FeedbackProviderConfig(StaticFeedback("Seen."), FeedbackTrigger(file_created="out.txt"))
    prompt = tb.prompt("s", "p", feedback_providers=[config])
    prompt.tool_invoked("t")
    Path("out.txt").touch()
    prompt.tool_invoked("t")
    consume()
    assert [feedback.call_index for feedback in prompt.feedback()] == [2]


@pytest.mark.parametrize("name", ["", "x" * 2_000, 7])
def test_a_file_without_a_sensible_name_is_refused(name: Any) -> None:
    with pytest.raises(InvalidInput, match="file_created"):
        FeedbackTrigger(file_created=name)


def test_a_name_that_no_file_can_have_breaks_no_tool_call(tb: Tellback, consume: Callable[[], None]) -> None:
    config = FeedbackProviderConfig(StaticFeedback("x"), FeedbackTrigger(file_created="a\0b"))
    prompt = tb.prompt("s", "p", feedback_providers=[config])
    prompt.tool_invoked("t")
    consume()
    assert prompt.feedback() == []
