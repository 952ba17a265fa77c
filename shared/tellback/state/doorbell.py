"""Waiting until a list has something, without asking again and again, and without taking anything from it."""

from __future__ import annotations

import math
import threading
from typing import Final

from redis import exceptions

from tellback import clock
from tellback.errors import Unavailable
from tellback.state.database import Database

WAITING_MAX: Final = 32  # connections of one process that wait: whoever comes above that has to ask by itself
SLICE: Final = 1.0  # seconds of one wait: what rings no bell (a database that was emptied and filled) is seen by then
REST: Final = 5.0  # seconds without a bell where the server refused it: an access list, a full memory


class Doorbell:
    """Waits on connections of a client that is not blocked otherwise; safe across threads."""

    def __init__(self, database: Database) -> None:
        """Take the Redis; its patience bounds how late a reply may be."""
        self._db = database
        self._free = threading.BoundedSemaphore(WAITING_MAX)
        self._resting_until = -math.inf

    def wait(self, key: str, seconds: float) -> bool:
        """Return when the list `key` has something, or after at most `seconds`.

        False at once where there is no waiting here: too many do, or the server refuses it.

        Raises:
            Unavailable: Redis is away, or no reply came within the client's patience beyond `seconds`.
        """
        if clock.monotonic() < self._resting_until or not self._free.acquire(blocking=False):
            return False
        try:
            # Onto itself: the list stays as it is, with its order and lifetime, and all who wait hear of it.
            self._db.blocking(min(seconds, SLICE), "BLMOVE", key, key, "LEFT", "LEFT")
        except (exceptions.ResponseError, Unavailable) as refusal:
            if isinstance(refusal, Unavailable) and not isinstance(refusal.__cause__, exceptions.ResponseError):
                raise
            self._resting_until = clock.monotonic() + REST
            return False
        else:
            return True
        finally:
            self._free.release()
