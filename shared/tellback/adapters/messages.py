"""Text appended to a tool's message, whatever form its content has; the message that was given stays as it is."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, Final, TypeVar, cast

from tellback.errors import InvalidInput

Message = TypeVar("Message")
GAP: Final = "\n\n"  # a blank line


def appended(message: Message, text: str, *, in_place: bool = False) -> Message:
    """The tool message with `text` after a blank line; an empty message becomes the text.

    `message` is a mapping with `content` (chat completions) or `output` (a `function_call_output` of the Responses
    API), or an object of pydantic with `content`. The content is a text, a list of parts, or None. `in_place` changes
    the message itself; otherwise it is copied, and what it holds is not changed either.

    Raises:
        InvalidInput: the message has no content of these forms.
    """
    if not text:
        return message
    given: Any = message
    if isinstance(message, Mapping):
        key = "output" if given.get("type") == "function_call_output" else "content"
        content = _content(given.get(key), text, "input_text" if key == "output" else "text")
        if in_place and isinstance(message, MutableMapping):
            given[key] = content
            return cast("Message", given)
        return cast("Message", {**given, key: content})
    if not hasattr(given, "content"):
        raise InvalidInput(f"{type(message).__name__} is no tool message: it has no content")
    content = _content(given.content, text, "text")
    if in_place:
        given.content = content
        return message
    return cast("Message", given.model_copy(update={"content": content}))


def _content(content: Any, text: str, kind: str) -> Any:
    if content is None or content == "":
        return text
    if isinstance(content, str):
        return content + GAP + text
    if not isinstance(content, list | tuple):
        raise InvalidInput(f"a tool message's content is {type(content).__name__}; use a text or a list of parts")
    parts = list(cast("list[Any]", content))
    last: Any = parts[-1] if parts else None
    if isinstance(last, str):  # LangChain's parts may be plain
        return [*parts[:-1], last + GAP + text if last else text]
    if isinstance(last, Mapping) and cast("Mapping[str, Any]", last).get("type") == kind:
        said = cast("Mapping[str, Any]", last).get("text") or ""
        return [*parts[:-1], {**last, "text": f"{said}{GAP}{text}" if said else text}]
    return [*parts, {"type": kind, "text": text}]
