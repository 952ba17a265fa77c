"""Messages and calls of odd forms: what goes wrong costs neither the tool call nor the feedback.

The forms of the libraries' own are in `tests/integration/test_adapters.py`: importing them takes four seconds.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest

import tellback
from tellback import Feedback
from tellback.adapters.claude_agent_sdk import check_before_stop
from tellback.adapters.openai import append_feedback, guided, guided_async
from tellback.guidance.observations.completion import AnswerCheck, MissingItem

GOAL = "[Feedback - Goal]\n\nMind the goal."


class Guide:
    """A prompt with one piece of feedback that waits."""

    def __init__(self, check: AnswerCheck | None = None) -> None:
        self.waiting = [Feedback("Goal", "Mind the goal.")]
        self.seen: list[dict[str, Any]] = []
        self.check = check or AnswerCheck(passed=True)

    def observe(self, tool: str, **fields: Any) -> tellback.ToolFeedback:
        self.seen.append({"tool": tool, **fields})
        return tellback.ToolFeedback(tool, "success")

    def feedback(self, wait: float = 0.0) -> list[Feedback]:
        given, self.waiting = self.waiting, []
        return given

    def check_answer(self, answer: object) -> AnswerCheck:
        return self.check


@dataclass(frozen=True)
class Said:
    """A host's own message."""

    content: str
    tool_call_id: str = "c1"


class Fixed:
    """Has a content, and nobody knows how to copy it."""

    content = "42"


UNFIT: dict[str, Any] = {
    "a mapping as content": {"role": "tool", "content": {"a": 1}},
    "a number as content": {"role": "tool", "content": 42},
    "bytes as content": {"role": "tool", "content": b"42"},
    "a text": "42",
    "nothing": None,
    "a list": [1],
    "an object without content": object(),
    "an object that cannot be copied": Fixed(),
    "a class": Said,
}


@pytest.mark.parametrize("form", UNFIT)
def test_a_message_that_takes_no_text_is_given_back_and_its_feedback_waits(form: str) -> None:
    guide, message = Guide(), UNFIT[form]
    assert guided(guide, message, tool="t") is message
    assert asyncio.run(guided_async(guide, message, tool="t")) is message
    assert [call["tool"] for call in guide.seen] == ["t", "t"], "the calls are reported all the same"
    assert guided(guide, {"role": "tool", "content": "42"}, tool="t") == {"role": "tool", "content": f"42\n\n{GOAL}"}


def test_objects_take_it_as_mappings_do() -> None:
    said = Said("42")
    assert guided(Guide(), said, tool="t") == Said(f"42\n\n{GOAL}")
    assert said == Said("42")
    assert append_feedback(MappingProxyType({"content": "42"}), ["x"]) == {"content": "42\n\nx"}


def test_a_tool_result_of_anthropic_is_known_by_its_id() -> None:
    guide = Guide()
    message: dict[str, Any] = {"type": "tool_result", "tool_use_id": "toolu_1", "content": []}
    made = guided(guide, message, tool="t")
    assert made["content"] == [{"type": "text", "text": GOAL}]
    assert guide.seen[0]["call_id"] == "toolu_1"


def stopped(guide: Guide, **fields: Any) -> Any:
    given: Any = {"session_id": "s", "hook_event_name": "Stop", "stop_hook_active": False, **fields}
    nothing: Any = {"signal": None}

    async def main() -> Any:
        return await check_before_stop(guide)(given, None, nothing)

    return asyncio.run(main())


def test_an_agents_program_that_hides_the_answer_is_not_reported_as_without_one() -> None:
    empty = MissingItem("empty", "", "The answer is empty.")
    report = MissingItem("tool", "report", "report has not succeeded.")
    assert stopped(Guide(AnswerCheck(passed=False, missing=(empty,), title="Missing:"))) == {}
    both = AnswerCheck(passed=False, missing=(empty, report), title="Missing:")
    assert stopped(Guide(both)) == {"decision": "block", "reason": "Missing:\n\n- report has not succeeded."}
    assert "The answer is empty." in stopped(Guide(both), last_assistant_message="")["reason"]
