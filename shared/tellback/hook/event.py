"""Parsing of an agent's JSON on standard input into the event that a client would have published.

Secrets are redacted before anything is truncated, as everywhere: a truncated secret would no longer match its rule.
"""

from __future__ import annotations

import json
import os
from typing import Any, Final, cast

from tellback.contracts.limits import HOOK_ID, MAX_NAME_CHARS, MAX_SESSION_CHARS, SCHEMA_VERSION
from tellback.errors import InvalidInput
from tellback.hook.options import EVENTS
from tellback.light_struct import LightStruct
from tellback.names import USER_PROMPT, agent_evaluation
from tellback.redaction import Redactor
from tellback.truncation import (
    WHOLE_KEY,
    bounded_copy,
    omitted_bytes,
    readable_prefix,
    truncate_arguments,
    truncate_text,
)

STORED_PARAMS_BYTES: Final = 1 << 10  # arguments up to here are in the history unchanged, whatever the result's length

TOOL_EVENTS: Final = {"PostToolUse": "success", "PostToolUseFailure": "error"}  # event name -> status of the call


class HookEvent(LightStruct):
    """One event of an agent; `call` is None unless it is a completed tool call.

    `agent` is a subagent's id, "" for the main agent: each has an evaluation of its own in the session that they share.
    """

    name: str
    session: str
    evaluation: str
    call: dict[str, Any] | None
    given: dict[str, Any]
    agent: str = ""


def read_event(raw: bytes, name: str) -> HookEvent:
    """Parse an event; `name` is the one from the command line, used if the JSON has none that Tellback knows.

    Raises:
        InvalidInput: it is not the JSON of an event.
    """
    try:
        found: object = json.loads(
            raw.decode("utf-8", "replace"), parse_constant=_refuse_constant, parse_float=_finite_number
        )
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"standard input is not JSON: {type(error).__name__}") from None
    if not isinstance(found, dict):
        raise InvalidInput("standard input is not a JSON object")
    given = cast("dict[str, Any]", found)
    session = _text_field(given, "session_id")
    if not session or len(session) > MAX_SESSION_CHARS:
        raise InvalidInput(f"session_id is not a text of 1 to {MAX_SESSION_CHARS} characters")
    named = _text_field(given, "hook_event_name")
    name = named if named in EVENTS.values() else name  # other programs have names of their own for the same events
    agent = _text_field(given, "agent_id")
    evaluation = agent_evaluation(session[-MAX_NAME_CHARS:], agent, MAX_NAME_CHARS)
    call = _tool_call_fields(given, name) if name in TOOL_EVENTS else None
    return HookEvent(name, session, evaluation, call, given, agent)


def _tool_call_fields(given: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the fields of a `ToolInvoked` that the event has, redacted and truncated."""
    tool = _text_field(given, "tool_name")
    if not tool:
        raise InvalidInput("tool_name is not a text")
    params, response, error = given.get("tool_input"), given.get("tool_response"), given.get("error")
    passed: list[Any] = [params if isinstance(params, dict) else {WHOLE_KEY: params}, response, error]
    read = [bounded_copy(each) for each in passed]
    call_id = _text_field(given, "tool_use_id")
    redactor = Redactor(within="\n".join([tool, call_id, *map(_to_text, read)]))
    status = "error" if _reports_error(response) else TOOL_EVENTS[name]
    shown = redactor.text(call_id)[:MAX_NAME_CHARS] if call_id else None
    # The call's id makes a repeated hook harmless. If it had to be redacted or truncated, it may not be unique.
    return {
        "event_id": HOOK_ID + (call_id if shown == call_id and call_id else os.urandom(12).hex()),
        "tool": redactor.text(tool)[:MAX_NAME_CHARS],
        "params": {} if params is None else truncate_arguments(redactor.value(read[0]), encode_json),
        "status": status,
        "result": None if response is None else _redacted_text(response, read[1], redactor),
        "error": None if error is None else _redacted_text(error, read[2], redactor),
        "duration_ms": _milliseconds(given.get("duration_ms")),
        "call_id": shown,
    }


def published_arguments(event: HookEvent) -> tuple[str, dict[str, Any] | None]:
    """Return the tool of a call that is about to be made, and its arguments as they would be published.

    They are None if publishing would change them: then nobody can tell whether two calls are the same.

    Raises:
        InvalidInput: the event names no tool.
    """
    given = {**event.given, "tool_response": None, "error": None, "tool_use_id": None}
    fields = _tool_call_fields(given, "PostToolUse")
    params = event.given.get("tool_input")
    exact = fields["params"] == params and len(encode_json(params)) <= STORED_PARAMS_BYTES
    return fields["tool"], fields["params"] if exact else None


def tool_invoked(event: HookEvent, prompt: str, traceparent: str = "") -> bytes:
    """Return the `ToolInvoked` of the event as JSON."""
    return _encode_message("ToolInvoked", event, prompt, traceparent, event.call or {})


def user_spoke(event: HookEvent, prompt: str, traceparent: str = "") -> tuple[str, bytes]:
    """Return the id and the JSON of the `ContextChanged` that says that the user spoke; not what was said."""
    id_ = HOOK_ID + os.urandom(12).hex()
    said = {"event_id": id_, "kind": USER_PROMPT, "name": "user"}
    return id_, _encode_message("ContextChanged", event, prompt, traceparent, said)


def _encode_message(kind: str, event: HookEvent, prompt: str, traceparent: str, fields: dict[str, Any]) -> bytes:
    where = {"session": event.session, "evaluation": event.evaluation, "prompt": prompt}
    traced = {"traceparent": traceparent} if traceparent else {}
    return encode_json({"type": kind, "v": SCHEMA_VERSION, **where, **traced, **fields})


def encode_json(value: object) -> bytes:
    """Return compact JSON; halves of surrogate pairs, which UTF-8 cannot encode, become question marks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _text_field(given: dict[str, Any], key: str) -> str:
    value = given.get(key)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _to_text(value: object) -> str:
    return value if isinstance(value, str) else encode_json(value).decode()


def _redacted_text(given: object, read: object, redactor: Redactor) -> str:
    """Return a text, or a value as JSON, redacted and truncated.

    Texts inside JSON are redacted one by one, and then the whole again, for a secret that spans two of them.
    """
    text = readable_prefix(given) if isinstance(given, str) else _to_text(redactor.value(read))
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return truncate_text(redactor.text(text), unread=omitted_bytes(given) if isinstance(given, str) else 0)


def _reports_error(response: object) -> bool:
    """Return whether a tool's own response reports a failure, as MCP results and Anthropic's tool results do."""
    if not isinstance(response, dict):
        return False
    answer = cast("dict[str, object]", response)
    return answer.get("isError") is True or answer.get("is_error") is True


def _milliseconds(value: object) -> int | None:
    return round(value) if type(value) in (int, float) and 0 <= cast("float", value) < 2**53 else None  # type: ignore[call-overload]  # mypy does not narrow by type()


def _refuse_constant(_: str) -> None:
    """Refuse NaN and the infinities, which are not JSON."""


def _finite_number(digits: str) -> float | None:
    """Return a number; None for one like 1e999, which is JSON, but would be published as an infinity."""
    number = float(digits)
    return number if abs(number) != float("inf") else None
