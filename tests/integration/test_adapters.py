"""Adapters of OpenAI, LiteLLM and LangChain against the real packages: they take our answers as they take anybody's.

Each test imports its library, or every process of tests would load all of them to collect this file.
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

import tellback
from tellback import InvalidInput, Prompt, Tellback
from tellback.adapters import litellm as litellm_adapter
from tellback.adapters import openai as openai_adapter
from tellback.adapters.openai import append_feedback, guided
from tests.support.adapters import FEEDBACK, GOAL, WAIT, Silent, Speaking, reminded_prompt
from tests.support.processes import run_program
from tests.support.workers import StartWorkers
from tests.unit.test_adapter_messages import Guide

if TYPE_CHECKING:  # every process of tests would load the packages to collect this file
    from openai.types.chat import ChatCompletionToolMessageParam
    from openai.types.responses.response_input_param import FunctionCallOutput


@pytest.fixture
def prompt(tb: Tellback, start_workers: StartWorkers) -> Prompt:
    return reminded_prompt(tb, start_workers)


class Agents(Speaking):
    """A prompt with subagents, which remembers who called which tool."""

    def __init__(self, agent: str = "", calls: list[tuple[str, str]] | None = None) -> None:
        super().__init__()
        self.agent = agent
        self.calls: list[tuple[str, str]] = [] if calls is None else calls

    def for_agent(self, agent: str) -> Agents:
        return Agents(agent, self.calls)

    def observe(self, tool: str, **fields: Any) -> tellback.ToolFeedback:
        self.calls.append((self.agent, tool))
        return super().observe(tool, **fields)


def division() -> Any:
    """A tool of LangChain."""
    from langchain_core.tools import tool

    @tool
    def divide(a: int, b: int) -> float:
        """Divide."""
        return a / b

    return divide


def test_openai_and_langchain_agents_are_distinguished_by_their_names() -> None:
    from tellback.adapters.langchain import guided
    from tellback.adapters.openai_agents import GuidanceHooks

    guide = Agents()
    run = GuidanceHooks(guide)

    async def handoff() -> None:
        for name in ("triage", "refunds", "triage"):
            await run.on_agent_start(None, SimpleNamespace(name=name))
            used = SimpleNamespace(name="search")
            await run.on_tool_end(SimpleNamespace(tool_call_id="c"), SimpleNamespace(name=name), used, "found")

    asyncio.run(handoff())
    assert guide.calls == [("", "search"), ("refunds", "search"), ("", "search")], "the first is the prompt's own"

    divide = division()
    guide.calls.clear()
    made = guided(divide, guide)
    made.invoke({"a": 6, "b": 3}, {"metadata": {"lc_agent_name": "researcher"}})
    made.invoke({"a": 6, "b": 3})
    assert guide.calls == [("researcher", "divide"), ("", "divide")]


TOOL: ChatCompletionToolMessageParam = {"role": "tool", "tool_call_id": "c1", "content": "42"}
OUTPUT: FunctionCallOutput = {"type": "function_call_output", "call_id": "c1", "output": "42"}
CONTENTS: dict[str, tuple[Any, Any]] = {
    "text": ("42", f"42\n\n{GOAL}"),
    "empty": ("", GOAL),
    "none": (None, GOAL),
    "parts": ([{"type": "text", "text": "42"}], [{"type": "text", "text": f"42\n\n{GOAL}"}]),
    "no parts": ([], [{"type": "text", "text": GOAL}]),
    "a last part without text": ([{"type": "text", "text": ""}], [{"type": "text", "text": GOAL}]),
    "a last part of another kind": (
        [{"type": "image_url", "image_url": {"url": "data:,"}}],
        [{"type": "image_url", "image_url": {"url": "data:,"}}, {"type": "text", "text": GOAL}],
    ),
    "a part that is cached": (
        [{"type": "text", "text": "42", "cache_control": {"type": "ephemeral"}}],
        [{"type": "text", "text": f"42\n\n{GOAL}", "cache_control": {"type": "ephemeral"}}],
    ),
}


@pytest.mark.parametrize("form", CONTENTS)
def test_feedback_is_appended_to_a_tool_message_which_stays_as_it_was(form: str) -> None:
    content, expected = CONTENTS[form]
    message: Any = {"role": "tool", "tool_call_id": "c1", "content": content}
    before = json.dumps(message)
    made = openai_adapter.append_feedback(message, [FEEDBACK])
    assert made == {"role": "tool", "tool_call_id": "c1", "content": expected}
    assert json.dumps(message) == before
    if "image" not in str(content):
        from openai.types.chat import ChatCompletionToolMessageParam
        from pydantic import TypeAdapter

        TypeAdapter(ChatCompletionToolMessageParam).validate_python(made)
    same = openai_adapter.append_feedback(message, [FEEDBACK], in_place=True)
    assert same is message
    assert message["content"] == expected


def test_items_of_the_responses_api() -> None:
    from openai.types.responses.response_input_param import FunctionCallOutput
    from pydantic import TypeAdapter

    made = openai_adapter.append_feedback(OUTPUT, [FEEDBACK, "and more"])
    assert made["output"] == f"42\n\n{GOAL}\n\nand more"
    TypeAdapter(FunctionCallOutput).validate_python(made)
    parts: FunctionCallOutput = {**OUTPUT, "output": [{"type": "input_text", "text": "42"}]}
    assert openai_adapter.append_feedback(parts, [FEEDBACK])["output"] == [
        {"type": "input_text", "text": f"42\n\n{GOAL}"}
    ]


def test_without_feedback_the_message_is_the_very_same_and_other_content_is_refused() -> None:
    assert openai_adapter.append_feedback(TOOL, []) is TOOL
    wrong: Any = {"role": "tool", "content": 42}
    with pytest.raises(InvalidInput, match="int"):
        openai_adapter.append_feedback(wrong, [FEEDBACK])
    with pytest.raises(InvalidInput, match="no content"):
        openai_adapter.append_feedback(object(), [FEEDBACK])


@pytest.mark.parametrize("feedback", ["go on", FEEDBACK, None])
def test_feedback_that_is_no_list_is_refused(feedback: Any) -> None:
    """Each letter of a text was appended as a paragraph of its own; anything else was a `TypeError`."""
    with pytest.raises(InvalidInput, match=r"feedback is (str|Feedback|NoneType); use a list"):
        openai_adapter.append_feedback(TOOL, feedback)


def test_a_guided_message_publishes_its_call(tb: Tellback, prompt: Prompt) -> None:
    params = {"query": "Ruby"}
    assert openai_adapter.guided(prompt, TOOL, tool="search", params=params, wait=0)["content"]
    made = openai_adapter.guided(prompt, {**TOOL, "tool_call_id": "c2"}, tool="search", params=params, wait=WAIT)
    assert GOAL in str(made["content"])
    assert str(made["content"]).startswith("42\n\n")
    assert [entry["call_id"] for entry in tb.history("s1") if entry["kind"] == "tool_call"] == ["c1", "c2"]
    silent = Silent()
    assert asyncio.run(openai_adapter.guided_async(silent, TOOL, tool="search")) is TOOL
    assert silent.seen[0]["result"] == "42"


@pytest.fixture
def litellm(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package, kept from fetching its list of prices; without types, since its import takes seconds to check."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    for part in ("litellm.types.llms.openai", "litellm.litellm_core_utils.prompt_templates.factory"):
        import_module(part)
    return import_module("litellm")


@pytest.mark.filterwarnings("ignore")  # litellm's own, and pydantic's of its types
def test_litellm_takes_what_we_append(litellm: Any) -> None:
    from pydantic import TypeAdapter

    made = litellm_adapter.append_feedback(cast("dict[str, Any]", TOOL), [FEEDBACK])
    TypeAdapter(litellm.types.llms.openai.ChatCompletionToolMessage).validate_python(made)
    message = litellm.Message(role="assistant", content="42")
    copy = litellm_adapter.append_feedback(message, [FEEDBACK])
    assert (message.content, copy.content) == ("42", f"42\n\n{GOAL}")
    assert type(copy) is type(message)
    template = litellm.litellm_core_utils.prompt_templates.factory
    converted = template.convert_to_anthropic_tool_result(made)
    assert GOAL in json.dumps(converted, ensure_ascii=False).replace("\\n", "\n")


def test_the_openai_agents_sdk_runs_our_hooks_and_its_model_reads_the_feedback() -> None:
    from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    from tellback.adapters.openai_agents import GuidanceHooks

    inputs: list[Any] = []

    class Scripted(Model):
        async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
            inputs.append(kwargs.get("input", args[1] if len(args) > 1 else None))
            output: Any = ResponseOutputMessage(
                id="m", role="assistant", status="completed", type="message",
                content=[ResponseOutputText(type="output_text", text="done", annotations=[])],
            )  # fmt: skip
            if len(inputs) < 3:
                output = ResponseFunctionToolCall(
                    type="function_call", call_id=f"c{len(inputs)}", name="search", arguments='{"query": "Ruby"}'
                )
            return ModelResponse(output=[output], usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

    @function_tool
    def search(query: str) -> str:
        """Search."""
        return f"found {query}"

    guide = Speaking()
    hooks = GuidanceHooks(guide)
    agent = Agent[Any](name="a", model=Scripted(), tools=[search])
    config = RunConfig(tracing_disabled=True, call_model_input_filter=hooks.filter_input)
    result = asyncio.run(Runner.run(agent, "who?", hooks=hooks, run_config=config))
    assert result.final_output == "done"
    outputs = [item["output"] for item in inputs[2] if item.get("type") == "function_call_output"]
    assert outputs == [f"found Ruby\n\n{GOAL}"] * 2, "again with each turn"
    seen = [(call["tool"], call["params"], call["result"], call["call_id"]) for call in guide.seen]
    assert seen == [("search", {"query": "Ruby"}, "found Ruby", f"c{n}") for n in (1, 2)]


def test_a_langchain_tool_brings_its_guidance() -> None:
    from langchain_core.messages import ToolMessage

    from tellback.adapters.langchain import guided

    divide = division()
    guide = Speaking()
    made = guided(divide, guide)
    assert (made.name, made.description, made.args) == (divide.name, divide.description, divide.args)
    call: Any = {"type": "tool_call", "id": "c1", "name": "divide", "args": {"a": 6, "b": 3}}
    for message in (made.invoke(call), asyncio.run(made.ainvoke(call))):
        assert isinstance(message, ToolMessage)
        assert (message.content, message.tool_call_id) == (f"2.0\n\n{GOAL}", "c1")
    assert made.invoke({"a": 6, "b": 3}) == f"2.0\n\n{GOAL}"
    with pytest.raises(ZeroDivisionError):
        made.invoke({"a": 1, "b": 0})
    assert [(seen["params"], seen["call_id"]) for seen in guide.seen] == [
        ({"a": 6, "b": 3}, "c1"),
        ({"a": 6, "b": 3}, "c1"),
        ({"a": 6, "b": 3}, None),
        ({"a": 1, "b": 0}, None),
    ]
    assert isinstance(guide.seen[-1]["error"], ZeroDivisionError)


@pytest.mark.parametrize("module", ["claude_agent_sdk", "openai", "litellm", "common"])
def test_an_adapter_needs_its_framework_only_when_it_is_used(module: str) -> None:
    script = (
        f"import sys, tellback.adapters.{module}; "
        "print([m for m in ('claude_agent_sdk', 'openai', 'litellm', 'agents', 'redis', 'anyio') if m in sys.modules])"
    )
    done = run_program([sys.executable, "-c", script], check=True)
    assert done.stdout == "[]\n"


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
    from tellback.adapters.langchain import guided as guided_tool

    divide = division()
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
