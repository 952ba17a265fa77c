"""A model of LangChain that makes one call, tools of several kinds, and agents of both ways to guide them.

Tests import this where they use it: every process of tests would load LangChain to collect a file that imports it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any, Literal, cast

from langchain import agents
from langchain.tools import InjectedToolCallId, ToolRuntime, tool
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from tellback.adapters.langchain import guided
from tellback.adapters.langchain_agents import GuidanceMiddleware

How = Literal["middleware", "guided"]
Way = Literal["sync", "async"]


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


@tool
def forget(query: str) -> Command[Any]:
    """Forget, by a change of the agent's state without a message."""
    return Command(update={"kept": query})


def agent_with(used: BaseTool, guide: Any, how: How) -> Any:
    tools = [guided(used, guide)] if how == "guided" else [used]
    middleware = [GuidanceMiddleware(guide)] if how == "middleware" else []
    model = calling(used.name, {"query": "Ruby"})
    return create_agent(model, tools, middleware=middleware, name="researcher", checkpointer=InMemorySaver())


def run(agent: Any, way: Way) -> list[BaseMessage]:
    given = {"messages": [("user", "who?")]}, {"configurable": {"thread_id": "t1"}}
    made = asyncio.run(agent.ainvoke(*given)) if way == "async" else agent.invoke(*given)
    messages: list[BaseMessage] = made["messages"]
    return messages


TOOLS = {made.name: made for made in (find, keep, ask, fail)}
