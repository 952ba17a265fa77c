"""Middleware for agents of LangChain that publishes their tool calls and appends guidance to the results.

    agent = create_agent(model, tools, middleware=[GuidanceMiddleware(prompt)])

One middleware serves all tools of the agent, also those that other middleware adds. It stands around the call that the
model made, before LangGraph adds what the model does not see.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from tellback import clock
from tellback.adapters.common import (
    DEFAULT_WAIT,
    AsyncPromptLike,
    CompletedCall,
    PromptLike,
    publish_and_collect,
    publish_and_collect_async,
    publish_call,
    publish_call_async,
)
from tellback.adapters.langchain import agent_name, append_to, completed_call, is_interrupt, takes_text

Result = ToolMessage | Command[Any]


class GuidanceMiddleware(AgentMiddleware[Any, Any, Any]):
    """Appends feedback to tool results; each call waits for it at most `wait` seconds.

    With a prompt of `tellback.aio`, run the agent with `ainvoke` or `astream` only.
    """

    def __init__(self, guide: PromptLike | AsyncPromptLike, *, wait: float = DEFAULT_WAIT) -> None:
        super().__init__()
        self._guide: Any = guide
        self._wait = wait

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        """Make the call and append feedback to its result; an exception is published and raised again."""
        start = clock.monotonic()
        try:
            result = handler(request)
        except Exception as error:
            if not is_interrupt(error):
                publish_call(self._guide, _completed(request, start, error=error))
            raise
        call = _completed(request, start, result)
        if not takes_text(result, call.call_id):
            publish_call(self._guide, call)
            return result
        found: Result = append_to(result, publish_and_collect(self._guide, call, self._wait), call.call_id)
        return found

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """Make the call like `wrap_tool_call`, for asyncio."""
        start = clock.monotonic()
        try:
            result = await handler(request)
        except Exception as error:
            if not is_interrupt(error):
                await publish_call_async(self._guide, _completed(request, start, error=error))
            raise
        call = _completed(request, start, result)
        if not takes_text(result, call.call_id):
            await publish_call_async(self._guide, call)
            return result
        guidance = await publish_and_collect_async(self._guide, call, self._wait)
        found: Result = append_to(result, guidance, call.call_id)
        return found


def _completed(request: ToolCallRequest, start: float, result: object = None, *, error: object = None) -> CompletedCall:
    made = {**request.tool_call, "type": "tool_call"}
    call = completed_call(request.tool_call["name"], made, start, result, error)
    runtime: Any = getattr(request, "runtime", None)  # None outside of a graph
    return call._replace(agent=agent_name(getattr(runtime, "config", None)))
