"""A tool call as a host reports it, made into evidence.

What wraps a result is taken off, texts are bounded and redacted. Whatever is passed, nothing here raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, cast

import msgspec

from tellback import clock
from tellback.guidance.bounds import cut_params
from tellback.guidance.observations.evidence import Evidence
from tellback.guidance.observations.http import body_of, headers_of, plain_headers, status_of
from tellback.guidance.observations.shapes import unwrapped
from tellback.guidance.observations.tools import NAME_MAX
from tellback.guidance.observations.trimming import readable, trimmed
from tellback.guidance.observations.values import (
    fields_of,
    is_dict,
    is_row,
    json_of,
    represent,
    shown,
    text_of,
)
from tellback.redaction import redact_text, redact_value

UNNAMED: Final = "(unnamed)"
WHOLE: Final = "…"  # the one key of arguments that could not be taken as they are


def _name(tool: object) -> str:
    text = redact_text(text_of(tool)[:NAME_MAX]).strip()[:NAME_MAX]
    return text or UNNAMED


def evidence_of(
    tool: object,
    params: Mapping[str, Any] | None,
    result: object,
    error: object,
    *,
    status: str | None = None,
    http_status: int | None = None,
    headers: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    now: datetime | None = None,
) -> Evidence:
    """The call with what wraps its result taken off; what the wrapper says of failure counts as the host's word."""
    more = fields_of(metadata)
    number: Any = more.get("http_status", more.get("status_code")) if http_status is None else http_status
    response = body_of(result)
    if response is not None:
        number = status_of(result) if number is None else number
        headers = headers_of(result) if headers is None else headers
        result = response
    inner, failed = unwrapped(result)
    error, said = _said(error)
    failed = failed or said
    wrapped, error_failed = unwrapped(error) if is_dict(error) else (error, False)
    if failed or error_failed:
        status = "error" if status in (None, "success") else status
    clean, clean_error = readable(inner), readable(wrapped)
    text, error_text = shown(clean), "" if wrapped is None else shown(clean_error)
    return Evidence(
        tool=_name(tool),
        params=params_of(params) if params else {},
        result=inner,
        error=wrapped,
        text=text,
        error_text=error_text,
        data=_data(clean, text),
        error_data=_data(clean_error, error_text),
        status=status if isinstance(status, str) else None,
        http_status=number if isinstance(number, int) and not isinstance(number, bool) else None,
        headers=plain_headers(more.get("headers") if headers is None else headers),
        metadata=more,
        now=clock.utc_now() if now is None else now,
    )


def _said(error: object) -> tuple[object, bool]:
    """An error without words is none, or a bare flag."""
    if isinstance(error, bool):
        return None, error
    return (None if isinstance(error, str) and not error.strip() else error), False


def params_of(params: object) -> dict[str, Any]:
    """The arguments as JSON values, redacted, then cut so that their JSON has at most 64 KB.

    They may come as the JSON text that a model wrote.
    """
    if isinstance(params, str):
        params = json_of(params) or {WHOLE: params}
    try:
        ordered = trimmed(dict(cast("Any", params)))  # of sets too, whose order differs from process to process
        plain: Any = msgspec.to_builtins(ordered, str_keys=True, enc_hook=represent)
        return cut_params(redact_value(trimmed(plain)))
    except Exception:  # noqa: BLE001 - a user's object may raise anything from its repr
        return cut_params({WHOLE: shown(represent(params))})


def _data(clean: object, text: str) -> object:
    return clean if is_dict(clean) or is_row(clean) else json_of(text)
