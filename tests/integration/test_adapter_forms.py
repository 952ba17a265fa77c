"""Messages and calls of odd forms in the libraries' own classes; those of plain Python are in `tests/unit`.

Each test imports its library, or every process of tests would load all of them to collect this file.
"""

from __future__ import annotations

import asyncio

import pytest

from tellback.adapters.openai import append_feedback, guided
from tests.unit.test_adapter_messages import GOAL, Guide


def test_an_item_of_openai_takes_it_as_a_mapping_does() -> None:
    from openai.types.responses import ResponseFunctionToolCallOutputItem

    item = ResponseFunctionToolCallOutputItem(
        id="i", call_id="c1", output="42", type="function_call_output", status="completed"
    )
    guide = Guide()
    assert guided(guide, item, tool="t").output == f"42\n\n{GOAL}"
    assert item.output == "42"
    assert (guide.seen[0]["result"], guide.seen[0]["call_id"]) == ("42", "c1")
    assert append_feedback(item, ["x"], in_place=True) is item
    assert item.output == "42\n\nx"


def test_a_result_that_json_has_no_form_for_carries_guidance_too() -> None:
    """Requirement A-484. The tool had succeeded, and the agent got an exception of ours in place of its result."""
    from langchain_core.tools import tool

    from tellback.adapters.langchain import guided as guided_tool

    @tool
    def pairs(a: int) -> dict[tuple[int, int], int]:
        """Count pairs."""
        return {(a, a): 1}

    assert guided_tool(pairs, Guide()).invoke({"a": 1}) == f"{{(1, 1): 1}}\n\n{GOAL}"


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
