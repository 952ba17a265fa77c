"""Messages of the chat-completions form to steps. Nothing here raises, whatever JSON the messages are.

A user's message is answered by the agent's text before the next user message: by the last message without tool calls,
else by the last text that stood beside tool calls. A tool call counts when its result is there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from tellback.replay.transcript import AgentAnswers, NobodyAnswers, Oddities, Step, ToolReturned, UserSays

NAMELESS: Final = "unknown"
CALL_ROLES: Final = ("tool", "function")
SILENT_ROLES: Final = ("system", "developer")
_ERROR: Final = re.compile(r"\s{0,80}\w{0,80}error\b|\s{0,80}Traceback \(most recent call last\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Call:
    tool: str
    params: dict[str, Any]
    id: str | None


class _Calls:
    """Calls whose result has not come yet, in order."""

    def __init__(self, oddities: Oddities) -> None:
        self._waiting: list[_Call] = []
        self._oddities = oddities

    def made(self, message: dict[str, Any]) -> bool:
        """Note the calls of an assistant's message; whether there are any."""
        raw = message.get("tool_calls")
        calls = [_mapping(call) for call in cast("list[object]", raw)] if isinstance(raw, list) else []
        bodies: list[tuple[object, object]] = [(call.get("function"), call.get("id")) for call in calls]
        if message.get("function_call") is not None:
            bodies.append((message["function_call"], None))
        for body, id_ in bodies:
            function = _mapping(body)
            self._waiting.append(_Call(_name(function), self._params(function.get("arguments")), _id(id_)))
        return bool(bodies)

    def returned(self, message: dict[str, Any], position: int) -> ToolReturned:
        """The step of a tool's message: with its call by id, else by name, else the oldest."""
        call = self._take(_id(message.get("tool_call_id")), message.get("name"))
        if call is None:
            self._oddities.results_without_call += 1
            call = _Call(_name(message), {}, _id(message.get("tool_call_id")))
        text = text_of(message.get("content"))
        failed = is_error(text) or message.get("is_error") is True
        return ToolReturned(call.tool, call.params, text, "error" if failed else "success", call.id, position)

    def end(self) -> None:
        """Nothing comes any more."""
        self._oddities.calls_without_result += len(self._waiting)

    def _take(self, id_: str | None, name: object) -> _Call | None:
        if id_ is not None:
            found = next((call for call in self._waiting if call.id == id_), None)
        else:
            found = next((call for call in self._waiting if name is None or call.tool == name), None)
        if found is not None:
            self._waiting.remove(found)
        return found

    def _params(self, arguments: object) -> dict[str, Any]:
        if arguments is None or arguments == "":
            return {}
        value = arguments
        if isinstance(arguments, str):
            try:
                value = json.loads(arguments)
            except (ValueError, RecursionError):
                self._oddities.arguments_not_json += 1
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {"arguments": value}


def steps_of(messages: Sequence[object]) -> tuple[tuple[Step, ...], Oddities]:
    """The steps of a conversation, in order, and what was odd about it."""
    oddities = Oddities()
    return tuple(_steps(messages, oddities)), oddities


def _steps(messages: Sequence[object], oddities: Oddities) -> Iterator[Step]:
    calls = _Calls(oddities)
    user: int | None = None
    answer: tuple[bool, str] | None = None  # whether it stood beside tool calls, and the text
    for position, raw in enumerate(messages):
        message = _mapping(raw)
        role = message.get("role")
        if role == "user":
            yield from _ended(user, answer, "the user wrote again before any answer")
            user, answer = position, None
            yield UserSays(position, text_of(message.get("content")))
        elif role == "assistant":
            beside = calls.made(message)
            text = text_of(message.get("content")) or text_of(message.get("refusal"))
            if text.strip() and (answer is None or answer[0] or not beside):
                answer = (beside, text)
        elif role in CALL_ROLES:
            yield calls.returned(message, position)
        elif role not in SILENT_ROLES:
            oddities.messages_skipped += 1
    yield from _ended(user, answer, "the transcript ends without an answer")
    calls.end()


def _ended(user: int | None, answer: tuple[bool, str] | None, reason: str) -> Iterator[Step]:
    if user is not None:
        yield NobodyAnswers(user, reason) if answer is None else AgentAnswers(user, answer[1])


def is_error(result: str) -> bool:
    """Whether a tool's result reports a failure: `Error: ...`, `ValueError: ...`, a traceback, `{"error": ...}`."""
    if _ERROR.match(result):
        return True
    if '"error"' not in result or result.lstrip()[:1] != "{":
        return False
    try:
        return bool(_mapping(json.loads(result)).get("error"))
    except (ValueError, RecursionError):
        return False


def text_of(content: object) -> str:
    """The text of a message's content: null, a text, or a list of parts, of which others than text show their type."""
    if content is None:
        return ""
    if isinstance(content, list):
        return "\n".join(part for part in map(_part, cast("list[object]", content)) if part)
    if isinstance(content, dict):
        return _part(cast("dict[str, Any]", content))
    return _clean(content if isinstance(content, str) else json.dumps(content))


def _part(part: object) -> str:
    if isinstance(part, str):
        return _clean(part)
    fields = _mapping(part)
    for name in ("text", "refusal"):
        if isinstance(fields.get(name), str):
            return _clean(fields[name])
    kind = fields.get("type")
    return f"[{_clean(kind)[:40]}]" if isinstance(kind, str) and kind else "[part]"


def _clean(text: str) -> str:
    """Lone surrogates, which JSON can spell, are no text that can be stored."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _name(fields: dict[str, Any]) -> str:
    name = fields.get("name")
    return _clean(name) if isinstance(name, str) and name else NAMELESS


def _id(value: object) -> str | None:
    return _clean(value) if isinstance(value, str) and value else None


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
