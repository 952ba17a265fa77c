"""Agents of LangChain, with the real package: guided tools, and the middleware that needs none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import tellback
from tellback import Feedback

if TYPE_CHECKING:
    from tests.support.langchain_agents import How, Way

GOAL = "[Feedback - Goal]\n\nMind the goal."


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


BOTH = pytest.mark.parametrize("how", ["middleware", "guided"])
TWICE = pytest.mark.parametrize("way", ["sync", "async"])


@BOTH
@TWICE
@pytest.mark.parametrize(("used", "said"), [("find", "Ruby of 2 messages"), ("keep", "kept Ruby")])
def test_a_result_brings_guidance_and_only_what_the_model_asked_is_published(
    used: str, said: str, how: How, way: Way
) -> None:
    from tests.support.langchain_agents import TOOLS, agent_with, run

    guide = TeamGuide()
    messages = run(agent_with(TOOLS[used], guide, how), way)
    assert [message.content for message in messages[-2:]] == [f"{said}\n\n{GOAL}", "done"]
    (seen,) = guide.seen
    assert seen.pop("duration_ms") >= 0
    assert seen == {
        "agent": "researcher",
        "tool": used,
        "params": {"query": "Ruby"},
        "result": said,
        "error": None,
        "call_id": "c1",
    }


@BOTH
@TWICE
def test_an_interrupt_is_no_failure_of_the_tool(how: How, way: Way) -> None:
    from tests.support.langchain_agents import agent_with, ask, run

    guide = TeamGuide()
    messages = run(agent_with(ask, guide, how), way)
    assert (messages[-1].content, guide.seen) == ("", []), "it waits for a person"


@BOTH
@TWICE
def test_an_exception_is_published_and_raised_again(how: How, way: Way) -> None:
    from tests.support.langchain_agents import agent_with, fail, run

    guide = TeamGuide()
    with pytest.raises(LookupError, match="Ruby"):
        run(agent_with(fail, guide, how), way)
    assert [type(call["error"]) for call in guide.seen] == [LookupError]


@TWICE
def test_the_middleware_serves_tools_that_other_middleware_adds(way: Way) -> None:
    from langchain.agents.middleware import TodoListMiddleware

    from tellback.adapters.langchain_agents import GuidanceMiddleware
    from tests.support.langchain_agents import calling, create_agent, run

    guide = TeamGuide()
    todos = [{"content": "read", "status": "pending"}]
    middleware = [TodoListMiddleware(), GuidanceMiddleware(guide)]
    agent = create_agent(calling("write_todos", {"todos": todos}), [], middleware=middleware)
    messages = run(agent, way)
    assert str(messages[-2].content).endswith(f"\n\n{GOAL}")
    assert [(call["tool"], call["params"]) for call in guide.seen] == [("write_todos", {"todos": todos})]


@TWICE
def test_a_change_of_state_without_a_message_is_published_and_stays(way: Way) -> None:
    from langgraph.types import Command

    from tellback.adapters.langchain import guided
    from tests.support.langchain_agents import forget

    guide = TeamGuide()
    made = guided(forget, guide)
    call: Any = {"type": "tool_call", "id": "c1", "name": "forget", "args": {"query": "Ruby"}}
    result = asyncio.run(made.ainvoke(call)) if way == "async" else made.invoke(call)
    assert result == Command(update={"kept": "Ruby"})
    assert [(seen["params"], seen["result"]) for seen in guide.seen] == [({"query": "Ruby"}, "")]
