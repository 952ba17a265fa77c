"""The one place that reads this machine's clock; elsewhere a lint forbids it.

Deadlines and scores use the Redis server's time (`Database.now`, or TIME inside a script). The clock here serves what
concerns this host alone: durations, file names, back-off.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


def monotonic() -> float:
    """Seconds from an arbitrary start; never steps back."""
    return time.monotonic()


def wall() -> float:
    """Seconds since the epoch by this host's clock, which may step."""
    return time.time()


def utc_now() -> datetime:
    """This host's time, aware, in UTC."""
    return datetime.now(UTC)


def sleep(seconds: float) -> None:
    """Block this thread."""
    time.sleep(seconds)
