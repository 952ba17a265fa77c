"""The wait of a transport for the next answer.

The script that posts an answer to a conversation of which none waits leaves an element in the list `posted` of its
channel and shard, at most one. It ends the wait of one transport, and is kept for the next one if none waits. It has no
content: who misses it finds the answer by polling.
"""

from __future__ import annotations

import math
from typing import Final

from redis import exceptions

from tellback import clock
from tellback.errors import Unavailable
from tellback.state.database import Database
from tellback.state.keys import Layout

# Seconds without waits after one failed: by an access list, a key of another type, or a connection that was closed.
FAILED_BACKOFF: Final = 5.0


class PostedAnswers:
    """The answers of one channel, for one transport."""

    def __init__(self, database: Database, layout: Layout, channel: str) -> None:
        self._db = database
        self._keys = [shard.key("posted", channel) for shard in layout.all]
        self._failed_until = -math.inf

    def wait(self, seconds: float) -> float:
        """Wait until an answer was posted that ended no wait yet, for at most `seconds`; return what is left to sleep.

        That is 0 unless waiting is impossible: on a cluster, where one read cannot wait for several slots, or if the
        server refuses the command or closes the connection. Then the next poll, which connects again, finds out more.

        Raises:
            Unavailable: Redis does not answer.
        """
        if self._db.cluster is not None or clock.monotonic() < self._failed_until:
            return seconds
        try:
            # unconditional: the element only ends a wait; a transport that dies with it costs the others one poll
            self._db.blocking(seconds, "BLPOP", *self._keys)
        except (exceptions.ResponseError, Unavailable) as failure:
            passing = exceptions.ResponseError | exceptions.ConnectionError
            if isinstance(failure, Unavailable) and not isinstance(failure.__cause__, passing):
                raise
            self._failed_until = clock.monotonic() + FAILED_BACKOFF
            return seconds
        return 0.0
