"""Bodies that are nothing but an error: of providers, web services, gateways and frameworks.

OpenAI: `{"error": {"type", "code", "message"}}`. Anthropic: `{"type": "error", "error": {...}}`. JSON-RPC errors.
Beside them `error`, `errors`, `detail`, `fault`, `success: false`, RFC 9457 problems, and codes of services.
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
from tellback.guidance.observations.phrases import INVALID
from tellback.guidance.observations.statuses import code_of
from tellback.guidance.observations.texts import code_of_error, said_wait
from tellback.guidance.observations.values import fields_of, is_dict, is_list, items_of, text_of

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
    "internal_error": "unavailable",
    "timeout": "unavailable",
    "ratelimited": "rate_limited",
    "rate_limited": "rate_limited",
    "over_query_limit": "rate_limited",
    "over_daily_limit": "rate_limited",
    "request_denied": "denied",
    "invalid_auth": "denied",
    "not_authed": "denied",
    "missing_scope": "denied",
    "invalid_request": "invalid_arguments",
    "bad_request": "invalid_arguments",
    "bad_user_input": "invalid_arguments",
    "graphql_validation_failed": "invalid_arguments",
    "graphql_parse_failed": "invalid_arguments",
}
_SMALL: Final = 1
_MESSAGES: Final = ("message", "note", "information")
_BESIDE_MESSAGE: Final = frozenset({*_MESSAGES, "documentation_url", "requestid", "request_id", "x-amzn-requestid"})
_MESSAGE_MAX: Final = 200


def by_body(evidence: Evidence) -> Finding | None:
    """A body that is nothing but an error, as the result or as the error."""
    for data in (evidence.error_data, evidence.data):
        found = from_body(fields_of(data), evidence)
        if found is not None:
            return found
    return None


def from_body(fields: Mapping[str, Any], evidence: Evidence) -> Finding | None:
    """What an error body says; None for a record, also for one with a field `error`."""
    if not _reports(fields, failed=bool(evidence.failed)):
        return _of_message(fields, evidence) or _of_fields(fields)
    inner = _inner(fields)
    message = _message(inner) or _message(fields) or evidence.message
    code = _code(inner, message, evidence.tool) or _code(fields, message, evidence.tool)
    status = _status(inner) or _status(fields) or _status(fields_of(fields.get("response")))
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
    message = next((value for name, value in fields.items() if name.lower() in _MESSAGES), None)
    if not isinstance(message, str) or not names <= _BESIDE_MESSAGE or acts(evidence.tool):
        return None
    code = code_of_error(message, evidence.tool) if len(message) <= _MESSAGE_MAX else "error"
    return None if code == "error" else Finding(code, message, said_wait(message))


def _of_fields(fields: Mapping[str, Any]) -> Finding | None:
    """What is wrong with each argument, by its name, as web frameworks answer with."""
    said = [items_of(value)[0] if items_of(value) else None for value in fields.values()]
    texts = [text for text in said if isinstance(text, str) and len(text) <= _MESSAGE_MAX and INVALID.search(text)]
    if not texts or len(texts) < len(said):
        return None
    return Finding("invalid_arguments", "; ".join(f"{name}: {text}" for name, text in zip(fields, texts, strict=True)))


def _reports(fields: Mapping[str, Any], *, failed: bool) -> bool:
    names = {name.lower(): value for name, value in fields.items()}
    others = sum(name not in lexicon().beside_error and _holds(value) for name, value in names.items())
    results = any(_holds(names.get(name)) for name in ("data", "result", "results"))
    if others > _SMALL or (results and not failed):
        return False
    for name in ("error", "errors", "error_message", "errormessage", "error_description", "error_code", "fault"):
        if _holds(names.get(name)) and names[name] is not True and not isinstance(names[name], int | float):
            return True
    said = any(
        isinstance(names.get(name), str) and names[name] for name in ("message", "detail", "msg", "title", "reason")
    )
    denied = any(names.get(name) is False for name in ("success", "ok")) or names.get("error") is True
    denied = denied or names.get("object") == "error" or _names_error(names)
    denied = denied or ({"type", "title", "detail"} <= names.keys() and _is_problem(names["type"]))
    wrong = (
        str(names.get("status", "")).lower() in ("error", "failed", "failure", "fail")
        or (_status(fields) or _status(fields_of(fields.get("response")))) is not None
    )
    return denied or (wrong and (said or failed)) or (failed and said) or (_only_detail(names))


def _names_error(names: Mapping[str, Any]) -> bool:
    """Whether a field that is for codes of errors holds a known one; `status` only in capitals, as Google's maps do."""
    status = names.get("status")
    if isinstance(status, str) and status.isupper() and "_" in status and status.lower() in _TYPES:
        return True
    codes = (names.get(name) for name in ("code", "__type", "errorcode", "errortype"))
    return any(isinstance(code, str) and (code.lower() in _TYPES or named(code)) for code in codes)


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
    for name in ("error", "fault"):
        if is_dict(fields.get(name)):
            return fields_of(fields[name])
    errors = items_of(fields.get("errors")) or items_of(fields.get("detail"))
    return fields_of(errors[0]) if errors else {}


def _message(fields: Mapping[str, Any]) -> str:
    for name in (
        "message",
        "faultstring",
        "error",
        "detail",
        "msg",
        "error_description",
        "error_message",
        "errors",
        "title",
        "reason",
        "errorMessage",
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
    for name in (
        "code",
        "type",
        "status",
        "error",
        "error_code",
        "errorCode",
        "Code",
        "errorType",
        "__type",
        "title",
        "name",
    ):
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
    inner = fields_of(fields.get("extensions")).get("code")  # GraphQL
    if isinstance(inner, str) and inner.lower() in _TYPES:
        return _TYPES[inner.lower()]
    return "invalid_arguments" if fields.get("loc") is not None and fields.get("msg") else None


def _status(fields: Mapping[str, Any]) -> int | None:
    for name in ("status", "statusCode", "status_code", "code", "http_status", "httpCode", "cod"):
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


def is_partial(data: object) -> bool:
    """Whether a body has both results and errors, or says that there would be more than it had time for."""
    fields = {name.lower(): value for name, value in fields_of(data).items()}
    found = any(_holds(fields.get(name)) for name in ("data", *lexicon().found))
    cut = any(fields.get(name) is True for name in ("partial", "timed_out", "incomplete_results"))
    return found and (cut or bool(items_of(fields.get("errors"))))
