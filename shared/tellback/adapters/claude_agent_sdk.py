"""Hooks for the Claude Agent SDK that add guidance right after a tool's result, as `additionalContext`.

    options = ClaudeAgentOptions(hooks=hooks(prompt))

The SDK is imported only when you call `hooks`, so importing this module doesn't need it.
Requirement G-47.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from tellback.adapters.common import DEFAULT_WAIT, AnyPrompt, CompletedCall, call_or_await, publish_and_collect_async
from tellback.contracts.imitations import imitation_note
from tellback.guidance.observations.completion import AnswerCheck
from tellback.log import get_logger

if TYPE_CHECKING:
    from claude_agent_sdk import HookCallback, HookContext, HookInput, HookMatcher
    from claude_agent_sdk.types import HookEvent, HookJSONOutput

# Kinds of missing items that don't depend on the answer's text, so they can be checked without it.
_WITHOUT_TEXT: Final = frozenset({"todo", "tool", "failed"})

_logger = get_logger("tellback.adapters")


def hooks(guide: AnyPrompt, *, wait: float = DEFAULT_WAIT, stop: bool = False) -> dict[HookEvent, list[HookMatcher]]:
    """Return the mapping for `ClaudeAgentOptions(hooks=...)`; you can add hooks of your own to it.

    Every tool call is published, including failed ones, for the agent that made it: a subagent's calls carry its
    `agent_id` (since Claude Code 2.1.69), and `guide.for_agent` gives it an evaluation of its own. After at most `wait`
    seconds the agent sees the suggestions that follow from the outcome, and the waiting feedback. With `stop`, an
    answer that lacks what `guide.check_answer` requires is sent back at most twice, with a list of what is missing.
    """
    from claude_agent_sdk import HookMatcher  # noqa: PLC0415 - an optional dependency

    found: dict[HookEvent, list[HookMatcher]] = {
        "PostToolUse": [HookMatcher(hooks=[post_tool_use(guide, wait=wait)])],
        "PostToolUseFailure": [HookMatcher(hooks=[post_tool_use(guide, wait=wait)])],
    }
    if stop:
        found["Stop"] = [HookMatcher(hooks=[check_before_stop(guide)])]
    return found


def post_tool_use(guide: AnyPrompt, *, wait: float = DEFAULT_WAIT) -> HookCallback:
    """Return a callback for `PostToolUse` and `PostToolUseFailure`."""

    async def callback(given: HookInput, tool_use_id: str | None, _context: HookContext) -> HookJSONOutput:
        event = cast("dict[str, Any]", given)
        call = CompletedCall(
            tool=event.get("tool_name") or "unknown",
            params=event.get("tool_input"),
            result=event.get("tool_response"),
            error=event.get("error"),
            duration_ms=event.get("duration_ms"),
            call_id=event.get("tool_use_id") or tool_use_id,
            agent=event.get("agent_id") or "",
        )
        given_text = (await publish_and_collect_async(guide, call, wait, _run_in_thread)).text
        text = "\n\n".join(filter(None, [imitation_note(call.result, call.error), given_text]))
        return _hook_output({"hookEventName": event.get("hook_event_name"), "additionalContext": text}) if text else {}

    return callback


def check_before_stop(guide: AnyPrompt) -> HookCallback:
    """Return a callback for `Stop` that blocks an incomplete answer and lists what is missing."""

    async def callback(given: HookInput, _tool_use_id: str | None, _context: HookContext) -> HookJSONOutput:
        answer = cast("dict[str, Any]", given).get("last_assistant_message")
        try:
            found = await call_or_await(guide.check_answer, _run_in_thread, answer or "")
        except Exception:  # an agent must be able to stop
            _logger.exception("answer.unchecked")
            return {}
        if answer is None:  # older Claude Code versions don't send the answer, so its text can't be held against it
            found = AnswerCheck(
                found.passed, tuple(one for one in found.missing if one.kind in _WITHOUT_TEXT), found.title
            )
        reason = "" if found.passed else found.render()
        return {"decision": "block", "reason": reason} if reason else {}

    return callback


def _hook_output(specific: dict[str, Any]) -> HookJSONOutput:
    return cast("HookJSONOutput", {"hookSpecificOutput": specific})


async def _run_in_thread(call: Callable[[], Any]) -> Any:
    from anyio import to_thread  # noqa: PLC0415 - installed with the SDK, and works on trio, too

    return await to_thread.run_sync(call)
