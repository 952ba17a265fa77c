"""The forms in which protocols and providers wrap a tool's result or its failure.

MCP: `CallToolResult` with `isError`; JSON-RPC errors. Anthropic: `{"type": "tool_result", "is_error": true}` and
`{"type": "error", "error": {...}}`. OpenAI: `{"error": {"type", "code", "message"}}` and tool messages. Beside them the
bodies that web services answer with: `error`, `errors`, `detail`, `success: false`, RFC 9457 problems.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tellback.contracts.guidance import Code
from tellback.guidance.observations.emptiness import acts
from tellback.guidance.observations.evidence import Evidence, Finding
from tellback.guidance.observations.exceptions import named, rpc_code
from tellback.guidance.observations.http import from_status
from tellback.guidance.observations.lexicon import lexicon
from tellback.guidance.observations.statuses import code_of
from tellback.guidance.observations.texts import code_of_error, said_wait
from tellback.guidance.observations.values import (
    attribute,
    fields_of,
    is_dict,
    is_list,
    is_mapping,
    is_row,
    items_of,
    json_of,
    text_of,
)

_TYPES: Final[Mapping[str, Code]] = {
    "rate_limit_error": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    "too_many_requests": "rate_limited",
    "tokens": "rate_limited",
    "requests": "rate_limited",
    "insufficient_quota": "rate_limited",
    "overloaded_error": "unavailable",
    "api_error": "unavailable",
    "server_error": "unavailable",
    "service_unavailable": "unavailable",
    "timeout_error": "unavailable",
    "authentication_error": "denied",
    "permission_error": "denied",
    "billing_error": "denied",
    "invalid_api_key": "denied",
    "access_denied": "denied",
    "not_found_error": "no_results",
    "invalid_request_error": "invalid_arguments",
    "invalid_argument": "invalid_arguments",
    "invalid_arguments": "invalid_arguments",
    "request_too_large": "invalid_arguments",
    "tool_not_found": "unknown_tool",
    "unknown_tool": "unknown_tool",
    "resource_exhausted": "rate_limited",
    "unavailable": "unavailable",
    "deadline_exceeded": "unavailable",
    "permission_denied": "denied",
    "unauthenticated": "denied",
    "not_found": "no_results",
    "max_uses_exceeded": "rate_limited",
    "invalid_input": "invalid_arguments",
    "invalid_tool_input": "invalid_arguments",
    "query_too_long": "invalid_arguments",
    "url_too_long": "invalid_arguments",
    "url_not_allowed": "denied",
    "url_not_accessible": "unavailable",
    "execution_time_exceeded": "error",
}
_FLAGS: Final = ("isError", "is_error")
_MCP: Final = frozenset({"content", "structuredContent", "_meta"})
_SMALL: Final = 1
_BESIDE_MESSAGE: Final = frozenset({"message", "documentation_url", "requestid", "request_id", "x-amzn-requestid"})
_MESSAGE_MAX: Final = 200


def unwrapped(value: object) -> tuple[object, bool]:
    """What a wrapper of a protocol holds, and whether it says that the call failed; else the value itself."""
    if is_mapping(value):
        return _of_fields(value, fields_of(value))
    if isinstance(value, str):
        data = json_of(value)
        return (_content(data, None), False) if _is_content(data) else _of_fields(value, fields_of(data))
    content = attribute(value, "content")
    if (
        not isinstance(value, str | BaseException)
        and _has_flag(value)
        and (is_list(content) or isinstance(content, str))
    ):
        flag = any(attribute(value, name) is True for name in _FLAGS)
        return _content(content, attribute(value, "structuredContent")), flag
    return (_content(value, None), False) if _is_content(value) else (value, False)


def _of_fields(value: object, fields: Mapping[str, Any]) -> tuple[object, bool]:
    if "jsonrpc" in fields and is_dict(fields.get("result")):
        return _of_fields(fields["result"], fields["result"])
    kind = str(fields.get("type", ""))
    flag = any(fields.get(name) is True for name in _FLAGS)
    wraps = any(name in fields for name in _FLAGS) or kind == "tool_result" or fields.get("role") == "tool"
    wraps = wraps or (fields.keys() <= _MCP and _is_content(fields.get("content")))
    if kind.endswith("_tool_result") and "content" in fields:  # of a tool that Anthropic's servers run
        said = fields_of(fields["content"])
        return fields["content"], str(said.get("type", "")).endswith("_error") and "error_code" in said
    if wraps and "content" in fields:
        return _content(fields["content"], fields.get("structuredContent")), flag
    return value, wraps and flag


def _has_flag(value: object) -> bool:
    return any(isinstance(attribute(value, name), bool) for name in _FLAGS)


def _is_content(value: object) -> bool:
    items = items_of(value)
    return bool(items) and all(
        fields_of(item).get("type") == "text" and isinstance(fields_of(item).get("text"), str) and len(item) <= 4
        for item in items
    )


def _content(content: object, structured: object) -> object:
    parts = [_part(part) for part in items_of(content)] if is_row(content) else [text_of(content)]
    text = "\n".join(part for part in parts if part)
    return structured if not text and structured is not None else text


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    text = fields_of(part).get("text", attribute(part, "text"))
    if isinstance(text, str):
        return text
    kind = fields_of(part).get("type", attribute(part, "type"))
    return f"[{kind}]" if isinstance(kind, str) else ""


def by_shape(evidence: Evidence) -> Finding | None:
    """A body that is nothing but an error, as the result or as the error."""
    for data in (evidence.error_data, evidence.data):
        found = from_body(fields_of(data), evidence)
        if found is not None:
            return found
    return None


def from_body(fields: Mapping[str, Any], evidence: Evidence) -> Finding | None:
    """What an error body says; None for a record, also for one with a field `error`."""
    if not _reports(fields, failed=bool(evidence.failed)):
        return _of_message(fields, evidence)
    inner = _inner(fields)
    message = _message(inner) or _message(fields) or evidence.message
    code = _code(inner, message, evidence.tool) or _code(fields, message, evidence.tool)
    status = _status(inner) or _status(fields)
    wait = _wait(inner) or _wait(fields) or said_wait(message)
    if code is None and status is not None:
        found = from_status(status, evidence)
        return None if found is None else Finding(found.code, message, found.retry_after or wait, found.retryable)
    code = code or code_of_error(message, evidence.tool)
    spent = code == "rate_limited" and "insufficient_quota" in (inner.get("type"), inner.get("code"))
    return Finding(code, message, wait, retryable=False if spent else None)


def _of_message(fields: Mapping[str, Any], evidence: Evidence) -> Finding | None:
    """A body that has nothing but a message, as gateways answer with, if the message reports a failure."""
    names = {name.lower() for name in fields}
    message = next((value for name, value in fields.items() if name.lower() == "message"), None)
    if not isinstance(message, str) or not names <= _BESIDE_MESSAGE or acts(evidence.tool):
        return None
    code = code_of_error(message, evidence.tool) if len(message) <= _MESSAGE_MAX else "error"
    return None if code == "error" else Finding(code, message, said_wait(message))


def _reports(fields: Mapping[str, Any], *, failed: bool) -> bool:
    names = {name.lower(): value for name, value in fields.items()}
    others = sum(name not in lexicon().beside_error and _holds(value) for name, value in names.items())
    results = any(_holds(names.get(name)) for name in ("data", "result", "results"))
    if others > _SMALL or (results and not failed):
        return False
    for name in ("error", "errors", "error_message", "errormessage", "error_description", "error_code"):
        if _holds(names.get(name)) and names[name] is not True and not isinstance(names[name], int | float):
            return True
    said = any(
        isinstance(names.get(name), str) and names[name] for name in ("message", "detail", "msg", "title", "reason")
    )
    denied = any(names.get(name) is False for name in ("success", "ok")) or names.get("error") is True
    denied = denied or ({"type", "title", "detail"} <= names.keys() and _is_problem(names["type"]))
    wrong = (
        str(names.get("status", "")).lower() in ("error", "failed", "failure", "fail") or _status(fields) is not None
    )
    return denied or (wrong and (said or failed)) or (failed and said) or (_only_detail(names))


def _is_problem(kind: object) -> bool:
    """Whether a type is that of a problem as RFC 9457 has it."""
    return isinstance(kind, str) and kind.startswith(("http://", "https://", "about:", "urn:", "tag:"))


def _only_detail(names: Mapping[str, Any]) -> bool:
    """`{"detail": ...}` alone is how the common Python web frameworks report an error."""
    return (
        set(names) <= {"detail", "code", "type"}
        and isinstance(names.get("detail"), str | list)
        and bool(names["detail"])
    )


def _holds(value: object) -> bool:
    return bool(value) or (isinstance(value, int | float) and not isinstance(value, bool))


def _inner(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    if is_dict(fields.get("error")):
        return fields_of(fields["error"])
    errors = items_of(fields.get("errors")) or items_of(fields.get("detail"))
    return fields_of(errors[0]) if errors else {}


def _message(fields: Mapping[str, Any]) -> str:
    for name in (
        "message",
        "error",
        "detail",
        "msg",
        "error_description",
        "error_message",
        "errors",
        "title",
        "reason",
    ):
        value = fields.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if is_list(value) and value:
            return "; ".join(_message(fields_of(item)) or text_of(item) for item in items_of(value)[:5])
        if is_dict(value) and value:
            return _message(fields_of(value)) or text_of(value)
    return ""


def _code(fields: Mapping[str, Any], message: str, tool: str) -> Code | None:
    for name in ("code", "type", "status", "error", "error_code", "errorCode", "Code", "__type", "title"):
        value = fields.get(name)
        if isinstance(value, str) and len(value) < 100:
            found = _TYPES.get(value.lower().rstrip(".").replace(" ", "_")) or named(value)
            if found == "unavailable" and code_of_error(message) == "rate_limited":
                return "rate_limited"
            if found == "invalid_arguments" and code_of_error(message, tool) in ("unknown_tool", "rate_limited"):
                return code_of_error(message, tool)
            if found is not None:
                return found
        if name == "code" and isinstance(value, int) and value < 0:
            said = code_of_error(message, tool)
            return said if said != "error" else rpc_code(value)
    return "invalid_arguments" if fields.get("loc") is not None and fields.get("msg") else None


def _status(fields: Mapping[str, Any]) -> int | None:
    for name in ("status", "statusCode", "status_code", "code", "http_status", "httpCode"):
        value = fields.get(name)
        if isinstance(value, str) and value.isdigit() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599 and code_of(value):
            return value
    return None


def _wait(fields: Mapping[str, Any]) -> float | None:
    for name in ("retry_after", "retryAfter", "retry_after_seconds", "retry-after"):
        value = fields.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if isinstance(value, str) and value.strip().isdigit():
            return float(value[:9])
    return None


def graphql_partial(data: object) -> bool:
    """Whether a body has both results and errors."""
    fields = fields_of(data)
    return _holds(fields.get("data")) and bool(items_of(fields.get("errors")))
