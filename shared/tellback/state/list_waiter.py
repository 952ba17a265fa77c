"""Wait until a list has an element, without polling and without removing it, and run a script then.

Each wait blocks a connection, so their number is bounded. A caller that gets None has to poll.
"""

from __future__ import annotations

import math
from typing import Any, Final

from redis import exceptions

from tellback import clock
from tellback.errors import Unavailable
from tellback.forks import run_in_child
from tellback.state.database import Database
from tellback.state.script_calls import FirstCall, ScriptCall

MAX_WAITERS: Final = 32  # waiting connections of one process; further callers have to poll
WAIT_SLICE: Final = 1.0  # seconds of one wait, which then sees changes without a notification: a database refilled
REFUSED_BACKOFF: Final = 5.0  # seconds without waits after the server refused one: an access list, or full memory


class ListWaiter:
    """Waits on a client's connections; its call deadline bounds how late a reply may be. Safe across threads."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._forget_waits()
        run_in_child(self._forget_waits)
        self._refused_until = -math.inf

    def _forget_waits(self) -> None:
        # No semaphore: Ctrl-C within it would leave its lock held, and every later wait would hang.
        self._waits: set[object] = set()

    def run_when_filled(self, key: str, seconds: float, call: ScriptCall, first: FirstCall | None = None) -> Any:
        """Wait until the list `key` has an element, at most `seconds`; then run a decision, and return its reply.

        `first` is sent before, in the same round trip; in one of its own if waiting is impossible.

        Returns None at once if waiting is impossible: too many callers wait already, or the server refuses the command.
        The decision may have run then, as if an error is raised: repeat it with its operation id.

        Raises:
            Unavailable: Redis is away, or no reply came within the client's call deadline beyond `seconds`.
        """
        wait = object()
        try:
            self._waits.add(wait)
            if clock.monotonic() < self._refused_until or len(self._waits) > MAX_WAITERS:
                if first is not None:
                    first.answered(self._db.run_each([first.call])[0])
                return None
            # unconditional: moved onto itself, the list keeps its order and lifetime, and the move wakes other waiters
            return self._db.blocking(
                min(seconds, WAIT_SLICE), "BLMOVE", key, key, "LEFT", "LEFT", then=call, first=first
            )
        except (exceptions.ResponseError, Unavailable) as refusal:
            if isinstance(refusal, Unavailable) and not isinstance(refusal.__cause__, exceptions.ResponseError):
                raise
            self._refused_until = clock.monotonic() + REFUSED_BACKOFF
            return None
        finally:
            self._waits.discard(wait)
