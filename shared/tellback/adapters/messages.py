"""Text appended to a tool's message, whatever form its content has; the message that was given stays as it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, TypeVar, cast

from tellback.errors import InvalidInput
from tellback.log import get_logger

Message = TypeVar("Message")
GAP: Final = "\n\n"  # a blank line

_log = get_logger("tellback.adapters")


def appended(message: Message, text: str, *, in_place: bool = False) -> Message:
    """The tool message with `text` after a blank line; an empty message becomes the text.

    `message` is a mapping, or an object of pydantic or a dataclass, with `content` (chat completions) or `output` (a
    `function_call_output` of the Responses API). The content is a text, a list of parts, or None. `in_place` changes
    the message itself; otherwise it is copied, and what it holds is not changed either.

    Raises:
        InvalidInput: the message has no content of these forms.
    """
    if not text:
        return message
    key, given = _slot(message)
    content = _content(given, text, "input_text" if key == "output" else "text")
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


def takes_text(message: object) -> bool:
    """Whether `appended` can be used with this message; a line in the log says why not."""
    try:
        _slot(message)
    except InvalidInput as error:
        _log.warning("message.no_text", reason=str(error))
        return False
    return True


def _slot(message: object) -> tuple[str, Any]:
    """What of a message takes the text: its name, and what stands there.

    Raises:
        InvalidInput: nothing does.
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
            raise InvalidInput(f"{kind} is no tool message: it has no {key}, or cannot be copied")
        given = getattr(message, key)
    if not isinstance(given, str | list | tuple | None):
        raise InvalidInput(f"a tool message's {key} is {type(given).__name__}; use a text or a list of parts")
    return key, cast("Any", given)


def _content(content: Any, text: str, kind: str) -> Any:
    if content is None or content == "":
        return text
    if isinstance(content, str):
        return content + GAP + text
    parts = list(cast("list[Any]", content))
    last: Any = parts[-1] if parts else None
    if isinstance(last, str):  # LangChain's parts may be plain
        return [*parts[:-1], last + GAP + text if last else text]
    if isinstance(last, Mapping) and cast("Mapping[str, Any]", last).get("type") == kind:
        said = cast("Mapping[str, Any]", last).get("text") or ""
        return [*parts[:-1], {**last, "text": f"{said}{GAP}{text}" if said else text}]
    return [*parts, {"type": kind, "text": text}]
