"""The only module that reads this machine's clock; a lint forbids it elsewhere.

Deadlines and scores use the Redis server's time (`Database.now`, or TIME inside a script), since the clocks of hosts
differ. Use this clock only for matters of one host: durations, file names, backoff.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

_LAST_MS: Final = 253_402_300_799_000  # the last second of 9999; somebody may have changed a stored time by hand


def monotonic() -> float:
    """Return seconds from an arbitrary start; never steps back."""
    return time.monotonic()


def since_boot() -> float:
    """Return seconds since this host was started; never steps, and on Linux includes the time that it was suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Return an id of the clock of `since_boot`, the same for all processes that read the same clock.

    The boot id alone is not enough: a container can have a time namespace of its own under its host's boot id.
    """
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id") as boot:
        return f"{boot.read().strip()}.{os.stat('/proc/self/ns/time').st_ino}"
    return os.urandom(8).hex()  # not Linux: only a process and its forked children share the id


def process_start(pid: int) -> str:
    """Return when a process started, in ticks since boot; "" if it is gone, or if the system does not say it.

    The kernel reuses process ids, but not together with the start time. psutil gives it by the wall clock: after a step
    of that, a living process would seem to be another one.
    """
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as stat:
        return stat.read().rpartition(b")")[2].split()[19].decode()
    return ""


def wall() -> float:
    """Return seconds since the epoch by this host's clock, which may step."""
    return time.time()


def utc_now() -> datetime:
    """Return this host's time as an aware datetime in UTC."""
    from datetime import UTC, datetime  # noqa: PLC0415 - who only measures time starts without it

    return datetime.now(UTC)


def utc_time(at_ms: int) -> datetime:
    """Return a stored time as an aware datetime in UTC; one before 1970 or after 9999 as the nearest within them."""
    from datetime import UTC, datetime  # noqa: PLC0415 - as above

    return datetime.fromtimestamp(min(max(0, at_ms), _LAST_MS) / 1000, UTC)


def utc_day(day: int) -> str:
    """Return a day in UTC, given in days since the epoch, as YYYYMMDD."""
    return time.strftime("%Y%m%d", time.gmtime(day * 86_400))


def sleep(seconds: float) -> None:
    """Block this thread for `seconds`."""
    time.sleep(seconds)
