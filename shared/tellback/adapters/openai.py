"""Guidance for OpenAI-style messages, as part of the tool result that the model reads.

    message = {"role": "tool", "tool_call_id": call.id, "content": result}
    messages.append(guided(prompt, message, tool=call.function.name, params=json.loads(call.function.arguments)))

Works for chat completions and for `function_call_output` items of the Responses API. It doesn't import `openai`: it
reads messages by their field names, so other clients with the same message format work as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from tellback.adapters.common import (
    DEFAULT_WAIT,
    GAP,
    AsyncPromptLike,
    CompletedCall,
    Guidance,
    PromptLike,
    accepts_text,
    append_text,
    publish_and_collect,
    publish_and_collect_async,
    publish_call,
    publish_call_async,
)
from tellback.contracts.guidance import Feedback
from tellback.errors import InvalidInput

Message = TypeVar("Message")


def append_feedback(message: Message, feedback: Iterable[Feedback | str], *, in_place: bool = False) -> Message:
    """Append feedback to a tool message after a blank line; an empty message becomes the feedback.

    Lines of the message that look like feedback are quoted as the tool's own, so pass all feedback of a call at once.
    Returns a copy unless `in_place` is set, and the message itself if nothing changes.

    Raises:
        InvalidInput: the message's content is neither a text nor a list of parts, or `feedback` is not a list.
    """
    if isinstance(feedback, str) or not isinstance(cast("object", feedback), Iterable):
        raise InvalidInput(f"feedback is {type(feedback).__name__}; use a list of feedback")
    texts = [given if isinstance(given, str) else given.render() for given in feedback]
    return append_text(message, Guidance(GAP.join(text for text in texts if text)), in_place=in_place)


def guided(
    guide: PromptLike,
    message: Message,
    *,
    tool: str,
    params: Mapping[str, Any] | None = None,
    result: object = None,
    error: object = None,
    duration_ms: float | None = None,
    wait: float = DEFAULT_WAIT,
) -> Message:
    """Publish a completed tool call and return its message with the feedback appended.

    Lines of the message that look like guidance are quoted as the tool's own, and the rest stays as it is. Waits at
    most `wait` seconds. Without `result` and `error`, the message's content is the result. A message that
    can't hold text is returned unchanged and logged; its feedback comes with the next call.
    """
    call = _completed_call(message, CompletedCall(tool, params, result, error, duration_ms))
    if not accepts_text(message):  # collecting feedback empties the mailbox, and there is no place to put it
        publish_call(guide, call)
        return message
    return append_text(message, publish_and_collect(guide, call, wait))


async def guided_async(
    guide: PromptLike | AsyncPromptLike,
    message: Message,
    *,
    tool: str,
    params: Mapping[str, Any] | None = None,
    result: object = None,
    error: object = None,
    duration_ms: float | None = None,
    wait: float = DEFAULT_WAIT,
) -> Message:
    """Publish a tool call and return its message like `guided`, for asyncio."""
    call = _completed_call(message, CompletedCall(tool, params, result, error, duration_ms))
    if not accepts_text(message):
        await publish_call_async(guide, call)
        return message
    return append_text(message, await publish_and_collect_async(guide, call, wait))


def _completed_call(message: object, call: CompletedCall) -> CompletedCall:
    fields = cast("Mapping[str, Any]", message) if isinstance(message, Mapping) else _MessageFields(message)
    # Chat completions, the Responses API and Anthropic's tool results name the call's id differently.
    call_id = fields.get("tool_call_id") or fields.get("call_id") or fields.get("tool_use_id")
    if call.result is None and call.error is None:
        call = call._replace(result=fields.get("content") or fields.get("output"))
    return call._replace(call_id=call_id if isinstance(call_id, str) else None)


class _MessageFields:
    """A message object whose attributes are read like a mapping's keys."""

    def __init__(self, message: object) -> None:
        self._message = message

    def get(self, name: str) -> Any:
        return getattr(self._message, name, None)
