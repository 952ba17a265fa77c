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
_CODES: Final[Mapping[int, OutcomeCode]] = {
    202: "rate_limited",  # search sites send it in place of 429; `finding_from_status` lets accepted jobs pass
    400: "invalid_arguments",
    401: "denied",
    402: "denied",
    403: "denied",
    404: "no_results",
    405: "invalid_arguments",
    406: "invalid_arguments",
    407: "denied",
    408: "unavailable",
    410: "no_results",
    413: "invalid_arguments",
    414: "invalid_arguments",
    415: "invalid_arguments",
    420: "rate_limited",  # unregistered, sent in place of 429 by some APIs
    422: "invalid_arguments",
    425: "unavailable",
    429: "rate_limited",
    430: "rate_limited",  # likewise
    431: "invalid_arguments",
    451: "denied",
    501: "error",  # not implemented: unlike other 5xx, waiting does not help
    505: "error",
    999: "rate_limited",  # invalid as a status, sent to clients taken for robots
}
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
