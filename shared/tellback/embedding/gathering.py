"""One call of the model for all who wait: threads of this process that need embeddings are served together.

A call for one text costs nearly what a call for ten does. So a text waits a few milliseconds for company, and while the
model computes, what comes from other streams, banks and teams gathers for the next call. Nobody needs another's lease
for that: who waits keeps his own.

ask ── texts that nobody has asked for ──▶ gathered ── one call ──▶ rows, or why a text has none ──▶ all who asked
"""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tellback import clock
from tellback.embedding.encoder import RETRY_SECONDS, Encoder
from tellback.errors import Unavailable
from tellback.log import get_logger
from tellback.signals.matching import Vectors

GATHERED: Final = 512  # texts of one call: 3 to 5 seconds on two cores
GATHERED_SHORT: Final = 64  # while somebody recalls, who would wait for the call before his own
RECALLING: Final = 60.0  # seconds after the last recall
GATHERED_CHARACTERS: Final = 160_000  # of one call: long texts take the model longer, up to what it reads
READ_CHARACTERS: Final = 1_500  # a model reads no more of a text than this, or little
IDLE_SECONDS: Final = 10.0  # after which the thread ends; it begins anew when needed
KEEP_SECONDS: Final = 0.5
LONGEST: Final = 300.0  # seconds for which somebody waits: a model that hangs must not hold a lease for ever
PROBE: Final = "Does the model work?"

Row = Vectors | Exception
"""A text's vector, or why it has none."""

_log = get_logger("tellback.gathering")


class _Asked:
    """What one thread waits for."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = tuple(dict.fromkeys(texts))
        self.found: dict[str, Row] = {}
        self.done = threading.Event()

    def take(self, text: str, row: Row) -> None:
        self.found[text] = row
        if len(self.found) == len(self.texts):
            self.done.set()


class Gathering:
    """The calls of one model in this process. Safe across threads."""

    def __init__(self, encoder: Encoder, *, linger: float) -> None:
        """Take the model, and the seconds that a text waits for company."""
        self._encoder = encoder
        self._linger = linger
        self._guard = threading.Condition()
        self._urgent: dict[str, list[_Asked]] = {}
        self._wanted: dict[str, list[_Asked]] = {}
        self._alone: deque[_Asked] = deque()
        self._urgent_at = -math.inf
        self._thread: threading.Thread | None = None
        self._failure = ""
        self._failed_at = 0.0

    def ready(self) -> None:
        """Load the model if need be.

        Raises:
            Unavailable: it does not load, or has lately failed at any text; half a minute later it is tried again.
        """
        self._encoder.load()
        if self._failure and clock.monotonic() - self._failed_at <= RETRY_SECONDS:
            raise Unavailable(self._failure)

    def ask(
        self,
        texts: Sequence[str],
        *,
        alone: bool = False,
        urgent: bool = False,
        keep: Callable[[], None] | None = None,
    ) -> dict[str, Row]:
        """A row for each text, or why it has none: one text that the model fails at costs no other its row.

        Args:
            texts: what nobody has a vector of.
            alone: have them in a call of their own, since one of them may end the process.
            urgent: have them in the next call, whoever waits; while such texts come, calls are short.
            keep: called twice a second while this waits; what it raises ends the waiting.

        Raises:
            Unavailable: the model does not load, or fails at any text.
        """
        if not texts:
            return {}
        asked = _Asked(texts)
        with self._guard:
            if urgent:
                self._urgent_at = clock.monotonic()
            if alone:
                self._alone.append(asked)
            else:
                for text in asked.texts:
                    (self._urgent if urgent else self._wanted).setdefault(text, []).append(asked)
            self._begin()
            self._guard.notify()
        end = clock.monotonic() + LONGEST
        while not asked.done.wait(KEEP_SECONDS):
            if clock.monotonic() > end:
                raise Unavailable(f"the embedding model {self._encoder.model} has not answered for {LONGEST:g} s")
            if keep is not None:
                keep()
        away = next((row for row in asked.found.values() if isinstance(row, Unavailable)), None)
        if away is not None:
            raise away
        return asked.found

    def _begin(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="tellback-encoder", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (call := self._next()) is not None:
            texts, askers = call
            for text, row in self._rows(texts).items():
                for asked in askers[text]:
                    asked.take(text, row)

    def _next(self) -> tuple[list[str], dict[str, list[_Asked]]] | None:
        """The texts of the next call with those who asked; None after a while without any."""
        with self._guard:
            if not self._guard.wait_for(self._waits, IDLE_SECONDS):
                self._thread = None
                return None
            if self._alone:
                asked = self._alone.popleft()
                return list(asked.texts), {text: [asked] for text in asked.texts}
            self._guard.wait_for(self._full, self._linger)
            texts = self._take()
            return texts, {text: [*self._urgent.pop(text, ()), *self._wanted.pop(text, ())] for text in texts}

    def _waits(self) -> bool:
        return bool(self._alone or self._urgent or self._wanted)

    def _full(self) -> bool:
        return len(self._urgent) + len(self._wanted) >= GATHERED

    def _take(self) -> list[str]:
        """What is urgent, then those who wait longest; as many as one call may have."""
        most, room = GATHERED, GATHERED_CHARACTERS
        if clock.monotonic() - self._urgent_at < RECALLING:
            most, room = GATHERED_SHORT, GATHERED_CHARACTERS * GATHERED_SHORT // GATHERED
        texts: list[str] = []
        for text in dict.fromkeys((*self._urgent, *self._wanted)):
            room -= min(len(text), READ_CHARACTERS)
            if texts and (room < 0 or len(texts) == most):
                break
            texts.append(text)
        return texts

    def _rows(self, texts: list[str]) -> dict[str, Row]:
        try:
            rows = self._found(texts)
        except Unavailable as away:
            return dict.fromkeys(texts, away)
        self._failure = ""
        return rows

    def _found(self, texts: list[str]) -> dict[str, Row]:
        """A row for each text; where a call fails, its halves are tried, down to the text that it fails at."""
        try:
            return dict(zip(texts, self._encode(texts), strict=True))
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a model raises at a text
            if len(texts) == 1:
                self._probe(error)
                _log.warning("encoder.text_failed", characters=len(texts[0]), reason=type(error).__name__)
                return {texts[0]: error}
        half = len(texts) // 2
        return self._found(texts[:half]) | self._found(texts[half:])

    def _encode(self, texts: list[str]) -> Vectors:
        rows = self._encoder.encode(texts)
        if rows.shape != (len(texts), self._encoder.dimension) or not np.isfinite(rows).all():
            raise ValueError(f"the model gives {len(texts)} texts rows of shape {rows.shape}, not all of them finite")
        return rows

    def _probe(self, cause: Exception) -> None:
        """Return if the model works: then it is the text.

        Raises:
            Unavailable: it fails at a plain text too.
        """
        try:
            self._encode([PROBE])
        except Exception as error:  # noqa: BLE001 - as above
            self._failure = f"the embedding model {self._encoder.model} fails: {type(error).__name__}: {error}"
            self._failed_at = clock.monotonic()
            _log.exception("encoder.fails", model=self._encoder.model)
            raise Unavailable(self._failure) from cause


_gatherings: dict[Encoder, Gathering] = {}
_guard = threading.Lock()


def gathering_of(encoder: Encoder, linger: float) -> Gathering:
    """This process's calls of a model: one for all teams, banks and loops."""
    with _guard:
        return _gatherings.setdefault(encoder, Gathering(encoder, linger=linger))


os.register_at_fork(after_in_child=_gatherings.clear)  # its thread is the parent's
