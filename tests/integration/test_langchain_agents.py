"""Agents of LangChain, with the real package: guided tools, and the middleware that needs none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any, Literal, cast

import pytest
from langchain import agents
from langchain.agents.middleware import TodoListMiddleware
from langchain.tools import InjectedToolCallId, ToolRuntime, tool
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

import tellback
from tellback import Feedback
from tellback.adapters.langchain import guided
from tellback.adapters.langchain_agents import GuidanceMiddleware

GOAL = "[Feedback - Goal]\n\nMind the goal."

How = Literal["middleware", "guided"]
Way = Literal["sync", "async"]


class TeamGuide:
    """A prompt with subagents that has feedback for each call, until it was read."""

    def __init__(self, agent: str = "", seen: list[dict[str, Any]] | None = None) -> None:
        self.agent = agent
        self.seen: list[dict[str, Any]] = [] if seen is None else seen

    def for_agent(self, agent: str) -> TeamGuide:
        return TeamGuide(agent, self.seen)

    def observe(self, tool: str, **fields: Any) -> tellback.ToolFeedback:
        self.seen.append({"agent": self.agent, "tool": tool, **fields})
        return tellback.ToolFeedback(tool, "success")

    def feedback(self, wait: float = 0.0) -> list[Feedback]:
        return [Feedback("Goal", "Mind the goal.")]

    def check_answer(self, answer: object) -> Any:
        raise NotImplementedError


class OneCallModel(GenericFakeChatModel):
    """A model that makes one call of a tool, and answers."""

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self


create_agent = cast("Any", agents).create_agent  # has parts without types


def calling(name: str, args: dict[str, Any]) -> OneCallModel:
    def messages() -> Iterator[AIMessage]:
        yield AIMessage("", tool_calls=[{"name": name, "args": args, "id": "c1", "type": "tool_call"}])
        yield AIMessage("done")

    return OneCallModel(messages=messages())


@tool
def find(query: str, runtime: ToolRuntime[None, dict[str, Any]]) -> str:
    """Find, with the state that LangGraph adds."""
    return f"{query} of {len(runtime.state['messages'])} messages"


@tool
def keep(query: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Keep, by a change of the agent's state."""
    return Command(update={"messages": [ToolMessage(f"kept {query}", tool_call_id=tool_call_id)]})


@tool
def ask(query: str) -> str:
    """Ask a person, which pauses the run."""
    return str(interrupt(query))


@tool
def fail(query: str) -> str:
    """Fail."""
    raise LookupError(query)


def agent_with(used: BaseTool, guide: TeamGuide, how: How) -> Any:
    tools = [guided(used, guide)] if how == "guided" else [used]
    middleware = [GuidanceMiddleware(guide)] if how == "middleware" else []
    model = calling(used.name, {"query": "Ruby"})
    return create_agent(model, tools, middleware=middleware, name="researcher", checkpointer=InMemorySaver())


def run(agent: Any, way: Way) -> list[BaseMessage]:
    given = {"messages": [("user", "who?")]}, {"configurable": {"thread_id": "t1"}}
    made = asyncio.run(agent.ainvoke(*given)) if way == "async" else agent.invoke(*given)
    messages: list[BaseMessage] = made["messages"]
    return messages


BOTH = pytest.mark.parametrize("how", ["middleware", "guided"])
TWICE = pytest.mark.parametrize("way", ["sync", "async"])


@BOTH
@TWICE
@pytest.mark.parametrize(("used", "said"), [(find, "Ruby of 2 messages"), (keep, "kept Ruby")], ids=["text", "command"])
def test_a_result_brings_guidance_and_only_what_the_model_asked_is_published(
    used: BaseTool, said: str, how: How, way: Way
) -> None:
    guide = TeamGuide()
    messages = run(agent_with(used, guide, how), way)
    assert [message.content for message in messages[-2:]] == [f"{said}\n\n{GOAL}", "done"]
    (seen,) = guide.seen
    assert seen.pop("duration_ms") >= 0
    assert seen == {
        "agent": "researcher",
        "tool": used.name,
        "params": {"query": "Ruby"},
        "result": said,
        "error": None,
        "call_id": "c1",
    }


@BOTH
@TWICE
def test_an_interrupt_is_no_failure_of_the_tool(how: How, way: Way) -> None:
    guide = TeamGuide()
    messages = run(agent_with(ask, guide, how), way)
    assert (messages[-1].content, guide.seen) == ("", []), "it waits for a person"


@BOTH
@TWICE
def test_an_exception_is_published_and_raised_again(how: How, way: Way) -> None:
    guide = TeamGuide()
    with pytest.raises(LookupError, match="Ruby"):
        run(agent_with(fail, guide, how), way)
    assert [type(call["error"]) for call in guide.seen] == [LookupError]


@TWICE
def test_the_middleware_serves_tools_that_other_middleware_adds(way: Way) -> None:
    guide = TeamGuide()
    todos = [{"content": "read", "status": "pending"}]
    middleware = [TodoListMiddleware(), GuidanceMiddleware(guide)]
    agent = create_agent(calling("write_todos", {"todos": todos}), [], middleware=middleware)
    messages = run(agent, way)
    assert str(messages[-2].content).endswith(f"\n\n{GOAL}")
    assert [(call["tool"], call["params"]) for call in guide.seen] == [("write_todos", {"todos": todos})]


@TWICE
def test_a_change_of_state_without_a_message_is_published_and_stays(way: Way) -> None:
    @tool
    def forget(query: str) -> Command[Any]:
        """Forget."""
        return Command(update={"kept": query})

    guide = TeamGuide()
    made = guided(forget, guide)
    call: Any = {"type": "tool_call", "id": "c1", "name": "forget", "args": {"query": "Ruby"}}
    result = asyncio.run(made.ainvoke(call)) if way == "async" else made.invoke(call)
    assert result == Command(update={"kept": "Ruby"})
    assert [(seen["params"], seen["result"]) for seen in guide.seen] == [({"query": "Ruby"}, "")]
