"""The one place that reads this machine's clock; elsewhere a lint forbids it.

Deadlines and scores use the Redis server's time (`Database.now`, or TIME inside a script). The clock here serves what
concerns this host alone: durations, file names, back-off.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


def monotonic() -> float:
    """Seconds from an arbitrary start; never steps back."""
    return time.monotonic()


def wall() -> float:
    """Seconds since the epoch by this host's clock, which may step."""
    return time.time()


def utc_now() -> datetime:
    """This host's time, aware, in UTC."""
    from datetime import UTC, datetime  # noqa: PLC0415 - who only measures time starts without it

    return datetime.now(UTC)


def utc_day() -> str:
    """This host's day in UTC, as YYYYMMDD."""
    return time.strftime("%Y%m%d", time.gmtime())


def sleep(seconds: float) -> None:
    """Block this thread."""
    time.sleep(seconds)
