"""Build the evidence of a tool call: unwrap its result, then bound and redact its texts. Nothing here raises.

These wrappers of results and failures are known. MCP: `CallToolResult` with `isError`, also within its JSON-RPC reply.
Anthropic: `{"type": "tool_result", "is_error": true}`, and the results of tools that its servers run. OpenAI: tool
messages and `function_call_output`. Gemini: `{"output": ...}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, TypedDict, Unpack, cast

import msgspec

from tellback import clock
from tellback.contracts.limits import MAX_NAME_CHARS
from tellback.guidance.measures import truncate_params
from tellback.guidance.observations.evidence import Evidence
from tellback.guidance.observations.http import headers_of, http_status_of, plain_headers, response_body
from tellback.guidance.observations.values import (
    as_list,
    as_mapping,
    display_text,
    is_dict,
    is_list,
    is_mapping,
    is_sequence,
    parse_json,
    plain_or_repr,
    readable_text,
    safe_attribute,
    stable_repr,
    trim_and_redact,
    trim_value,
    value_text,
)
from tellback.redaction import redact_text, redact_value
from tellback.truncation import WHOLE_KEY

_FLAGS: Final = ("isError", "is_error")
# A record with any other field is a tool's own data that happens to have `content`.
_MCP: Final = frozenset({"content", "structuredContent", "_meta"})


def unwrap_result(value: object) -> tuple[object, bool]:
    """Return what a protocol's wrapper holds and if it reports failure; other values come back as they are."""
    if is_mapping(value):
        return _unwrap_fields(value, as_mapping(value))
    if isinstance(value, str):
        data = parse_json(value)
        return (
            (_content_value(data, None), False) if _is_content_list(data) else _unwrap_fields(value, as_mapping(data))
        )
    content = safe_attribute(value, "content")
    if (
        not isinstance(value, str | BaseException)
        and _has_error_flag(value)
        and (is_list(content) or isinstance(content, str))
    ):
        flag = any(safe_attribute(value, name) is True for name in _FLAGS)
        return _content_value(content, safe_attribute(value, "structuredContent")), flag
    return (_content_value(value, None), False) if _is_content_list(value) else (value, False)


def _unwrap_fields(value: object, fields: Mapping[str, Any]) -> tuple[object, bool]:
    if "jsonrpc" in fields and is_dict(fields.get("result")):
        return _unwrap_fields(fields["result"], fields["result"])
    kind = value_text(fields.get("type"))
    flag = any(fields.get(name) is True for name in _FLAGS)
    wraps = any(name in fields for name in _FLAGS) or kind == "tool_result" or fields.get("role") == "tool"
    wraps = wraps or (fields.keys() <= _MCP and _is_content_list(fields.get("content")))
    if kind.endswith("_tool_result") and "content" in fields:  # of a tool that Anthropic's servers run
        said = as_mapping(fields["content"])
        return fields["content"], str(said.get("type", "")).endswith("_error") and "error_code" in said
    if len(fields) == 1 and isinstance(answer := fields.get("output"), str):  # Gemini's `FunctionResponse`
        return answer, False
    if kind.endswith("_call_output") and "output" in fields:  # of OpenAI's Responses
        output = fields["output"]
        return (_content_value(output, None) if _is_content_list(output) else output), False
    if wraps and "content" in fields:
        return _content_value(fields["content"], fields.get("structuredContent")), flag
    return value, wraps and flag


def _has_error_flag(value: object) -> bool:
    return any(isinstance(safe_attribute(value, name), bool) for name in _FLAGS)


def _is_content_list(value: object) -> bool:
    """Check for a list of text parts; an item with more than four fields is a record of the tool's own."""
    items = as_list(value)
    return bool(items) and all(
        as_mapping(item).get("type") == "text" and isinstance(as_mapping(item).get("text"), str) and len(item) <= 4
        for item in items
    )


def _content_value(content: object, structured: object) -> object:
    parts = [_part_text(part) for part in as_list(content)] if is_sequence(content) else [value_text(content)]
    text = "\n".join(part for part in parts if part)
    return structured if not text and structured is not None else text


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    text = as_mapping(part).get("text", safe_attribute(part, "text"))
    if isinstance(text, str):
        return text
    kind = as_mapping(part).get("type", safe_attribute(part, "type"))
    return f"[{kind}]" if isinstance(kind, str) else ""


UNNAMED: Final = "(unnamed)"


def _tool_name(tool: object) -> str:
    text = redact_text(value_text(tool)[:MAX_NAME_CHARS]).strip()[:MAX_NAME_CHARS]
    return text or UNNAMED


class HostReport(TypedDict, total=False):
    """A host's report of a call beside its result or error; HTTP-dates are compared with `now`."""

    status: str | None
    http_status: int | None
    headers: Mapping[str, Any] | None
    metadata: Mapping[str, Any] | None
    now: datetime | None


def build_evidence(
    tool: object, params: Mapping[str, Any] | None, result: object, error: object, **report: Unpack[HostReport]
) -> Evidence:
    """Build the evidence of a call; a failure that a wrapper reports counts as the host's own report."""
    try:
        return _read_call(tool, params, result, error, report)
    except Exception:  # noqa: BLE001 - of a foreign object that lets nobody ask for its class, its text or its length
        status = report.get("status")
        plain = HostReport(status=status if type(status) is str else None, now=report.get("now"))
        return _read_call(readable_text(tool), None, _plain_or_text(result), _plain_or_text(error), plain)


def _plain_or_text(value: object) -> object:
    return value if type(value) in (bool, type(None)) else readable_text(value)


def _read_call(
    tool: object, params: Mapping[str, Any] | None, result: object, error: object, report: HostReport
) -> Evidence:
    status, headers, now = report.get("status"), report.get("headers"), report.get("now")
    more = as_mapping(report.get("metadata"))
    number: Any = report.get("http_status")
    number = more.get("http_status", more.get("status_code")) if number is None else number
    response = response_body(result)
    if response is not None:
        number = http_status_of(result) if number is None else number
        headers = headers_of(result) if headers is None else headers
        result = response
    inner, failed = unwrap_result(result)
    error, said = _normalize_error(error)
    failed = failed or said
    wrapped, error_failed = unwrap_result(error) if is_dict(error) else (error, False)
    if failed or error_failed:
        status = "error" if status in (None, "success") else status
    clean, clean_error = trim_and_redact(inner), trim_and_redact(wrapped)
    text, error_text = display_text(clean), "" if wrapped is None else display_text(clean_error)
    return Evidence(
        tool=_tool_name(tool),
        params={} if params is None else bounded_params(params),
        result=inner,
        error=wrapped,
        text=text,
        error_text=error_text,
        data=_parsed_data(clean, text),
        error_data=_parsed_data(clean_error, error_text),
        status=str.__str__(status) if isinstance(status, str) else None,
        http_status=number if isinstance(number, int) and not isinstance(number, bool) else None,
        headers=plain_headers(more.get("headers") if headers is None else headers),
        metadata=more,
        now=clock.utc_now() if now is None else now,
    )


def _normalize_error(error: object) -> tuple[object, bool]:
    """Drop an error without words: hosts pass `error=""` or `error=False` for success, True as a bare flag."""
    if isinstance(error, bool):
        return None, error
    return (None if isinstance(error, str) and not error.strip() else error), False


def bounded_params(params: object) -> dict[str, Any]:
    """Convert arguments to JSON values, redact them, and truncate their JSON to 64 KiB.

    They may also be the JSON text that a model wrote, complete or not.
    """
    if isinstance(params, str):
        params = parse_json(params) or {WHOLE_KEY: params}
    try:
        ordered = trim_value(dict(cast("Any", params)))  # also orders sets: their order differs between processes
        plain: Any = msgspec.to_builtins(ordered, str_keys=True, enc_hook=plain_or_repr)
        return truncate_params(redact_value(trim_value(plain)))
    except Exception:  # noqa: BLE001 - a user's object may raise anything from its repr
        return truncate_params({WHOLE_KEY: display_text(stable_repr(params))})


def _parsed_data(clean: object, text: str) -> object:
    return clean if is_dict(clean) or is_sequence(clean) else parse_json(text)
