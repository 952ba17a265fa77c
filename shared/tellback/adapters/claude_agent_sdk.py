"""Claude Agent SDK: hooks that give guidance right after a tool's result, as `additionalContext`.

    options = ClaudeAgentOptions(hooks=hooks(prompt))

Source: feedback-providers, "Claude Agent SDK".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from tellback.adapters.guiding import WAIT, AnyGuide, Completed, advice_soon, called
from tellback.guidance.observations.completion import AnswerCheck
from tellback.log import get_logger

if TYPE_CHECKING:
    from claude_agent_sdk import HookCallback, HookContext, HookInput, HookMatcher
    from claude_agent_sdk.types import HookEvent, HookJSONOutput

_KNOWN: Final = frozenset({"todo", "tool", "failed"})  # what is missing whatever the answer says

_log = get_logger("tellback.adapters")


def hooks(guide: AnyGuide, *, wait: float = WAIT, stop: bool = False) -> dict[HookEvent, list[HookMatcher]]:
    """The mapping for `ClaudeAgentOptions(hooks=...)`; further hooks can be added to it.

    A tool call, failed ones too, is published, and after at most `wait` seconds the agent sees next steps that follow
    from its outcome, and the feedback that waits. With `stop` an answer that misses what `guide.check_answer` asks for
    is sent back with a list of it, at most twice.
    """
    from claude_agent_sdk import HookMatcher  # noqa: PLC0415 - only who uses the SDK needs it

    found: dict[HookEvent, list[HookMatcher]] = {
        "PostToolUse": [HookMatcher(hooks=[post_tool_use(guide, wait=wait)])],
        "PostToolUseFailure": [HookMatcher(hooks=[post_tool_use(guide, wait=wait)])],
    }
    if stop:
        found["Stop"] = [HookMatcher(hooks=[before_stop(guide)])]
    return found


def post_tool_use(guide: AnyGuide, *, wait: float = WAIT) -> HookCallback:
    """A callback for `PostToolUse` and `PostToolUseFailure`."""

    async def callback(given: HookInput, tool_use_id: str | None, _context: HookContext) -> HookJSONOutput:
        event = cast("dict[str, Any]", given)
        call = Completed(
            tool=event.get("tool_name") or "unknown",
            params=event.get("tool_input"),
            result=event.get("tool_response"),
            error=event.get("error"),
            duration_ms=event.get("duration_ms"),
            call_id=event.get("tool_use_id") or tool_use_id,
        )
        text = await advice_soon(guide, call, wait, _in_thread)
        return _output({"hookEventName": event.get("hook_event_name"), "additionalContext": text}) if text else {}

    return callback


def before_stop(guide: AnyGuide) -> HookCallback:
    """A callback for `Stop` that lists what is missing from the answer."""

    async def callback(given: HookInput, _tool_use_id: str | None, _context: HookContext) -> HookJSONOutput:
        answer = cast("dict[str, Any]", given).get("last_assistant_message")
        try:
            found = await called(guide.check_answer, _in_thread, answer or "")
        except Exception:  # noqa: BLE001 - an agent must be able to stop
            _log.exception("answer.unchecked")
            return {}
        if answer is None:  # older programs do not send it: of an answer that we do not know nothing is missing
            found = AnswerCheck(found.passed, tuple(one for one in found.missing if one.kind in _KNOWN), found.title)
        reason = "" if found.passed else found.render()
        return {"decision": "block", "reason": reason} if reason else {}

    return callback


def _output(specific: dict[str, Any]) -> HookJSONOutput:
    return cast("HookJSONOutput", {"hookSpecificOutput": specific})


async def _in_thread(call: Callable[[], Any]) -> Any:
    from anyio import to_thread  # noqa: PLC0415 - the SDK brings it, and runs on whatever loop it runs on

    return await to_thread.run_sync(call)
