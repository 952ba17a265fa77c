"""Log lines about trouble that lasts, each once a minute: a worker that waits for Redis tries again twice a second."""

from __future__ import annotations

from typing import Final

from cachetools import TTLCache

from tellback import clock
from tellback.forks import HasLock

SAY_AGAIN_SECONDS: Final = 60.0  # between two log lines that say the same


class RepeatedLines(HasLock):
    """The lines that were written in the last minute. Safe across threads and forks."""

    def __init__(self) -> None:
        super().__init__()
        self._said: TTLCache[tuple[str, str], None] = TTLCache(1_000, SAY_AGAIN_SECONDS, clock.monotonic)

    def is_due(self, event: str, about: str) -> bool:
        """Check whether to write a line of this event about this; if so, it counts as written."""
        with self._lock:
            if (event, about) in self._said:
                return False
            self._said[event, about] = None
            return True
