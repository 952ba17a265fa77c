"""A thread of a worker's main process that repeats its work until the worker stops, whatever errors it meets."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Final

import structlog

from tellback.errors import TellbackError
from tellback_workers.repeated_lines import RepeatedLines

BACKOFF: Final = 0.5  # seconds after an error

STOP_SECONDS: Final = 3.0  # a round ends sooner, or is left behind


class RepeatingThread(ABC):
    """Calls `repeat` again and again, on a thread of its own."""

    def __init__(
        self,
        name: str,
        logger: structlog.stdlib.BoundLogger,
        failed: str,
        lines: RepeatedLines,
        delay: float = BACKOFF,
    ) -> None:
        """Set up the thread; `failed` is the log's event for an error, `delay` the seconds between two rounds."""
        self._logger = logger
        self._failed = failed
        self._lines = lines
        self._delay = delay
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self.run, name=f"tellback-{name}", daemon=True)

    @abstractmethod
    def repeat(self) -> None:
        """Do one round of work. Any error is logged, and the next round comes soon."""

    def start(self) -> None:
        """Start the thread; while Redis is unavailable it retries."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for it."""
        self._stopping.set()
        self._thread.join(STOP_SECONDS)

    def run(self) -> None:
        """Repeat until the worker stops."""
        while not self._stopping.is_set():
            delay = self._delay
            try:
                self.repeat()
            except TellbackError as trouble:
                if self._lines.is_due(self._failed, str(trouble)):
                    self._logger.warning(self._failed, reason=str(trouble))
                delay = BACKOFF
            except Exception:  # the thread must survive every error of the broker and of Redis
                self._logger.exception(self._failed)
                delay = BACKOFF
            self._stopping.wait(delay)
