"""A host that publishes at a steady pace while a test does harm."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import ClassVar, Self

from tellback import Tellback


class Publishing(ABC):
    """Publishes on a thread until its block ends; everything has been sent then."""

    every: ClassVar[float] = 0.01
    """Seconds between two rounds."""

    def __init__(self, tb: Tellback) -> None:
        self.tb = tb
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.tb.flush()

    @abstractmethod
    def publish(self) -> None:
        """Publish one round."""

    def _run(self) -> None:
        while not self._stop.wait(self.every):
            self.publish()
