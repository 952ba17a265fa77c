"""Adapters against the real packages: the SDKs call our code and take our answers as they take anybody's."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Transport
from claude_agent_sdk.types import PostToolUseHookInput, PostToolUseHookSpecificOutput, SyncHookJSONOutput
from openai.types.chat import ChatCompletionToolMessageParam
from openai.types.responses.response_input_param import FunctionCallOutput
from pydantic import TypeAdapter

import tellback
from tellback import Feedback, FeedbackProviderConfig, FeedbackTrigger, InvalidInput, Prompt, StaticFeedback, Tellback
from tellback.adapters import claude_agent_sdk as claude
from tellback.adapters import litellm as litellm_adapter
from tellback.adapters import openai as openai_adapter
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

WAIT = 20.0  # for tests of what comes, not of when
GOAL = "[Feedback - Goal]\n\nMind the goal."
FEEDBACK = Feedback(provider_name="Goal", summary="Mind the goal.")


class Silent:
    """A prompt that has nothing to say, or fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.seen: list[dict[str, Any]] = []

    def observe(self, tool: str, **fields: Any) -> tellback.ToolFeedback:
        if self.failure:
            raise self.failure
        self.seen.append({"tool": tool, **fields})
        return tellback.ToolFeedback(tool, "success")

    def feedback(self, wait: float = 0.0) -> list[Feedback]:  # noqa: ARG002 - as of a prompt
        return []

    def check_answer(self, answer: object) -> Any:  # noqa: ARG002 - as above
        raise RuntimeError("broken on purpose")


class Speaking(Silent):
    """A prompt that has feedback for each call."""

    def feedback(self, wait: float = 0.0) -> list[Feedback]:  # noqa: ARG002 - as above
        return [FEEDBACK]


class FakeCli(Transport):
    """The other side of the SDK's control protocol: what the CLI writes and reads, without the CLI."""

    def __init__(self) -> None:
        self._out: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self.initialized: dict[str, Any] = {}

    async def connect(self) -> None:
        pass

    async def write(self, data: str) -> None:
        message = json.loads(data)
        if message["type"] == "control_request":
            if message["request"]["subtype"] == "initialize":
                self.initialized = message["request"]
            reply: dict[str, Any] = {
                "subtype": "success",
                "request_id": message["request_id"],
                "response": {"commands": []},
            }
            await self._out.put({"type": "control_response", "response": reply})
        elif message["type"] == "control_response":
            self._answers[message["response"]["request_id"]].set_result(message["response"])

    def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        async def read() -> AsyncIterator[dict[str, Any]]:
            while (message := await self._out.get()) is not None:
                yield message

        return read()

    async def close(self) -> None:
        await self._out.put(None)

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        pass

    async def call_hook(self, event: str, given: dict[str, Any], number: int) -> Any:
        """Call the hook of `event` as the SDK does, and return its answer."""
        ((callback,),) = [matcher["hookCallbackIds"] for matcher in self.initialized["hooks"][event]]
        id_ = f"req_{number}"
        self._answers[id_] = asyncio.get_running_loop().create_future()
        request = {"subtype": "hook_callback", "callback_id": callback, "input": given}
        request["tool_use_id"] = given.get("tool_use_id")
        await self._out.put({"type": "control_request", "request_id": id_, "request": request})
        answer = await asyncio.wait_for(self._answers[id_], 60)
        assert answer["subtype"] == "success", answer
        return answer["response"]


def tool_event(event: str, call_id: str, **fields: Any) -> dict[str, Any]:
    base = {"session_id": "s", "transcript_path": "/t", "cwd": "/", "hook_event_name": event}
    return {**base, "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": call_id, **fields}


def talk(hooks: Any, *events: dict[str, Any]) -> list[Any]:
    """The answers that the SDK sends back for these events."""

    async def main() -> list[Any]:
        cli = FakeCli()
        answers: list[Any] = []
        async with ClaudeSDKClient(ClaudeAgentOptions(hooks=hooks), transport=cli):
            answers += [await cli.call_hook(event["hook_event_name"], event, n) for n, event in enumerate(events)]
        return answers

    return asyncio.run(main())


@pytest.fixture
def prompt(tb: Tellback, start_workers: StartWorkers) -> Prompt:
    start_workers(1, queues="events")
    reminder = FeedbackProviderConfig(StaticFeedback("Mind the goal.", label="Goal"), FeedbackTrigger(every_n_calls=2))
    return tb.prompt("s1", "p", feedback_providers=[reminder])


def test_the_claude_sdk_calls_our_hooks_and_sends_their_feedback(tb: Tellback, prompt: Prompt) -> None:
    first, second = talk(
        claude.hooks(prompt, wait=0.2),
        tool_event("PostToolUse", "toolu_1", tool_response={"stdout": "a.py"}, duration_ms=5),
        tool_event("PostToolUseFailure", "toolu_2", error="connection timed out"),
    )
    taken = [answer for answer in (first, second) if answer]
    texts = [answer["hookSpecificOutput"]["additionalContext"] for answer in taken]
    late = "\n\n".join(feedback.render() for feedback in prompt.feedback(wait=WAIT)) if GOAL not in texts[-1] else ""
    assert GOAL in "\n\n".join([*texts, late])
    assert second["hookSpecificOutput"]["hookEventName"] == "PostToolUseFailure"
    tb.flush()
    calls = [entry for entry in tb.history("s1") if entry["kind"] == "tool_call"]
    assert [(call["tool"], call.get("status", "success"), call["call_id"]) for call in calls] == [
        ("Bash", "success", "toolu_1"),
        ("Bash", "error", "toolu_2"),
    ]


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


def test_each_agent_of_a_session_has_an_evaluation_of_its_own(tb: Tellback, prompt: Prompt) -> None:
    failed = [tool_event("PostToolUseFailure", f"c{n}", error="no", agent_id=f"a{n}") for n in (1, 2)]
    answers = talk(claude.hooks(prompt, wait=5.0), *failed, tool_event("PostToolUse", "c3", tool_response="ok"))
    assert "Mind the goal." not in json.dumps(answers), "one call of each is not two"
    joined = [prompt, prompt.for_agent("a1"), prompt.for_agent("a2")]
    assert joined[1] is prompt.for_agent("a1")
    counts = Evaluations(tb.context.database, tb.context.layout.of("s1"))
    names = [one.evaluation for one in joined]
    ids = [EvaluationId("s1", "p", name) for name in names]
    wait_until(lambda: [counts.counts(id_).calls for id_ in ids] == [1, 1, 1], "each has one call")
    [answer] = talk(claude.hooks(prompt, wait=WAIT), tool_event("PostToolUse", "c4", tool_response="ok", agent_id="a1"))
    assert GOAL in answer["hookSpecificOutput"]["additionalContext"], "with the same providers"
    calls = [entry["evaluation"] for entry in tb.history("s1") if entry["kind"] == "tool_call"]
    assert sorted(calls) == sorted([*names, names[1]])


def test_openai_and_langchain_agents_are_distinguished_by_their_names() -> None:
    from langchain_core.tools import tool

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

    @tool
    def divide(a: int, b: int) -> float:
        """Divide."""
        return a / b

    guide.calls.clear()
    made = guided(divide, guide)
    made.invoke({"a": 6, "b": 3}, {"metadata": {"lc_agent_name": "researcher"}})
    made.invoke({"a": 6, "b": 3})
    assert guide.calls == [("researcher", "divide"), ("", "divide")]


def test_the_answer_has_the_types_of_the_sdk() -> None:
    (answer,) = talk(claude.hooks(Speaking()), tool_event("PostToolUse", "t", tool_response="x"))
    specific = answer["hookSpecificOutput"]
    assert specific == {"hookEventName": "PostToolUse", "additionalContext": GOAL}
    assert specific.keys() <= PostToolUseHookSpecificOutput.__annotations__.keys()
    assert answer.keys() <= SyncHookJSONOutput.__annotations__.keys()
    assert tool_event("PostToolUse", "t", tool_response="x").keys() >= PostToolUseHookInput.__required_keys__


def test_without_advice_the_claude_hooks_have_no_opinion() -> None:
    silent = Silent()
    assert talk(claude.hooks(silent), tool_event("PostToolUse", "t", tool_response=[{"type": "text"}])) == [{}]
    assert silent.seen[0]["call_id"] == "t"
    broken = claude.hooks(Silent(RuntimeError("broken on purpose")), stop=True)
    stop = {"session_id": "s", "hook_event_name": "Stop", "stop_hook_active": False}
    assert talk(broken, tool_event("PostToolUse", "t", tool_response=1), stop) == [{}, {}]


def test_a_premature_answer_is_sent_back_with_what_is_missing_and_not_for_ever(tb: Tellback) -> None:
    prompt = tb.prompt("s1", "p", question="Who created Ruby?", tools=["wikipedia"])
    stop = {"session_id": "s", "hook_event_name": "Stop", "stop_hook_active": False, "last_assistant_message": ""}
    answers = talk(claude.hooks(prompt, stop=True), stop, stop, stop)
    assert [answer.get("decision") for answer in answers] == ["block", "block", None]
    assert answers[0]["reason"]


def test_a_prompt_of_aio_serves_as_well() -> None:
    class Awaited:
        async def observe(self, tool: str, **_: Any) -> tellback.ToolFeedback:
            return tellback.ToolFeedback(tool, "success")

        async def feedback(self, wait: float = 0.0) -> list[Feedback]:  # noqa: ARG002 - as of a prompt
            return [FEEDBACK]

        async def check_answer(self, answer: object) -> Any:  # noqa: ARG002 - as above
            raise RuntimeError

    guide: Any = Awaited()
    (answer,) = talk(claude.hooks(guide), tool_event("PostToolUse", "t", tool_response="x"))
    assert answer["hookSpecificOutput"]["additionalContext"] == GOAL


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
        TypeAdapter(ChatCompletionToolMessageParam).validate_python(made)
    same = openai_adapter.append_feedback(message, [FEEDBACK], in_place=True)
    assert same is message
    assert message["content"] == expected


def test_items_of_the_responses_api() -> None:
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
    from langchain_core.tools import tool

    from tellback.adapters.langchain import guided

    @tool
    def divide(a: int, b: int) -> float:
        """Divide."""
        return a / b

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
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
