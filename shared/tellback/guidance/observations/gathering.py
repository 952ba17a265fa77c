"""A tool call as a host reports it, made into evidence.

What wraps a result is taken off, texts are bounded and redacted. Whatever is passed, nothing here raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from tellback import clock
from tellback.guidance.observations.evidence import Evidence
from tellback.guidance.observations.http import body_of, headers_of, plain_headers, status_of
from tellback.guidance.observations.shapes import unwrapped
from tellback.guidance.observations.tools import NAME_MAX
from tellback.guidance.observations.values import fields_of, is_dict, params_of, shown, text_of
from tellback.redaction import redact_text

UNNAMED: Final = "(unnamed)"


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
    wrapped, error_failed = unwrapped(error) if is_dict(error) else (error, False)
    if failed or error_failed:
        status = "error" if status in (None, "success") else status
    return Evidence(
        tool=_name(tool),
        params=params_of(params) if params else {},
        result=inner,
        error=wrapped,
        text=shown(inner),
        error_text="" if wrapped is None else shown(wrapped),
        status=status if isinstance(status, str) else None,
        http_status=number if isinstance(number, int) and not isinstance(number, bool) else None,
        headers=plain_headers(more.get("headers") if headers is None else headers),
        metadata=more,
        now=clock.utc_now() if now is None else now,
    )
