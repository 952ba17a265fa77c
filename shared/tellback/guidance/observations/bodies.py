"""Classify bodies that are nothing but an error, of model providers, web services, gateways and frameworks.

The forms are those of OpenAI (`{"error": {"type", "code", "message"}}`), Anthropic (`{"type": "error", "error":
{...}}`), JSON-RPC, RFC 9457 problems, and fields such as `error`, `errors`, `detail`, `fault` and `success: false`. A
record that only has an `error` field among others is a good result, such as a job that failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tellback.contracts.guidance import OutcomeCode
from tellback.guidance.observations.emptiness import is_action_tool
from tellback.guidance.observations.evidence import Evidence, Finding
from tellback.guidance.observations.exceptions import code_for_error_name, code_for_rpc_error
from tellback.guidance.observations.http import finding_from_status
from tellback.guidance.observations.phrases import INVALID_ARGUMENTS
from tellback.guidance.observations.statuses import code_for_status
from tellback.guidance.observations.texts import code_for_error_text, retry_after_in
from tellback.guidance.observations.values import as_list, as_mapping, is_dict, is_list, value_text
from tellback.guidance.observations.words import load_lexicon

# Fields with content, beside those that belong to errors, that an error body may have; with more it is a record.
_MAX_MESSAGE_FIELDS: Final = 1
# Some services answer 200 and name their limit in `Note` or `Information`.
_MESSAGES: Final = ("message", "note", "information")
_BESIDE_MESSAGE: Final = frozenset({*_MESSAGES, "documentation_url", "requestid", "request_id", "x-amzn-requestid"})
# A longer message is content, not the report of a gateway.
_MESSAGE_MAX: Final = 200


def classify_body(evidence: Evidence) -> Finding | None:
    """Classify a body that is nothing but an error, passed as the error or as the result."""
    for data in (evidence.error_data, evidence.data):
        found = finding_from_body(as_mapping(data), evidence)
        if found is not None:
            return found
    return None


def finding_from_body(fields: Mapping[str, Any], evidence: Evidence) -> Finding | None:
    """Return the finding of an error body; None for a record, even one with an `error` field."""
    enveloped = _finding_from_response(fields, evidence)
    if enveloped is not None:
        return enveloped
    if not _reports_failure(fields, failed=bool(evidence.failed)) or _is_asked_for(fields, evidence):
        return _finding_from_message(fields, evidence) or _finding_from_fields(fields)
    inner = _inner_error(fields)
    message = error_message(inner) or error_message(fields) or evidence.message
    code = _error_code(inner, message, evidence.tool) or _error_code(fields, message, evidence.tool)
    status = _http_status(inner) or _http_status(fields) or _http_status(as_mapping(fields.get("response")))
    wait = _retry_after(inner) or _retry_after(fields) or retry_after_in(message)
    if code is None and status is not None:
        found = finding_from_status(status, evidence)
        return None if found is None else Finding(found.code, message, found.retry_after or wait, found.retryable)
    code = code or code_for_error_text(message, evidence.tool)
    spent = code == "rate_limited" and "insufficient_quota" in (inner.get("type"), inner.get("code"))
    return Finding(code, message, wait, retryable=False if spent else None)


def _is_asked_for(fields: Mapping[str, Any], evidence: Evidence) -> bool:
    """Check for the record of what the call asked for by its id, such as a build that failed: it was found."""
    asked = fields.get("id")
    return bool(asked) and not evidence.failed and asked in evidence.params.values()


# What a tool that sends requests returns of a response. A record with other fields is somebody's data.
_PAYLOADS: Final = ("body", "data", "text", "content", "json", "response")
_OF_RESPONSES: Final = frozenset({
    *_PAYLOADS, "status", "status_code", "statuscode", "http_status", "headers", "url", "ok", "statustext",
    "status_text", "reason", "method", "elapsed", "elapsed_ms", "duration_ms",
})  # fmt: skip


def _finding_from_response(fields: Mapping[str, Any], evidence: Evidence) -> Finding | None:
    """Classify the record of a response by its status: `{"status": 422, "body": ...}`."""
    names = {name.lower(): value for name, value in fields.items()}
    status = next(
        (names[name] for name in ("status", "status_code", "statuscode", "http_status") if name in names), None
    )
    payload = next((names[name] for name in _PAYLOADS if _has_content(names.get(name))), None)
    if type(status) is not int or not 400 <= status <= 599 or payload is None or not names.keys() <= _OF_RESPONSES:
        return None
    found = finding_from_status(status, evidence)
    assert found is not None, "each of these statuses has a code"
    message = error_message(as_mapping(payload)) or value_text(payload)
    return Finding(found.code, message, found.retry_after or retry_after_in(message), found.retryable)


def _finding_from_message(fields: Mapping[str, Any], evidence: Evidence) -> Finding | None:
    """Classify a body of only a message, as gateways send it, if the message reports a failure.

    A tool that acts may well return its message: `send_message` returns `{"message": "Access denied"}` on success.
    """
    names = {name.lower() for name in fields}
    message = next((value for name, value in fields.items() if name.lower() in _MESSAGES), None)
    if not isinstance(message, str) or not names <= _BESIDE_MESSAGE or is_action_tool(evidence.tool):
        return None
    code = code_for_error_text(message, evidence.tool) if len(message) <= _MESSAGE_MAX else "error"
    return None if code == "error" else Finding(code, message, retry_after_in(message))


def _finding_from_fields(fields: Mapping[str, Any]) -> Finding | None:
    """Classify a body that lists what is wrong with each argument, such as `{"q": ["This field is required."]}`."""
    said = [as_list(value)[0] if as_list(value) else None for value in fields.values()]
    texts = [
        text for text in said if isinstance(text, str) and len(text) <= _MESSAGE_MAX and INVALID_ARGUMENTS.search(text)
    ]
    if not texts or len(texts) < len(said):
        return None
    return Finding("invalid_arguments", "; ".join(f"{name}: {text}" for name, text in zip(fields, texts, strict=True)))


_ERROR_FIELDS: Final = (
    "error", "errors", "error_message", "errormessage", "error_description", "error_code", "error_type", "fault",
    "errormessages",
)  # fmt: skip


def _reports_failure(fields: Mapping[str, Any], *, failed: bool) -> bool:
    names = {name.lower(): value for name, value in fields.items()}
    others = sum(name not in load_lexicon().beside_error and _has_content(value) for name, value in names.items())
    unsuccessful = False in (names.get("success"), names.get("ok")) and "id" not in names
    threw = is_dict(names.get("exceptiondetails"))  # the script of a browser's page, by Chrome's protocol
    if threw or (unsuccessful and isinstance(names.get("detail"), str)) or _is_refused_envelope(names):
        return True
    results = any(_has_content(names.get(name)) for name in ("data", "result", "results"))
    if others > _MAX_MESSAGE_FIELDS or (results and not failed):
        return False
    # True is only a flag, and a number may be a count or a rate: `{"errors": 3}` is a result.
    for name in _ERROR_FIELDS:
        if _has_content(names.get(name)) and names[name] is not True and not isinstance(names[name], int | float):
            return True
    said = any(
        isinstance(names.get(name), str) and names[name] for name in ("message", "detail", "msg", "title", "reason")
    )
    denied = (
        any(names.get(name) is False for name in ("success", "ok"))
        or names.get("error") is True
        or names.get("object") == "error"
        or _names_error(names)
        or ({"type", "title", "detail"} <= names.keys() and _is_problem(names["type"]))
        or _only_detail(names)
    )
    wrong = (
        str(names.get("status", "")).lower() in ("error", "failed", "failure", "fail")
        or (_http_status(fields) or _http_status(as_mapping(fields.get("response")))) is not None
    )
    return denied or (wrong and (said or failed)) or (failed and said)


def _names_error(names: Mapping[str, Any]) -> bool:
    """Check fields for a known error code; `status` only in capitals, as Google Maps writes it, since it is common."""
    status = names.get("status")
    codes = [names.get(name) for name in ("code", "__type", "errorcode", "errortype")]
    if isinstance(status, str) and status.isupper() and "_" in status:
        codes.append(status)
    return any(isinstance(code, str) and code_for_error_name(code) is not None for code in codes)


def _is_problem(kind: object) -> bool:
    """Check whether a type is a URI, as in RFC 9457 problems."""
    return isinstance(kind, str) and kind.startswith(("http://", "https://", "about:", "urn:", "tag:"))


def _only_detail(names: Mapping[str, Any]) -> bool:
    """Check for `{"detail": ...}` alone, the error form of FastAPI and Django REST framework."""
    detail = names.get("detail")
    return set(names) <= {"detail", "code", "type"} and (isinstance(detail, str) or is_list(detail)) and bool(detail)


def _is_refused_envelope(names: Mapping[str, Any]) -> bool:
    """Check for `{"code": 50012, "msg": "...", "data": null}`, whatever the message: a code, words and no data."""
    code = names.get("code")
    said = any(isinstance(names.get(name), str) and names[name] for name in ("message", "msg"))
    coded = isinstance(code, int) and not isinstance(code, bool) and code != 0 and not 200 <= code <= 299
    return coded and said and "data" in names and not _has_content(names["data"])


def _has_content(value: object) -> bool:
    if is_dict(value) and value and all(each is None for each in value.values()):
        return False  # GraphQL's answer to what it refused
    return bool(value) or (isinstance(value, int | float) and not isinstance(value, bool))


def _inner_error(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in ("error", "fault"):
        if is_dict(fields.get(name)):
            return as_mapping(fields[name])
    errors = as_list(fields.get("errors")) or as_list(fields.get("detail"))
    return as_mapping(errors[0]) if errors else {}


def error_message(fields: Mapping[str, Any]) -> str:
    """Return what the body of an error says went wrong, "" without such a field."""
    for name in (
        "message", "faultstring", "error", "detail", "msg", "error_description", "error_message", "errors", "title",
        "reason", "errorMessage", "errorMessages",
    ):  # fmt: skip
        value = fields.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if is_list(value) and value:
            return "; ".join(error_message(as_mapping(item)) or value_text(item) for item in as_list(value)[:5])
        if is_dict(value) and value:
            return error_message(as_mapping(value)) or value_text(value)
    return ""


def _error_code(fields: Mapping[str, Any], message: str, tool: str) -> OutcomeCode | None:
    for name in (
        "code", "type", "status", "error", "error_code", "errorCode", "Code", "errorType", "__type", "title", "name",
    ):  # fmt: skip
        value = fields.get(name)
        if isinstance(value, str) and len(value) < 100:
            found = code_for_error_name(value)
            # The words outrank a vague code: services report limits and unknown tools under general ones.
            if found == "unavailable" and code_for_error_text(message) == "rate_limited":
                return "rate_limited"
            if found == "invalid_arguments" and code_for_error_text(message, tool) in ("unknown_tool", "rate_limited"):
                return code_for_error_text(message, tool)
            if found is not None:
                return found
        if name == "code" and isinstance(value, int) and value < 0:  # JSON-RPC
            said = code_for_error_text(message, tool)
            return said if said != "error" else code_for_rpc_error(value)
    inner = as_mapping(fields.get("extensions")).get("code")  # GraphQL
    coded = code_for_error_name(inner) if isinstance(inner, str) else None
    return coded or ("invalid_arguments" if fields.get("loc") is not None and fields.get("msg") else None)


def _http_status(fields: Mapping[str, Any]) -> int | None:
    for name in ("status", "statusCode", "status_code", "code", "http_status", "httpCode", "cod"):
        value = fields.get(name)
        if isinstance(value, str) and value.isdigit() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599 and code_for_status(value):
            return value
    return None


def _retry_after(fields: Mapping[str, Any]) -> float | None:
    for name in ("retry_after", "retryAfter", "retry_after_seconds", "retry-after"):
        value = fields.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if isinstance(value, str) and value.strip().isdigit():
            return float(value[:9])
    return None


def is_partial(data: object) -> bool:
    """Check whether a body has results beside errors, or reports that its search was cut short."""
    fields = {name.lower(): value for name, value in as_mapping(data).items()}
    found = any(_has_content(fields.get(name)) for name in ("data", *load_lexicon().found))
    cut = any(fields.get(name) is True for name in ("partial", "timed_out", "incomplete_results"))
    return found and (cut or bool(as_list(fields.get("errors"))))
