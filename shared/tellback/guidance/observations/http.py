"""Read HTTP statuses and headers from the host, an exception or a response, and classify calls by them.

Attributes are read by name and nothing is imported, so the exceptions of any HTTP library will do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from tellback.guidance.observations.emptiness import is_empty
from tellback.guidance.observations.evidence import Evidence, Finding
from tellback.guidance.observations.phrases import is_challenge_page
from tellback.guidance.observations.statuses import code_for_status, retry_after_from_headers
from tellback.guidance.observations.texts import retry_after_in
from tellback.guidance.observations.values import as_mapping, call_safely, is_dict, safe_attribute

# Words by which a 401 or 403 is a rate limit after all; "abuse detection" is that of GitHub.
_LIMIT_WORDS: Final = re.compile(r"rate.?limit|too many requests|throttl|quota|abuse detection", re.IGNORECASE)
_STATUS_NAMES: Final = ("status_code", "status", "code", "http_status", "statusCode")


def classify_http_status(evidence: Evidence) -> Finding | None:
    """Classify by the status that the host gives, otherwise by that of the error or the result."""
    given = _page_status(evidence.data) if evidence.http_status is None else evidence.http_status
    for source in (evidence.error, evidence.result):
        status = given if given is not None else http_status_of(source)
        found = None if status is None else finding_from_status(status, evidence, headers_of(source))
        if found is not None:
            return found
    return None


def _page_status(data: object) -> int | None:
    """Return the status in a record of a fetched page, as Claude Code's WebFetch gives it.

    Only beside `codeText`: a bare `code` may be anything, such as an area code.
    """
    fields = as_mapping(data)
    status = fields.get("code") if "codeText" in fields else None
    return status if isinstance(status, int) else None


def finding_from_status(status: int, evidence: Evidence, more: Mapping[str, str] | None = None) -> Finding | None:
    """Return the finding for a status. Search sites use 202 for "not now"; only one with content is an accepted job."""
    code = code_for_status(status)
    if code is None or (status == 202 and _is_accepted(evidence)):
        return None
    headers = {**(more or {}), **evidence.headers}
    message = evidence.message
    # GitHub, for one, answers 403 at its limit; a refusal that says when to come back is a limit too.
    if code == "denied" and (
        _LIMIT_WORDS.search(message[:2_000])
        or is_challenge_page(message)
        or headers.get("x-ratelimit-remaining") == "0"
        or "retry-after" in headers
    ):
        code = "rate_limited"
    spent = code == "rate_limited" and "insufficient_quota" in message  # OpenAI: no wait refills it
    return Finding(
        code,
        message,
        retry_after_from_headers(headers, evidence.now, retry_after_of(evidence.error) or retry_after_in(message)),
        retryable=False if spent else None,
    )


def _is_accepted(evidence: Evidence) -> bool:
    data = evidence.data
    return bool(as_mapping(data)) and not is_empty(data)


def retry_after_of(error: object) -> float | None:
    """Return an exception's `retry_after` in seconds, if it has one."""
    wait = safe_attribute(error, "retry_after")
    return float(wait) if isinstance(wait, int | float) and not isinstance(wait, bool) else None


def http_status_of(source: object) -> int | None:
    """Return the HTTP status of an exception or a response of any library."""
    if source is None or isinstance(source, str | bytes | int | float | list | tuple):
        return None
    for holder in (safe_attribute(source, "response"), source):
        if holder is None or is_dict(holder):
            continue
        for name in _STATUS_NAMES:
            status = safe_attribute(holder, name)
            if isinstance(status, int) and not isinstance(status, bool) and (100 <= status <= 599 or status == 999):
                return int(status)
    meta = as_mapping(as_mapping(safe_attribute(source, "response")).get("ResponseMetadata"))  # botocore's ClientError
    status = meta.get("HTTPStatusCode")
    return status if isinstance(status, int) else None


def headers_of(source: object) -> dict[str, str]:
    """Return the headers of an exception or a response, names in lower case."""
    response = safe_attribute(source, "response")
    meta = as_mapping(as_mapping(response).get("ResponseMetadata")).get("HTTPHeaders")
    places = (response, "headers"), (source, "headers"), (source, "hdrs")
    for holder in (meta, *(safe_attribute(place, name) for place, name in places)):
        if found := plain_headers(holder):
            return found
    return {}


def plain_headers(headers: object) -> dict[str, str]:
    """Return headers of any library as texts, names in lower case; empty if they cannot be read."""
    if headers is None:
        return {}
    pairs: Any = call_safely(lambda: list(cast("Any", headers).items()), [])
    return call_safely(
        lambda: {header_text(name).lower(): header_text(value).strip() for name, value in pairs[:200]},
        cast("dict[str, str]", {}),
    )


def header_text(value: object) -> str:
    """Return a header's name or value as text; bytes are Latin-1, as in HTTP."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def response_body(response: object) -> object:
    """Return the body of a result that is an HTTP response object, or None."""
    status = safe_attribute(response, "status_code")
    if not isinstance(status, int) or safe_attribute(response, "headers") is None:
        return None
    body = safe_attribute(response, "text")
    return body if isinstance(body, str) else safe_attribute(response, "content")
