"""LangChain: tools whose results bring guidance with them.

    tools = [guided(tool, prompt) for tool in tools]

A callback handler sees a tool's result and cannot change it; so a tool is wrapped, and has the name, the description
and the arguments that it had.
"""

from __future__ import annotations

import json
from typing import Any, cast

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from pydantic import PrivateAttr

from tellback import clock
from tellback.adapters.guiding import WAIT, AsyncGuide, Completed, Guide, advice, advice_soon, told, told_soon
from tellback.adapters.messages import GAP, appended


def guided(tool: BaseTool, guide: Guide | AsyncGuide, *, wait: float = WAIT) -> BaseTool:
    """The tool, whose results bring what there is to say of each call; a call waits for it at most `wait` seconds.

    With a prompt of `tellback.aio` it can be called by `ainvoke` alone.
    """
    made = GuidedTool(name=tool.name, description=tool.description, args_schema=tool.args_schema)
    made.return_direct, made.metadata, made.tags = tool.return_direct, tool.metadata, tool.tags
    made._inner, made._guide, made._wait = tool, guide, wait  # noqa: SLF001 - of this module
    return made


class GuidedTool(BaseTool):
    """Made by `guided`."""

    _inner: BaseTool = PrivateAttr()
    _guide: Any = PrivateAttr()
    _wait: float = PrivateAttr(default=WAIT)

    def invoke(self, input: str | dict[str, Any] | Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 - LangChain's name for it
        """Call the tool; an exception of it is published and raised, and what waits comes with the next call."""
        start = clock.monotonic()
        try:
            result = self._inner.invoke(input, config, **kwargs)
        except Exception as error:
            told(self._guide, _completed(self.name, input, start, error=error))
            raise
        return _with(result, advice(self._guide, _completed(self.name, input, start, result), self._wait))

    async def ainvoke(
        self,
        input: str | dict[str, Any] | Any,  # noqa: A002 - as above
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        """As `invoke`, for asyncio."""
        start = clock.monotonic()
        try:
            result = await self._inner.ainvoke(input, config, **kwargs)
        except Exception as error:
            await told_soon(self._guide, _completed(self.name, input, start, error=error))
            raise
        return _with(result, await advice_soon(self._guide, _completed(self.name, input, start, result), self._wait))

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        """What `run` comes down to, which LangChain keeps for old code."""
        return self.invoke(args[0] if args else kwargs)


def _completed(tool: str, given: Any, start: float, result: object = None, error: object = None) -> Completed:
    call = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    whole = call.get("type") == "tool_call"
    params = call.get("args") if whole else (call or {"input": given})
    if isinstance(result, ToolMessage):
        failed = result.status == "error"
        result, error = (None, result.content) if failed else (result.content, None)
    return Completed(tool, params, result, error, (clock.monotonic() - start) * 1000, call.get("id") if whole else None)


def _with(result: Any, text: str) -> Any:
    if not text:
        return result
    if isinstance(result, ToolMessage):
        return appended(result, text)
    if isinstance(result, str):
        return f"{result}{GAP}{text}" if result else text
    return f"{json.dumps(result, ensure_ascii=False, default=str)}{GAP}{text}"
