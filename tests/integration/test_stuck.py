"""A stuck run end to end: what the worker reports, what the statistics count, and what a report of it shows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tellback import Tellback, recommended_providers
from tellback.replay.accounts import GuidanceAnalyzer
from tellback.replay.reading import TranscriptTools, parse_line
from tellback.replay.transcript import BadLine
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tests.support.measures import counted
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

CALLS = 7


def test_a_stuck_run_is_reported_once_and_counted_alike(tb: Tellback, start_workers: StartWorkers) -> None:
    start_workers(1, queues="events")
    prompt = tb.prompt("stuck", "p", feedback_providers=recommended_providers())
    call, result = {"command": "git status"}, "nothing to commit"
    for _ in range(CALLS):
        prompt.tool_invoked("Bash", params=call, result=result)
    store = Evaluations(tb.context.database, tb.context.layout.of(prompt.session))
    id_ = EvaluationId(prompt.session, prompt.name, prompt.evaluation)
    wait_until(lambda: store.counts(id_).calls >= CALLS, "all calls are counted")
    fires = prompt.feedback(wait=0.3)
    assert len(fires) <= 1
    counters = counted(tb.context.database, tb.context.layout)
    assert (counters["stuck:same_call"], counters["loop:3"], counters["loop:5"]) == (1, 1, 1)
    assert counters["provider:StuckFeedback:fires"] == 1

    messages: list[dict[str, object]] = [{"role": "user", "content": "Commit."}]
    for _ in range(CALLS):
        function = {"name": "Bash", "arguments": json.dumps(call)}
        messages.append({"role": "assistant", "tool_calls": [{"id": "c", "function": function}]})
        messages.append({"role": "tool", "tool_call_id": "c", "name": "Bash", "content": result})
    talk = parse_line(1, json.dumps({"messages": messages}).encode())
    assert not isinstance(talk, BadLine)
    reported = GuidanceAnalyzer().analyze(talk, []).feedback
    assert [nudge.call_index for nudge in reported] == [3]
    assert [nudge.summary for nudge in fires] == [nudge.summary for nudge in reported][: len(fires)]


def annotated(name: str, **hints: bool) -> dict[str, Any]:
    """Return a tool's definition as an MCP server lists it."""
    return {"name": name, "inputSchema": {"type": "object"}, "annotations": hints}


@pytest.mark.parametrize(
    ("tools", "findings"),
    [
        (["get_page", annotated("get_token", destructiveHint=True), "update_view"], 0),
        ([annotated("get_page", readOnlyHint=True), "get_token", annotated("update_view", readOnlyHint=True)], 2),
    ],
    ids=["destructive", "read-only"],
)
def test_what_a_host_declares_of_its_tools_decides_what_they_change(
    tools: list[Any], findings: int, tb: Tellback, start_workers: StartWorkers
) -> None:
    """By their names, `get_token` changes nothing and `update_view` does: one of two pages would be reported."""
    start_workers(1, queues="events")
    prompt = tb.prompt("declared", "p", tools=tools, feedback_providers=recommended_providers())
    messages: list[dict[str, object]] = []
    for between, page, calls in (("get_token", 1, 20), ("update_view", 2, 3)):
        for n in range(calls):
            asked = ("get_page", {"id": page}, f"page {page}") if n < 3 else ("plan", {"n": n}, "noted")
            for tool, params, result in (asked, (between, {"n": n, "page": page}, f"done {n}")):
                prompt.tool_invoked(tool, params=params, result=result)
                function = {"name": tool, "arguments": json.dumps(params)}
                messages.append({"role": "assistant", "tool_calls": [{"id": "c", "function": function}]})
                messages.append({"role": "tool", "tool_call_id": "c", "name": tool, "content": result})
    store = Evaluations(tb.context.database, tb.context.layout.of(prompt.session))
    id_ = EvaluationId(prompt.session, prompt.name, prompt.evaluation)
    wait_until(lambda: store.counts(id_).calls >= len(messages) // 2, "all calls are counted")
    assert counted(tb.context.database, tb.context.layout).get("stuck:same_call", 0) == findings
    talk = parse_line(1, json.dumps({"messages": messages, "tools": tools}).encode())
    assert not isinstance(talk, BadLine)
    reported = GuidanceAnalyzer().analyze(talk, TranscriptTools().tools_for(talk)).feedback
    assert len(reported) == findings
