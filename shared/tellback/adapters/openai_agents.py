"""Hooks for the OpenAI Agents SDK that publish tool calls, and a filter that appends guidance to their results.

    hooks = GuidanceHooks(prompt)
    await Runner.run(agent, "...", hooks=hooks, run_config=RunConfig(call_model_input_filter=hooks.filter_input))

The SDK's hooks can't change a tool's output, but the filter sees everything that goes to the model. The SDK keeps the
original outputs, so the filter appends the same guidance, and quotes forged guidance, again in every turn.
"""

from __future__ import annotations

import json
from typing import Any, Final, cast

from agents import RunHooks
from agents.run_config import CallModelData, ModelInputData
from cachetools import FIFOCache

from tellback.adapters.common import (
    DEFAULT_WAIT,
    AnyPrompt,
    CompletedCall,
    Guidance,
    append_text,
    publish_and_collect_async,
    publish_call_async,
)

MAX_PENDING: Final = 1_000  # texts; bounds the memory of a long run, whose oldest calls lose their guidance first


class GuidanceHooks(RunHooks[Any]):
    """Hooks for one run, or for several runs one after another.

    The first agent has the prompt's evaluation, and any other, after a handoff, one of its own by its name.
    """

    def __init__(self, guide: AnyPrompt, *, wait: float = DEFAULT_WAIT) -> None:
        self._guide = guide
        self._wait = wait
        self._texts: FIFOCache[str, Guidance] = FIFOCache(MAX_PENDING)
        self._main: str | None = None

    async def on_agent_start(self, context: Any, agent: Any) -> None:  # noqa: ARG002 - the SDK's signature
        """Remember the first agent as the main one, whose evaluation is the prompt's own."""
        self._main = self._main or agent.name

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:
        """Publish the call for its agent, and keep its feedback for the model's next input."""
        call_id = getattr(context, "tool_call_id", None)
        self._main = self._main or agent.name  # a subclass may override `on_agent_start`
        other = "" if agent.name == self._main else agent.name
        call = CompletedCall(tool.name, _tool_params(context), result, call_id=call_id, agent=other)
        if not call_id:  # without an id the filter couldn't find this call's output
            await publish_call_async(self._guide, call)
            return
        self._texts[call_id] = await publish_and_collect_async(self._guide, call, self._wait)

    def filter_input(self, data: CallModelData[Any]) -> ModelInputData:
        """Append the kept feedback to the outputs of its calls, for `RunConfig(call_model_input_filter=...)`."""
        items = [self._append_guidance(item) for item in data.model_data.input]
        return ModelInputData(input=items, instructions=data.model_data.instructions)

    def _append_guidance(self, item: Any) -> Any:
        given: Any = item
        if not isinstance(item, dict) or given.get("type") != "function_call_output":
            return given
        return append_text(given, self._texts.get(given.get("call_id", ""), Guidance()))


def _tool_params(context: object) -> dict[str, Any] | None:
    try:
        found: object = json.loads(getattr(context, "tool_arguments", None) or "null")
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None
