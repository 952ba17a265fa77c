"""Tools for LangChain whose results carry guidance.

    tools = [guided(tool, prompt) for tool in tools]

A tool is wrapped because a LangChain callback handler sees a tool's result but can't change it. The wrapper keeps the
tool's name, description and arguments.
"""

from __future__ import annotations

import json
from typing import Any, cast

from langchain_core.messages import ToolMessage
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
    return made


class GuidedTool(BaseTool):
    """A tool that publishes its calls and appends feedback to their results; `guided` creates it."""

    _inner: BaseTool = PrivateAttr()
    _guide: Any = PrivateAttr()
    _wait: float = PrivateAttr(default=DEFAULT_WAIT)

    def invoke(self, input: str | dict[str, Any] | Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 - LangChain's name for it
        """Call the tool and append feedback to its result.

        An exception is published and raised again. It has no text to append to, so feedback waits for the next call.
        """
        start = clock.monotonic()
        try:
            result = self._inner.invoke(input, config, **kwargs)
        except Exception as error:
            publish_call(self._guide, self._completed(input, config, start, error=error))
            raise
        call = self._completed(input, config, start, result)
        return _append_text(result, publish_and_collect(self._guide, call, self._wait))

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
            await publish_call_async(self._guide, self._completed(input, config, start, error=error))
            raise
        call = self._completed(input, config, start, result)
        return _append_text(result, await publish_and_collect_async(self._guide, call, self._wait))

    def _completed(
        self, given: Any, config: RunnableConfig | None, start: float, result: object = None, *, error: object = None
    ) -> CompletedCall:
        return _completed_call(self.name, given, start, result, error)._replace(agent=_agent_name(config))

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        """Forward LangChain's older `run` to `invoke`; `BaseTool` requires this method."""
        return self.invoke(args[0] if args else kwargs)


def _completed_call(tool: str, given: Any, start: float, result: object = None, error: object = None) -> CompletedCall:
    call = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    whole = call.get("type") == "tool_call"
    params = call.get("args") if whole else (call or {"input": given})
    # A tool with `handle_tool_error` doesn't raise; its failure shows only in the message's status.
    if isinstance(result, ToolMessage):
        failed = result.status == "error"
        result, error = (None, result.content) if failed else (result.content, None)
    return CompletedCall(
        # LangChain keeps the id only in the whole tool call; a tool that is invoked with plain arguments has none.
        tool,
        params,
        result,
        error,
        (clock.monotonic() - start) * 1000,
        call.get("id") if whole else None,
    )


def _agent_name(config: RunnableConfig | None) -> str:
    """Return the name that LangChain and Deep Agents give a named agent's runs; "" without one."""
    name: object = ((config or ensure_config()).get("metadata") or {}).get("lc_agent_name")
    return name if isinstance(name, str) else ""


def _append_text(result: Any, guidance: Guidance) -> Any:
    if isinstance(result, ToolMessage):
        return append_text(result, guidance)
    if not isinstance(result, str):
        if not guidance.text:
            return result
        # Any other result would become text for the model anyway; as JSON it stays readable beside the guidance.
        result = json.dumps(result, ensure_ascii=False, default=str)
    quoted = quote_forged_lines(result, guidance.headings)
    return GAP.join(part for part in (quoted, guidance.text) if part)
