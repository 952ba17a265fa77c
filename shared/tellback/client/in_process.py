"""Recalls answered in the host's own process, where it has the model: nothing travels, and no worker is needed."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from tellback.contracts.signals import RecallReply, RecallRequested
from tellback.errors import ConfigurationError
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout

if TYPE_CHECKING:
    from tellback.embedding.answering import Answering


class InProcess:
    """The model of this process and what it knows of banks, for all banks of one client; loaded on first use."""

    def __init__(self, settings: Settings, database: Database, layout: Layout) -> None:
        """Take the settings, the Redis and the team's shards."""
        self._settings = settings
        self._db = database
        self._layout = layout
        self._answering: Answering | None = None
        self._pid = 0
        self._guard = threading.Lock()

    def answer(self, request: RecallRequested) -> RecallReply:
        """The hits, or why there are none; the first call loads the model.

        Raises:
            ConfigurationError: this host lacks what the model needs.
            Unavailable: the model does not load, or Redis is away.
        """
        answering = self._found()
        answering.contexts.embedder.ready()
        shard = self._layout.of(request.bank)
        vectors, failures = answering.contexts.embedder.embed_each([request.query], shard, urgent=True)
        for failure in failures.values():
            return answering.without(shard, request, failure)
        return answering.reply(shard, request, vectors[request.query])

    def _found(self) -> Answering:
        if self._pid != os.getpid():  # the threads of a loaded model do not survive a fork, and its locks may be held
            self._guard = threading.Lock()
            self._answering = None
            self._pid = os.getpid()
        with self._guard:
            if self._answering is None:
                self._answering = self._made()
            return self._answering

    def _made(self) -> Answering:
        try:
            from tellback.embedding.answering import Answering  # noqa: PLC0415 - numpy is not of the base install
            from tellback.embedding.contexts import Contexts  # noqa: PLC0415 - as above
            from tellback.embedding.encoder import encoder_for  # noqa: PLC0415 - as above
        except ImportError as error:
            raise ConfigurationError(
                f"TELLBACK_RECALL_IN_PROCESS is set, and this host lacks {error.name}: install tellback[workers], or "
                "let workers answer"
            ) from error
        return Answering(Contexts(self._settings, self._db, self._layout, encoder_for(self._settings)))
