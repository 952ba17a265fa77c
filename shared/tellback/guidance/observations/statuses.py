"""What HTTP statuses mean to a tool call, and how long their headers ask to wait.

Source: actionable-feedback, "ERROR - Rate Limited", "ERROR - Service Unavailable".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from tellback.contracts.guidance import Code
from tellback.guidance.observations.evidence import seconds
from tellback.guidance.observations.values import safely

_CODES: Final[Mapping[int, Code]] = {
    202: "rate_limited",
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
    420: "rate_limited",
    422: "invalid_arguments",
    425: "unavailable",
    429: "rate_limited",
    430: "rate_limited",
    431: "invalid_arguments",
    451: "denied",
    501: "error",
    505: "error",
    999: "rate_limited",
}
_EPOCHS: Final = 1e9  # a number above it is a time, not a time to wait


def code_of(status: int) -> Code | None:
    """What an HTTP status means to a tool call; None for success and what is no status."""
    if status in _CODES:
        return _CODES[status]
    if 500 <= status <= 599:
        return "unavailable"
    return "error" if 400 <= status <= 499 else None


def wait_of(headers: Mapping[str, str], now: datetime, otherwise: float | None = None) -> float | None:
    """Seconds to wait by `Retry-After` (seconds or an HTTP-date) and its relatives; rounded up.

    A date is compared with the response's own `Date`, else with `now`.
    """
    moment = _date(headers.get("date", "")) or now
    wait = _number(headers.get("retry-after-ms"))
    wait = wait / 1000 if wait is not None else _after(headers.get("retry-after", ""), moment)
    for name in ("ratelimit-reset", "x-ratelimit-reset-after", "x-ratelimit-reset"):
        reset = _number(headers.get(name)) if wait is None else None
        if reset is not None:
            wait = reset - moment.timestamp() if reset > _EPOCHS else reset
    wait = seconds(otherwise if wait is None else wait)
    return None if wait is None else float(math.ceil(wait))


def _after(value: str, now: datetime) -> float | None:
    number = _number(value)
    if number is not None:
        return number
    at = _date(value)
    return None if at is None else (at - now).total_seconds()


def _number(value: str | None) -> float | None:
    if value is None or len(value) > 32:
        return None
    return safely(lambda: seconds(float(value)) if float(value) < _EPOCHS else float(value), None)


def _date(value: str) -> datetime | None:
    if not value or len(value) > 64:
        return None
    parsed = safely(lambda: parsedate_to_datetime(value), None)
    return None if parsed is None else (parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed)
