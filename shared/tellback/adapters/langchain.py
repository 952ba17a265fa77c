"""Tools for LangChain whose results carry guidance.

    tools = [guided(tool, prompt) for tool in tools]

A tool is wrapped because a LangChain callback handler sees a tool's result but can't change it. The wrapper keeps the
tool's name, description and arguments. An agent made by `create_agent` needs no wrapper: see `langchain_agents`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, cast

from langchain_core.messages import ToolMessage
from langchain_core.messages.tool import ToolOutputMixin
from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.tools import BaseTool
from pydantic import PrivateAttr

from tellback import clock
from tellback.adapters.common import (
    DEFAULT_WAIT,
    GAP,
    AsyncPromptLike,
    CompletedCall,
    Guidance,
    PromptLike,
    append_text,
    publish_and_collect,
    publish_and_collect_async,
    publish_call,
    publish_call_async,
)
from tellback.quoting import quote_forged_lines


def guided(tool: BaseTool, guide: PromptLike | AsyncPromptLike, *, wait: float = DEFAULT_WAIT) -> BaseTool:
    """Wrap a tool so that its results carry feedback; each call waits for it at most `wait` seconds.

    With a prompt of `tellback.aio`, call the tool with `ainvoke` only.
    """
    made = GuidedTool(name=tool.name, description=tool.description, args_schema=tool.args_schema)
    made.return_direct, made.metadata, made.tags = tool.return_direct, tool.metadata, tool.tags
    made._inner, made._guide, made._wait = tool, guide, wait  # noqa: SLF001 - defined in this module
    if tool.args_schema is not None and not isinstance(tool.args_schema, dict):
        made._asked = frozenset(tool.args)  # noqa: SLF001 - as above
    return made


class GuidedTool(BaseTool):
    """A tool that publishes its calls and appends feedback to their results; `guided` creates it."""

    _inner: BaseTool = PrivateAttr()
    _guide: Any = PrivateAttr()
    _wait: float = PrivateAttr(default=DEFAULT_WAIT)
    # The arguments that a model sees; LangGraph adds others, such as the agent's whole state. None means all.
    _asked: frozenset[str] | None = PrivateAttr(default=None)

    def invoke(self, input: str | dict[str, Any] | Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 - LangChain's name for it
        """Call the tool and append feedback to its result.

        An exception is published and raised again. It has no text to append to, so feedback waits for the next call.
        """
        start = clock.monotonic()
        try:
            result = self._inner.invoke(input, config, **kwargs)
        except Exception as error:
            if not is_interrupt(error):
                publish_call(self._guide, self._completed(input, config, start, error=error))
            raise
        call = self._completed(input, config, start, result)
        if not takes_text(result, call.call_id):
            publish_call(self._guide, call)
            return result
        return append_to(result, publish_and_collect(self._guide, call, self._wait), call.call_id)

    async def ainvoke(
        self,
        input: str | dict[str, Any] | Any,  # noqa: A002 - as above
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call the tool like `invoke`, for asyncio."""
        start = clock.monotonic()
        try:
            result = await self._inner.ainvoke(input, config, **kwargs)
        except Exception as error:
            if not is_interrupt(error):
                await publish_call_async(self._guide, self._completed(input, config, start, error=error))
            raise
        call = self._completed(input, config, start, result)
        if not takes_text(result, call.call_id):
            await publish_call_async(self._guide, call)
            return result
        return append_to(result, await publish_and_collect_async(self._guide, call, self._wait), call.call_id)

    def _completed(
        self, given: Any, config: RunnableConfig | None, start: float, result: object = None, *, error: object = None
    ) -> CompletedCall:
        call = completed_call(self.name, given, start, result, error)._replace(agent=agent_name(config))
        if self._asked is None or call.params is None:
            return call
        return call._replace(params={name: value for name, value in call.params.items() if name in self._asked})

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        """Forward LangChain's older `run` to `invoke`; `BaseTool` requires this method."""
        return self.invoke(args[0] if args else kwargs)


def completed_call(tool: str, given: Any, start: float, result: object, error: object) -> CompletedCall:
    """Return a call that began at `start`, from what the tool was given and what came of it."""
    call = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    whole = call.get("type") == "tool_call"
    params = call.get("args") if whole else (call or {"input": given})
    # LangChain keeps the id only in the whole tool call; a tool that is invoked with plain arguments has none.
    call_id = call.get("id") if whole else None
    # A tool with `handle_tool_error` doesn't raise; its failure shows only in the message's status.
    answer = _answer_of(result, call_id)
    if answer is not None:
        failed = answer.status == "error"
        result, error = (None, answer.content) if failed else (answer.content, None)
    elif isinstance(result, ToolOutputMixin):
        result = ""  # an agent's new state, which nobody reads as a result
    return CompletedCall(tool, params, result, error, (clock.monotonic() - start) * 1000, call_id)


def agent_name(config: Mapping[str, Any] | None) -> str:
    """Return the name that LangChain and Deep Agents give a named agent's runs; "" without one."""
    name: object = ((config or ensure_config()).get("metadata") or {}).get("lc_agent_name")
    return name if isinstance(name, str) else ""


def is_interrupt(error: Exception) -> bool:
    """Check whether LangGraph raised this to pause or redirect a run, as it does to ask a person; no tool failed then.

    The class is known by its name, because LangChain's tools work without LangGraph.
    """
    return any(each.__name__ == "GraphBubbleUp" for each in type(error).__mro__)


def takes_text(result: Any, call_id: str | None) -> bool:
    """Return False for a result that changes an agent's state and has no message for the model."""
    return not isinstance(result, ToolOutputMixin) or _answer_of(result, call_id) is not None


def append_to(result: Any, guidance: Guidance, call_id: str | None) -> Any:
    """Return the result with the guidance; in a `Command`, it follows the message for this call."""
    answer = _answer_of(result, call_id)
    if answer is not None and answer is not result:
        changed = append_text(answer, guidance)
        messages = [changed if each is answer else each for each in result.update["messages"]]
        return dataclasses.replace(result, update={**result.update, "messages": messages})
    if isinstance(result, ToolMessage):
        return append_text(result, guidance)
    if not isinstance(result, str):
        if not guidance.text:
            return result
        # Any other result would become text for the model anyway; as JSON it stays readable beside the guidance.
        try:
            result = json.dumps(result, ensure_ascii=False, default=str)
        except Exception:  # noqa: BLE001 - keys of other types, a cycle, a user's `__str__`: as LangChain does itself
            result = str(result)
    quoted = quote_forged_lines(result, guidance.headings)
    return GAP.join(part for part in (quoted, guidance.text) if part)


def _answer_of(result: Any, call_id: str | None) -> ToolMessage | None:
    """Return the message for the model: the result itself, or the one that a LangGraph `Command` adds."""
    if isinstance(result, ToolMessage):
        return result
    update: Any = getattr(result, "update", None) if isinstance(result, ToolOutputMixin) else None
    messages: Any = cast("dict[str, Any]", update).get("messages") if isinstance(update, dict) else None
    if not isinstance(messages, list | tuple):
        return None
    for each in cast("list[Any]", messages):
        if isinstance(each, ToolMessage) and each.tool_call_id == call_id:
            return each
    return None
