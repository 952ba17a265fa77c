"""OpenAI style messages: guidance becomes part of the tool result that the model sees.

    message = {"role": "tool", "tool_call_id": call.id, "content": result}
    messages.append(guided(prompt, message, tool=call.function.name, params=json.loads(call.function.arguments)))

Works for chat completions and for `function_call_output` items of the Responses API. Nothing of `openai` is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from tellback.adapters.guiding import WAIT, AsyncGuide, Completed, Guide, advice, advice_soon, told, told_soon
from tellback.adapters.messages import GAP, appended, takes_text
from tellback.contracts.guidance import Feedback

Message = TypeVar("Message")


def append_feedback(message: Message, feedback: Iterable[Feedback | str], *, in_place: bool = False) -> Message:
    """The tool message with the feedback after a blank line; an empty message becomes the feedback.

    A copy, unless `in_place`. Without feedback it is the message itself.

    Raises:
        InvalidInput: the message's content is neither a text nor a list of parts.
    """
    texts = [given if isinstance(given, str) else given.render() for given in feedback]
    return appended(message, GAP.join(text for text in texts if text), in_place=in_place)


def guided(
    guide: Guide,
    message: Message,
    *,
    tool: str,
    params: Mapping[str, Any] | None = None,
    result: object = None,
    error: object = None,
    duration_ms: float | None = None,
    wait: float = WAIT,
) -> Message:
    """Publish a completed tool call, and give its message with what there is to say of it.

    Waits for at most `wait` seconds. Without `result` and `error` the message's own content is the result. A message
    that takes no text is given back as it is, with a line in the log: what waits comes with the next call.
    """
    call = _completed(message, Completed(tool, params, result, error, duration_ms))
    if not takes_text(message):
        told(guide, call)
        return message
    return appended(message, advice(guide, call, wait))


async def guided_soon(
    guide: Guide | AsyncGuide,
    message: Message,
    *,
    tool: str,
    params: Mapping[str, Any] | None = None,
    result: object = None,
    error: object = None,
    duration_ms: float | None = None,
    wait: float = WAIT,
) -> Message:
    """As `guided`, for asyncio."""
    call = _completed(message, Completed(tool, params, result, error, duration_ms))
    if not takes_text(message):
        await told_soon(guide, call)
        return message
    return appended(message, await advice_soon(guide, call, wait))


def _completed(message: object, call: Completed) -> Completed:
    fields = cast("Mapping[str, Any]", message) if isinstance(message, Mapping) else _Fields(message)
    call_id = fields.get("tool_call_id") or fields.get("call_id") or fields.get("tool_use_id")
    if call.result is None and call.error is None:
        call = call._replace(result=fields.get("content") or fields.get("output"))
    return call._replace(call_id=call_id if isinstance(call_id, str) else None)


class _Fields:
    """The attributes of a message that is no mapping, read like one."""

    def __init__(self, message: object) -> None:
        self._message = message

    def get(self, name: str) -> Any:
        return getattr(self._message, name, None)
