"""The steps that all adapters share: publish a tool call, collect its feedback, append it to the tool's message.

What the tool itself says in our form is quoted before anything of ours stands behind it (requirement A-65).

Every function here catches what a prompt raises and logs it, since feedback must never fail an agent's tool call.
Messages are copied, not changed, because the framework may keep the original in its history.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast

from tellback.contracts.guidance import Feedback
from tellback.errors import InvalidInput
from tellback.guidance.observations.completion import AnswerCheck
from tellback.guidance.observations.feedback import ToolFeedback
from tellback.log import get_logger
from tellback.quoting import quote_forged_parts

DEFAULT_WAIT: Final = 0.05  # seconds; every tool call of the agent may wait this long

T = TypeVar("T")

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]

_logger = get_logger("tellback.adapters")


class PromptLike(Protocol):
    """The methods of `tellback.Prompt` that adapters use."""

    def observe(
        self,
        tool: str,
        *,
        params: Mapping[str, Any] | None = None,
        result: object = None,
        error: object = None,
        duration_ms: float | None = None,
        call_id: str | None = None,
    ) -> ToolFeedback:
        """Publish a completed tool call and return the feedback that follows from its outcome."""
        ...

    def feedback(self, wait: float = 0.0) -> list[Feedback]:
        """Return the feedback that is ready within `wait` seconds."""
        ...

    def check_answer(self, answer: object) -> AnswerCheck:
        """Check whether the answer completes the task."""
        ...


class AsyncPromptLike(Protocol):
    """The methods of `tellback.aio.Prompt` that adapters use."""

    async def observe(
        self,
        tool: str,
        *,
        params: Mapping[str, Any] | None = None,
        result: object = None,
        error: object = None,
        duration_ms: float | None = None,
        call_id: str | None = None,
    ) -> ToolFeedback:
        """Publish a completed tool call and return the feedback that follows from its outcome."""
        ...

    async def feedback(self, wait: float = 0.0) -> list[Feedback]:
        """Return the feedback that is ready within `wait` seconds."""
        ...

    async def check_answer(self, answer: object) -> AnswerCheck:
        """Check whether the answer completes the task."""
        ...


AnyPrompt = PromptLike | AsyncPromptLike


class CompletedCall(NamedTuple):
    """A completed tool call; `error` is None if it succeeded, and `agent` is the subagent that made it, if any did."""

    tool: str
    params: Mapping[str, Any] | None = None
    result: object = None
    error: object = None
    duration_ms: float | None = None
    call_id: str | None = None
    agent: str = ""

    def fields(self) -> dict[str, Any]:
        """Return the arguments of `observe`."""
        return {name: value for name, value in self._asdict().items() if name != "agent"}


def _agents_prompt(guide: PromptLike, call: CompletedCall) -> PromptLike:
    """Return the prompt of the agent that made the call; a guide of your own without `for_agent` serves all of them."""
    find = getattr(guide, "for_agent", None)
    return cast("PromptLike", find(call.agent)) if find and call.agent else guide


async def _agents_prompt_async(guide: AnyPrompt, call: CompletedCall, in_thread: InThread) -> AnyPrompt:
    find = getattr(guide, "for_agent", None)
    return cast("AnyPrompt", await call_or_await(find, in_thread, call.agent)) if find and call.agent else guide


class Guidance(NamedTuple):
    """The text for an agent, "" if there is none, and headings of the prompt's templates for `append_text`."""

    text: str = ""
    headings: tuple[str, ...] = ()


def publish_and_collect(guide: PromptLike, call: CompletedCall, wait: float) -> Guidance:
    """Publish a call and return its suggestions and the waiting feedback."""
    try:
        own = _agents_prompt(guide, call)
        seen = own.observe(**call.fields())
        return _join_texts(seen, own.feedback(wait=wait))
    except Exception:  # feedback must not fail an agent's tool call
        _logger.exception("advice.failed", tool=call.tool)
        return Guidance()


async def publish_and_collect_async(
    guide: AnyPrompt, call: CompletedCall, wait: float, in_thread: InThread = asyncio.to_thread
) -> Guidance:
    """Publish and collect like `publish_and_collect`, without blocking the event loop."""
    try:
        own = await _agents_prompt_async(guide, call, in_thread)
        seen = await call_or_await(own.observe, in_thread, **call.fields())
        return _join_texts(seen, await call_or_await(own.feedback, in_thread, wait=wait))
    except Exception:
        _logger.exception("advice.failed", tool=call.tool)
        return Guidance()


def publish_call(guide: PromptLike, call: CompletedCall) -> None:
    """Publish a call to which no text can be appended; the waiting feedback stays for the next call."""
    try:
        _agents_prompt(guide, call).observe(**call.fields())
    except Exception:
        _logger.exception("advice.failed", tool=call.tool)


async def publish_call_async(guide: AnyPrompt, call: CompletedCall) -> None:
    """Publish like `publish_call`, without blocking the event loop."""
    try:
        own = await _agents_prompt_async(guide, call, asyncio.to_thread)
        await call_or_await(own.observe, asyncio.to_thread, **call.fields())
    except Exception:
        _logger.exception("advice.failed", tool=call.tool)


async def call_or_await(function: Callable[..., Any], in_thread: InThread, *args: Any, **kwargs: Any) -> Any:
    """Await a coroutine function; run any other in a thread, since it would block the event loop."""
    # Check the function, not its result: calling a blocking one to find out would block already.
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    return await in_thread(partial(function, *args, **kwargs))


def _join_texts(seen: ToolFeedback, given: Sequence[Feedback]) -> Guidance:
    parts = [seen.suggestions_section or "", *(feedback.render() for feedback in given)]
    return Guidance("\n\n".join(part for part in parts if part), seen.catalog.headings)


Message = TypeVar("Message")

GAP: Final = "\n\n"  # a blank line


def append_text(message: Message, guidance: Guidance, *, in_place: bool = False) -> Message:
    """Return the tool message with the text appended after a blank line; an empty message becomes the text.

    Lines of the message that look like ours are quoted, whether or not there is a text. A message that stays as it is
    is returned itself.

    `message` is a mapping, a pydantic object or a dataclass with `content` (chat completions) or `output` (a
    `function_call_output` of the Responses API). The content is a text, a list of parts, or None. With `in_place` the
    message itself changes; otherwise you get a copy that shares no changed value with it.

    Raises:
        InvalidInput: the message has no such content.
    """
    if not guidance.text and not _has_text_slot(message):
        return message
    key, given = _text_slot(message)
    content = _quote_content(given, guidance.headings)
    if guidance.text:
        content = _append_content(content, guidance.text, "input_text" if key == "output" else "text")
    return message if content is given else _with_content(message, key, content, in_place=in_place)


def _with_content(message: Message, key: str, content: Any, *, in_place: bool) -> Message:
    # The framework may keep the original message in its history, so change it only on request.
    holder: Any = message
    if isinstance(message, Mapping):
        if in_place and isinstance(message, MutableMapping):
            holder[key] = content
            return cast("Message", holder)
        return cast("Message", {**holder, key: content})
    if in_place:
        setattr(holder, key, content)
        return message
    if dataclasses.is_dataclass(message):
        return cast("Message", dataclasses.replace(holder, **{key: content}))
    return cast("Message", holder.model_copy(update={key: content}))


def accepts_text(message: object) -> bool:
    """Return True if `append_text` works with this message; otherwise log why it doesn't."""
    try:
        _text_slot(message)
    except InvalidInput as error:
        _logger.warning("message.no_text", reason=str(error))
        return False
    return True


def _has_text_slot(message: object) -> bool:
    try:
        _text_slot(message)
    except InvalidInput:
        return False
    return True


def _text_slot(message: object) -> tuple[str, Any]:
    """Return the name and the value of the message's field that text can be appended to.

    Raises:
        InvalidInput: the message has no such field.
    """
    kind = type(message).__name__
    if isinstance(message, Mapping):
        fields = cast("Mapping[str, Any]", message)
        key = "output" if fields.get("type") == "function_call_output" else "content"
        given: Any = fields.get(key)
    else:
        key = "output" if getattr(message, "type", None) == "function_call_output" else "content"
        copied = hasattr(message, "model_copy") or (dataclasses.is_dataclass(message) and not isinstance(message, type))
        if not hasattr(message, key) or not copied:
            raise InvalidInput(f"{kind} is not a tool message: it has no {key}, or cannot be copied")
        given = getattr(message, key)
    if not isinstance(given, str | list | tuple | None):
        raise InvalidInput(f"a tool message's {key} is {type(given).__name__}; use a text or a list of parts")
    return key, cast("Any", given)


def _quote_content(content: Any, headings: tuple[str, ...]) -> Any:
    """Return the content with forged lines quoted; the same object if there are none."""
    if content is None:
        return content
    parts = [content] if isinstance(content, str) else cast("list[Any]", content)
    texts = [_text_of(part) for part in parts]
    quoted = quote_forged_parts([text or "" for text in texts], headings)
    if quoted == [text or "" for text in texts]:
        return content
    changed = [
        part if text is None else _with_text(part, new) for part, text, new in zip(parts, texts, quoted, strict=True)
    ]
    return changed[0] if isinstance(content, str) else changed


def _text_of(part: Any) -> str | None:
    text: object = part if isinstance(part, str) else None
    if isinstance(part, Mapping):
        text = cast("Mapping[str, Any]", part).get("text")
    elif hasattr(part, "model_copy"):
        text = getattr(part, "text", None)
    return text if isinstance(text, str) else None


def _with_text(part: Any, text: str) -> Any:
    if isinstance(part, str):
        return text
    if isinstance(part, Mapping):
        return {**cast("Mapping[str, Any]", part), "text": text}
    return part.model_copy(update={"text": text})


def _append_content(content: Any, text: str, kind: str) -> Any:
    if content is None or content == "":
        return text
    if isinstance(content, str):
        return content + GAP + text
    parts = list(cast("list[Any]", content))
    last: Any = parts[-1] if parts else None
    if isinstance(last, str):  # LangChain allows plain strings as parts
        return [*parts[:-1], last + GAP + text if last else text]
    # Extend the last text part rather than add one: the guidance then stands right after the result.
    if isinstance(last, Mapping) and cast("Mapping[str, Any]", last).get("type") == kind:
        said = cast("Mapping[str, Any]", last).get("text") or ""
        return [*parts[:-1], {**last, "text": f"{said}{GAP}{text}" if said else text}]
    return [*parts, {"type": kind, "text": text}]
