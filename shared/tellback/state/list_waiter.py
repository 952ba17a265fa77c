"""Wait until a list has an element, without polling and without removing it.

Each wait blocks a connection, so their number is bounded. A caller that gets False has to poll.
"""

from __future__ import annotations

import math
import threading
from typing import Final

from redis import exceptions

from tellback import clock
from tellback.errors import Unavailable
from tellback.forks import run_in_child
from tellback.state.database import Database

MAX_WAITERS: Final = 32  # waiting connections of one process; further callers have to poll
WAIT_SLICE: Final = (
    1.0  # seconds of one wait: a change without a notification (a database emptied and filled) is seen by then
)
REFUSED_BACKOFF: Final = 5.0  # seconds without waits after the server refused one: an access list, or full memory


class ListWaiter:
    """Waits on a client's connections; its call deadline bounds how late a reply may be. Safe across threads."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._unlock()
        run_in_child(self._unlock)
        self._refused_until = -math.inf

    def _unlock(self) -> None:
        self._slots = threading.BoundedSemaphore(MAX_WAITERS)

    def wait(self, key: str, seconds: float) -> bool:
        """Wait until the list `key` has an element, at most `seconds`; return False at once if waiting is impossible.

        It is if too many callers wait already or the server refuses the command.

        Raises:
            Unavailable: Redis is away, or no reply came within the client's call deadline beyond `seconds`.
        """
        if clock.monotonic() < self._refused_until or not self._slots.acquire(blocking=False):
            return False
        try:
            # Moved onto itself, the list keeps its order and lifetime, and the move wakes every other waiter.
            self._db.blocking(min(seconds, WAIT_SLICE), "BLMOVE", key, key, "LEFT", "LEFT")
        except (exceptions.ResponseError, Unavailable) as refusal:
            if isinstance(refusal, Unavailable) and not isinstance(refusal.__cause__, exceptions.ResponseError):
                raise
            self._refused_until = clock.monotonic() + REFUSED_BACKOFF
            return False
        else:
            return True
        finally:
            self._slots.release()
