"""The effect of a tool: what its host declares comes before its name, and what a call says of itself before both."""

from __future__ import annotations

from typing import Any

import pytest

from tellback import InvalidInput, Tool, recommended_providers
from tellback.contracts.guidance import EvaluationBegun, ToolInvoked
from tellback.guidance.evaluation import Event, apply_event
from tellback.guidance.measures import read_calls
from tellback.guidance.observations.tools import ToolDeclaration
from tellback.guidance.progress.effects import DeclaredEffect, Effect, tool_effect
from tellback.guidance.progress.reading import call_features
from tellback.guidance.progress.trail import ProgressTrail
from tellback.guidance.state import BatchEffects, new_evaluation
from tellback.replay.accounts import InProcessInvoker
from tellback.testing import Call, run_all

SELECT, INSERT = {"sql": "select 1"}, {"sql": "insert into a values (1)"}


@pytest.mark.parametrize(
    ("tool", "params", "declared", "effect"),
    [
        ("get_x", {}, None, "read"),
        ("get_x", {}, "writes", "write"),
        ("update_view", {}, None, "write"),
        ("update_view", {}, "reads", "read"),
        ("zork", {}, "reads", "read"),
        ("search_pages", {}, "reads", "search"),
        ("mcp__browser__browser_wait_for", {}, "writes", "wait"),
        ("run_tests", {}, "writes", "test"),
        ("execute_sql", SELECT, "writes", "read"),
        ("execute_sql", INSERT, "reads", "read"),
        ("execute_sql", INSERT, None, "write"),
    ],
)
def test_a_declaration_outranks_the_name(
    tool: str, params: dict[str, Any], declared: DeclaredEffect | None, effect: Effect
) -> None:
    assert tool_effect(tool, params, declared) == effect


def test_a_command_line_says_more_than_the_declaration_of_its_shell() -> None:
    for tool, params in (("bash", {"command": "git status"}), ("str_replace_editor", {"command": "view", "path": "a"})):
        event = ToolInvoked(event_id="t", session="s", evaluation="e", tool=tool, params=params)
        features = call_features(event, "success", "writes")
        assert (features.effect, features.writes) == ("read", ())


def reports(between: str, *declared: ToolDeclaration) -> list[str]:
    """Return the kinds that are found when a page is read three times with another call in between."""
    page = Call("get_page", {"id": 1}, result="the page")
    calls = [call for n in range(3) for call in (page, Call(between, {"n": n}, result=f"done {n}"))]
    fires = run_all(recommended_providers(), calls, tools=declared)
    return [fire.feedback.summary.partition(" ")[0] for fire in fires]


def test_a_reader_that_is_declared_to_write_is_something_that_happened() -> None:
    assert len(reports("get_x")) == len(reports("get_x", "get_x")) == 1
    assert reports("get_x", "get_page", {"name": "get_x", "annotations": {"destructiveHint": True}}) == []


def test_a_writer_that_is_declared_to_read_is_nothing_that_happened() -> None:
    assert reports("update_view") == []
    assert len(reports("update_view", "a", Tool("update_view", effect="reads"))) == 1


def test_the_first_declarations_of_an_evaluation_count_with_their_tools() -> None:
    state = new_evaluation("s", "p", "e", 1_000)
    for tools, effects in ((["a", "b"], "-w"), (["b", "a"], "rw")):
        begun = EvaluationBegun(event_id="e", session="s", evaluation="e", prompt="p", tools=tools, effects=effects)
        apply_event(state, begun, 1_000, InProcessInvoker(), BatchEffects())
    assert [state.declared_effect(tool) for tool in ("a", "b", "c")] == [None, "writes", None]
    with pytest.raises(InvalidInput, match="2 letters for 1 tools"):
        EvaluationBegun(event_id="e", session="s", evaluation="e", prompt="p", tools=["a"], effects="rw")


def test_a_call_that_was_read_before_its_tool_was_declared_is_judged_by_the_declaration() -> None:
    calls = [
        ToolInvoked(event_id=str(n), session="s", evaluation="e", tool="get_x", params={"n": n}, result="done")
        for n in range(4)
    ]
    begun = EvaluationBegun(event_id="b", session="s", evaluation="e", prompt="p", tools=["get_x"], effects="w")
    events: list[Event] = [*calls[:2], begun, *calls[2:]]
    trails: list[ProgressTrail] = []
    for ahead in (False, True):
        state, effects = new_evaluation("s", "p", "e", 1_000), BatchEffects()
        readings = read_calls(state, events) if ahead else [None] * len(events)
        for event, reading in zip(events, readings, strict=True):
            apply_event(state, event, 1_000, InProcessInvoker(), effects, reading)
        trails.append(state.trail.progress)
    assert trails[0].actions == [3, 4]
    assert trails[1] == trails[0]
