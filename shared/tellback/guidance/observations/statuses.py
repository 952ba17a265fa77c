"""Map HTTP statuses to outcome codes, and read the wait that response headers ask for.

Requirements G-54 and G-53.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from tellback.contracts.guidance import OutcomeCode
from tellback.guidance.observations.evidence import plausible_seconds
from tellback.guidance.observations.values import call_safely

# Exceptions to `code_for_status`, where 5xx is unavailable and 4xx an error.
_STATUSES: Final[Mapping[OutcomeCode, tuple[int, ...]]] = {
    "invalid_arguments": (400, 405, 406, 413, 414, 415, 422, 431),
    "denied": (401, 402, 403, 407, 451),
    "no_results": (404, 410),
    "unavailable": (408, 425),
    # Search sites send 202 in its place (`finding_from_status` lets accepted jobs pass), some APIs 420 or 430, which
    # are not registered, and others 999, which is no status, to clients taken for robots.
    "rate_limited": (202, 420, 429, 430, 999),
    "error": (501, 505),  # unlike other 5xx, waiting does not help
}
_CODES: Final[Mapping[int, OutcomeCode]] = {status: code for code, statuses in _STATUSES.items() for status in statuses}
# Some services put a Unix time into `X-RateLimit-Reset`, others seconds: from 1e9 (31 years) on it is a time.
_EPOCHS: Final = 1e9


def code_for_status(status: int) -> OutcomeCode | None:
    """Return the outcome code of an HTTP status, or None for success and for numbers that are not a status."""
    if status in _CODES:
        return _CODES[status]
    if 500 <= status <= 599:
        return "unavailable"
    return "error" if 400 <= status <= 499 else None


def retry_after_from_headers(headers: Mapping[str, str], now: datetime, otherwise: float | None = None) -> float | None:
    """Return the seconds to wait, rounded up, from `Retry-After` (seconds or an HTTP-date) and similar headers.

    A date is compared with the response's own `Date`, so the clocks of host and server may differ; else with `now`.
    """
    sent_at = _parse_http_date(headers.get("date", "")) or now
    wait = _parse_number(headers.get("retry-after-ms"))
    wait = wait / 1000 if wait is not None else _parse_retry_after(headers.get("retry-after", ""), sent_at)
    for name in ("ratelimit-reset", "x-ratelimit-reset-after", "x-ratelimit-reset"):
        reset = _parse_number(headers.get(name)) if wait is None else None
        if reset is not None:
            wait = reset - sent_at.timestamp() if reset > _EPOCHS else reset
    wait = plausible_seconds(otherwise if wait is None else wait)
    return None if wait is None else float(math.ceil(wait))


def _parse_retry_after(value: str, now: datetime) -> float | None:
    number = _parse_number(value)
    if number is not None:
        return number
    at = _parse_http_date(value)
    return None if at is None else (at - now).total_seconds()


def _parse_number(value: str | None) -> float | None:
    if value is None or len(value) > 32:
        return None
    return call_safely(lambda: plausible_seconds(float(value)) if float(value) < _EPOCHS else float(value), None)


def _parse_http_date(value: str) -> datetime | None:
    if not value or len(value) > 64:
        return None
    parsed = call_safely(lambda: parsedate_to_datetime(value), None)
    return None if parsed is None else (parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed)
