"""Statuses and headers that a host gives, or that errors and responses carry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from tellback.guidance.observations.emptiness import is_empty
from tellback.guidance.observations.evidence import Evidence, Finding
from tellback.guidance.observations.pages import is_challenge
from tellback.guidance.observations.statuses import code_of, wait_of
from tellback.guidance.observations.texts import said_wait
from tellback.guidance.observations.values import attribute, fields_of, is_dict, safely

_LIMIT_WORDS: Final = re.compile(r"rate.?limit|too many requests|throttl|quota|abuse detection", re.IGNORECASE)
_STATUS_NAMES: Final = ("status_code", "status", "code", "http_status", "statusCode")


def by_http(evidence: Evidence) -> Finding | None:
    """The status that the host gives, or that the error or the result carries."""
    given = _of_page(evidence.data) if evidence.http_status is None else evidence.http_status
    for source in (evidence.error, evidence.result):
        status = given if given is not None else status_of(source)
        found = None if status is None else from_status(status, evidence, headers_of(source))
        if found is not None:
            return found
    return None


def _of_page(data: object) -> int | None:
    """The status in a record of a fetched page, as Claude Code's WebFetch gives it."""
    fields = fields_of(data)
    status = fields.get("code") if "codeText" in fields else None
    return status if isinstance(status, int) else None


def from_status(status: int, evidence: Evidence, more: Mapping[str, str] | None = None) -> Finding | None:
    """The finding for a status. A 202 is how search sites say "not now": only with content is it an acceptance."""
    code = code_of(status)
    if code is None or (status == 202 and _accepted(evidence)):
        return None
    headers = {**(more or {}), **evidence.headers}
    message = evidence.message
    if code == "denied" and (
        _LIMIT_WORDS.search(message[:2_000])
        or is_challenge(message)
        or headers.get("x-ratelimit-remaining") == "0"
        or "retry-after" in headers
    ):
        code = "rate_limited"
    spent = code == "rate_limited" and "insufficient_quota" in message
    return Finding(
        code,
        message,
        wait_of(headers, evidence.now, seconds_of(evidence.error) or said_wait(message)),
        retryable=False if spent else None,
    )


def _accepted(evidence: Evidence) -> bool:
    data = evidence.data
    return bool(fields_of(data)) and not is_empty(data)


def seconds_of(error: object) -> float | None:
    """The `retry_after` that an exception carries."""
    wait = attribute(error, "retry_after")
    return float(wait) if isinstance(wait, int | float) and not isinstance(wait, bool) else None


def status_of(source: object) -> int | None:
    """The HTTP status that an exception or a response carries, of any library."""
    if source is None or isinstance(source, str | bytes | int | float | list | tuple):
        return None
    for holder in (attribute(source, "response"), source):
        if holder is None or is_dict(holder):
            continue
        for name in _STATUS_NAMES:
            status = attribute(holder, name)
            if isinstance(status, int) and not isinstance(status, bool) and (100 <= status <= 599 or status == 999):
                return int(status)
    meta = fields_of(fields_of(attribute(source, "response")).get("ResponseMetadata"))  # botocore's ClientError
    status = meta.get("HTTPStatusCode")
    return status if isinstance(status, int) else None


def headers_of(source: object) -> dict[str, str]:
    """The headers that an exception or a response carries, names in small letters."""
    response = attribute(source, "response")
    meta = fields_of(fields_of(response).get("ResponseMetadata")).get("HTTPHeaders")
    for holder in (meta, attribute(response, "headers"), attribute(source, "headers"), attribute(source, "hdrs")):
        found = plain_headers(holder)
        if found:
            return found
    return {}


def plain_headers(headers: object) -> dict[str, str]:
    """Headers of any library as texts, names in small letters; nothing where they cannot be read."""
    if headers is None:
        return {}
    pairs: Any = safely(lambda: list(cast("Any", headers).items()), [])
    return safely(
        lambda: {text(name).lower(): text(value).strip() for name, value in pairs[:200]}, cast("dict[str, str]", {})
    )


def text(value: object) -> str:
    """A header's name or value."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def body_of(response: object) -> object:
    """The body of an HTTP response object that was passed as a result; None for what is no response."""
    status = attribute(response, "status_code")
    if not isinstance(status, int) or attribute(response, "headers") is None:
        return None
    body = attribute(response, "text")
    return body if isinstance(body, str) else attribute(response, "content")
