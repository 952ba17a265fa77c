"""Calls of whole conversations, recorded or written for tests: errors are named, and few successes are called one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tellback import ToolFeedback
from tellback.guidance.observations.calls import parse_calls
from tellback.guidance.observations.observer import ToolObserver
from tellback.guidance.repeats import attempt_fingerprint
from tests.support.conversations import Conversations


class PlayedCall(NamedTuple):
    tool: str
    params: dict[str, Any]
    result: str
    seen: ToolFeedback
    failed_before: frozenset[str]


def _replayed(source: Conversations, *, declare: bool) -> Iterator[PlayedCall]:
    rows = [json.loads(line) for line in source.raw.splitlines()]
    tools = sorted({message["name"] for row in rows for message in row["messages"] if message["role"] == "tool"})
    for row in rows:
        messages = row["messages"]
        question = next(message["content"] for message in messages if message["role"] == "user")
        observer = ToolObserver(tools=tools if declare else (), question=question)
        waiting: dict[str, Any] = {}
        failed: set[str] = set()
        for message in messages:
            for call in message.get("tool_calls") or ():
                waiting[call["id"]] = json.loads(call["function"]["arguments"])
            if message["role"] == "tool":
                tool, params = message["name"], waiting[message["tool_call_id"]]
                seen = observer.observe(tool, params=params, result=message["content"])
                if seen.status == "error":
                    failed.add(attempt_fingerprint(tool, params))
                yield PlayedCall(tool, params, message["content"], seen, frozenset(failed))


@pytest.mark.parametrize("declare", [True, False], ids=["declared", "undeclared"])
def test_every_error_is_named_and_nothing_else_is_one(source: Conversations, *, declare: bool) -> None:
    calls = list(_replayed(source, declare=declare))
    errors = [call for call in calls if call.result.startswith("Error")]
    assert (len(calls), len(errors)) == (source.calls, source.errors)
    for call in errors:
        assert call.seen.status_line == f"✗ {call.tool} failed"
        assert call.result in call.seen.to_observation()
    assert [call.result for call in calls if call.seen.status == "error"] == [call.result for call in errors]
    empty = [call for call in calls if call.seen.envelope is not None and call.seen.envelope.code == "no_results"]
    assert {call.result for call in empty} == {"[]"}


def test_few_successes_are_called_partial(source: Conversations) -> None:
    successes = [
        call for call in _replayed(source, declare=True) if not call.result.startswith("Error") and call.result != "[]"
    ]
    partial = [call for call in successes if call.seen.status == "partial"]
    assert len(partial) < 0.02 * len(successes), [call.result[:80] for call in partial]


@pytest.mark.parametrize("declare", [True, False], ids=["declared", "undeclared"])
def test_no_suggestion_names_a_missing_tool_or_repeats_a_failed_attempt(
    source: Conversations, *, declare: bool
) -> None:
    calls = list(_replayed(source, declare=declare))
    exist = {call.tool for call in calls}
    named = 0
    for call in calls:
        for line in call.seen.suggestions:
            for tool, args in parse_calls(line):
                named += 1
                assert tool in exist
                assert args is None or attempt_fingerprint(tool, args) not in call.failed_before
    assert named or not declare
