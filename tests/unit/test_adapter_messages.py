"""Messages and calls of odd forms: what goes wrong costs neither the tool call nor the feedback.

Each test imports the libraries that it needs: together they take four seconds of processor time, which each test
process would spend while it collects.
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

    def feedback(self, wait: float = 0.0) -> list[Feedback]:  # noqa: ARG002 - as of a prompt
        given, self.waiting = self.waiting, []
        return given

    def check_answer(self, answer: object) -> AnswerCheck:  # noqa: ARG002 - as above
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
    from openai.types.responses import ResponseFunctionToolCallOutputItem

    said = Said("42")
    assert guided(Guide(), said, tool="t") == Said(f"42\n\n{GOAL}")
    assert said == Said("42")
    assert append_feedback(MappingProxyType({"content": "42"}), ["x"]) == {"content": "42\n\nx"}
    item = ResponseFunctionToolCallOutputItem(
        id="i", call_id="c1", output="42", type="function_call_output", status="completed"
    )
    guide = Guide()
    assert guided(guide, item, tool="t").output == f"42\n\n{GOAL}"
    assert item.output == "42"
    assert (guide.seen[0]["result"], guide.seen[0]["call_id"]) == ("42", "c1")
    assert append_feedback(item, ["x"], in_place=True) is item
    assert item.output == "42\n\nx"


def test_a_tool_result_of_anthropic_is_known_by_its_id() -> None:
    guide = Guide()
    message: dict[str, Any] = {"type": "tool_result", "tool_use_id": "toolu_1", "content": []}
    made = guided(guide, message, tool="t")
    assert made["content"] == [{"type": "text", "text": GOAL}]
    assert guide.seen[0]["call_id"] == "toolu_1"


def test_feedback_that_waits_outlives_a_langchain_tool_that_raises() -> None:
    from langchain_core.tools import tool

    from tellback.adapters.langchain import guided as guided_tool

    @tool
    def divide(a: int, b: int) -> float:
        """Divide."""
        return a / b

    guide = Guide()
    made = guided_tool(divide, guide)
    with pytest.raises(ZeroDivisionError):
        made.invoke({"a": 1, "b": 0})
    with pytest.raises(ZeroDivisionError):
        asyncio.run(made.ainvoke({"a": 1, "b": 0}))
    assert [type(call["error"]) for call in guide.seen] == [ZeroDivisionError] * 2
    assert made.invoke({"a": 6, "b": 3}) == f"2.0\n\n{GOAL}"


def test_feedback_that_waits_outlives_a_call_whose_output_cannot_be_found_again() -> None:
    from tellback.adapters.openai_agents import GuidanceHooks

    class Named:
        name = "search"

    guide = Guide()
    hooks = GuidanceHooks(guide)
    asyncio.run(hooks.on_tool_end(object(), Named(), Named(), "found"))
    assert (guide.seen[0]["tool"], len(guide.waiting)) == ("search", 1)


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
