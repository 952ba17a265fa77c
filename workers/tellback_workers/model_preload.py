"""The load of the embedding model at a worker's start, so that no first signal or recall waits for it.

It takes half a minute on a busy machine, and longer than the deadline of a recall almost anywhere. Requirement A-129.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal

from tellback.embedding.encoder import encoder_for
from tellback.errors import Unavailable
from tellback.settings import Settings


class ModelPreload:
    """Loads the model in a thread of its own; tasks that need the model wait for the same load."""

    def __init__(self, settings: Settings, *, wanted: bool) -> None:
        self._settings = settings
        self.state: Literal["", "loading", "loaded", "failed"] = "loading" if wanted else ""

    def start(self, *, then: Callable[[], None]) -> None:
        """Begin, if it is wanted, and call `then` when the state has changed."""
        if self.state:
            threading.Thread(target=self._load, args=(then,), name="tellback-model-preload", daemon=True).start()

    def _load(self, then: Callable[[], None]) -> None:
        try:
            encoder_for(self._settings).load()
        except Unavailable:  # logged there; the first signal or recall tries again
            self.state = "failed"
        else:
            self.state = "loaded"
        then()
