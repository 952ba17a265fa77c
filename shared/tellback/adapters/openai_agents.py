"""OpenAI Agents SDK: hooks that publish tool calls, and a filter that puts guidance into their results.

    hooks = GuidanceHooks(prompt)
    await Runner.run(agent, "...", hooks=hooks, run_config=RunConfig(call_model_input_filter=hooks.filter_input))

The SDK's hooks cannot change what a tool returned; what goes to the model passes the filter, which appends to the
outputs of the calls that earned something, again with each turn, since the SDK keeps the outputs as they were.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any, Final, cast

from agents import RunHooks
from agents.run_config import CallModelData, ModelInputData

from tellback.adapters.guiding import WAIT, AnyGuide, Completed, advice_soon, told_soon
from tellback.adapters.messages import appended

KEPT: Final = 1_000  # texts of one run's calls


class GuidanceHooks(RunHooks[Any]):
    """For one run, or for several one after another."""

    def __init__(self, guide: AnyGuide, *, wait: float = WAIT) -> None:
        """Take the prompt; each call waits for its feedback for at most `wait` seconds."""
        self._guide = guide
        self._wait = wait
        self._texts: OrderedDict[str, str] = OrderedDict()

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:  # noqa: ARG002 - as the SDK calls it
        """Publish the call, and keep what there is to say of it for the model's next input."""
        call_id = getattr(context, "tool_call_id", None)
        call = Completed(tool.name, _params(context), result, call_id=call_id)
        if not call_id:  # there is no output that we could find again
            await told_soon(self._guide, call)
            return
        text = await advice_soon(self._guide, call, self._wait)
        if text:
            self._texts[call_id] = text
            if len(self._texts) > KEPT:
                self._texts.popitem(last=False)

    def filter_input(self, data: CallModelData[Any]) -> ModelInputData:
        """For `RunConfig(call_model_input_filter=...)`."""
        items = [self._with_text(item) for item in data.model_data.input]
        return ModelInputData(input=items, instructions=data.model_data.instructions)

    def _with_text(self, item: Any) -> Any:
        given: Any = item
        if not isinstance(item, dict) or given.get("type") != "function_call_output":
            return given
        return appended(given, self._texts.get(given.get("call_id", ""), ""))


def _params(context: object) -> dict[str, Any] | None:
    try:
        found: object = json.loads(getattr(context, "tool_arguments", None) or "null")
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None
