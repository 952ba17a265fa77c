"""What an agent's program says on standard input, as the facts that a client would have published."""

from __future__ import annotations

import json
import os
from typing import Any, Final, NamedTuple, cast

from tellback.contracts.limits import HOOK_ID, NAME_MAX, SCHEMA_VERSION, SESSION_MAX
from tellback.errors import InvalidInput
from tellback.guidance.cuts import beginning, cut_arguments, cut_text, limited, unread_bytes
from tellback.redaction import Redactor

TOOL_EVENTS: Final = {"PostToolUse": "success", "PostToolUseFailure": "error"}  # with the status of the call
_WHOLE: Final = "…"  # the one key of arguments that are no mapping


class Event(NamedTuple):
    """One event of an agent; `call` is None unless a tool was called."""

    name: str
    session: str
    evaluation: str
    call: dict[str, Any] | None
    given: dict[str, Any]


def read_event(raw: bytes, name: str) -> Event:
    """The event; `name` is what the command line calls it, where the JSON does not say.

    Raises:
        InvalidInput: not the JSON of an event.
    """
    try:
        found: object = json.loads(raw.decode("utf-8", "replace"), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"standard input is no JSON: {type(error).__name__}") from None
    if not isinstance(found, dict):
        raise InvalidInput("standard input is no JSON object")
    given = cast("dict[str, Any]", found)
    session = _text(given, "session_id")
    if not session or len(session) > SESSION_MAX:
        raise InvalidInput(f"session_id is no text of 1 to {SESSION_MAX} characters")
    name = _text(given, "hook_event_name") or name
    evaluation = session[-NAME_MAX:]
    return Event(name, session, evaluation, _call(given, name) if name in TOOL_EVENTS else None, given)


def _call(given: dict[str, Any], name: str) -> dict[str, Any]:
    """The fields of a `ToolInvoked` that the event tells, redacted and cut."""
    tool = _text(given, "tool_name")
    if not tool:
        raise InvalidInput("tool_name is no text")
    params, response, error = given.get("tool_input"), given.get("tool_response"), given.get("error")
    passed: list[Any] = [params if isinstance(params, dict) else {_WHOLE: params}, response, error]
    read = [limited(each) for each in passed]
    call_id = _text(given, "tool_use_id")
    redactor = Redactor(within="\n".join([tool, call_id, *map(_as_text, read)]))
    status = "error" if _says_error(response) else TOOL_EVENTS[name]
    shown = redactor.text(call_id)[:NAME_MAX] if call_id else None
    return {
        "event_id": HOOK_ID + (call_id if shown == call_id and call_id else os.urandom(12).hex()),
        "tool": redactor.text(tool)[:NAME_MAX],
        "params": {} if params is None else cut_arguments(redactor.value(read[0]), encode_json),
        "status": status,
        "result": None if response is None else _shown(response, read[1], redactor),
        "error": None if error is None else _shown(error, read[2], redactor),
        "duration_ms": _milliseconds(given.get("duration_ms")),
        "call_id": shown,
    }


def tool_invoked(event: Event, prompt: str) -> bytes:
    """The fact of the event's call, as `tellback.contracts.codec.encode` would have written it."""
    where = {"session": event.session, "evaluation": event.evaluation, "prompt": prompt}
    return encode_json({"type": "ToolInvoked", "v": SCHEMA_VERSION, **where, **(event.call or {})})


def encode_json(value: object) -> bytes:
    """Compact JSON; halves of surrogate pairs, which do not travel, become question marks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _text(given: dict[str, Any], key: str) -> str:
    value = given.get(key)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else encode_json(value).decode()


def _shown(given: object, read: object, redactor: Redactor) -> str:
    """What is read of a text, or JSON in which each text is redacted by itself; then as a whole, for secrets across."""
    text = beginning(given) if isinstance(given, str) else _as_text(redactor.value(read))
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return cut_text(redactor.text(text), unread=unread_bytes(given) if isinstance(given, str) else 0)


def _says_error(response: object) -> bool:
    """Whether a tool's own answer says that it failed, as MCP results and Anthropic's tool results do."""
    if not isinstance(response, dict):
        return False
    answer = cast("dict[str, object]", response)
    return answer.get("isError") is True or answer.get("is_error") is True


def _milliseconds(value: object) -> int | None:
    return round(value) if type(value) in (int, float) and 0 <= cast("float", value) < 2**53 else None  # type: ignore[call-overload]  # mypy does not narrow by type()


def _no_number(_: str) -> None:
    """NaN and the infinities are no JSON."""
