"""Embeddings by text: from this process's cache, otherwise from Redis, otherwise from the model.

Queries repeat, and a lookup is far cheaper than a call of the model. `ModelSimilarity` is the same model as a function
of texts, for the `similarity` of `tellback.detect_signals`.

One call of the model serves all threads of this process that wait for one, since a call for one text costs nearly as
much as a call for ten. So a text waits a few milliseconds for others, and texts of other streams, banks and teams
collect for the next call while the model computes. Each waiting thread keeps its own lease by its `keep`.

encode ── texts not yet requested ──▶ batch ── one call ──▶ a row or an error per text ──▶ every requesting thread
"""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import numpy as np
from cachetools import LRUCache

from tellback import clock
from tellback.embedding.encoder import RETRY_SECONDS, Encoder, encoder_for
from tellback.errors import Unavailable
from tellback.log import get_logger
from tellback.settings import Settings, load
from tellback.signals.matching import Vectors, as_bytes, as_vectors
from tellback.state.database import Database
from tellback.state.embeddings import EmbeddingCache
from tellback.state.keys import Shard
from tellback.state.unavailable import RedisFull

MAX_CACHED: Final = 10_000  # 15 MB at 384 dimensions
STORE_BATCH: Final = 512  # embeddings of one Redis call: 800 KB
MAX_BATCH: Final = 512  # texts of one call: 3 to 5 seconds on two cores
MAX_SHORT_BATCH: Final = 64  # texts while recalls come: a recall has to wait for the call that is under way
SHORT_CALLS_SECONDS: Final = 60.0  # seconds after the last recall in which calls stay short
MAX_BATCH_CHARACTERS: Final = 160_000  # of one call: the model's time grows with a text's length
READ_CHARACTERS: Final = 1_500  # counted of one text; a model reads hardly more (256 word pieces for MiniLM)
IDLE_SECONDS: Final = 10.0  # after which the thread ends; the next request starts it again
KEEP_SECONDS: Final = 0.5
MAX_ENCODE_WAIT: Final = 300.0  # longest wait in seconds: a model that hangs must not hold a lease forever
PROBE: Final = "Does the model work?"

Row = Vectors | Exception
"""A text's vector, or the error why it has none."""

_logger = get_logger("tellback.gathering")


class _EmbeddingRequest:
    """The texts that one thread waits for."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = tuple(dict.fromkeys(texts))
        self.found: dict[str, Row] = {}
        self.done = threading.Event()

    def set_row(self, text: str, row: Row) -> None:
        self.found[text] = row
        if len(self.found) == len(self.texts):
            self.done.set()


class BatchedEncoder:
    """A model whose calls are batched across threads. `delay` is the seconds that a text waits for others."""

    def __init__(self, encoder: Encoder, *, delay: float) -> None:
        self._encoder = encoder
        self._delay = delay
        self._guard = threading.Condition()
        self._urgent: dict[str, list[_EmbeddingRequest]] = {}
        self._wanted: dict[str, list[_EmbeddingRequest]] = {}
        self._alone: deque[_EmbeddingRequest] = deque()
        self._urgent_at = -math.inf
        self._thread: threading.Thread | None = None
        self._failure = ""
        self._failed_at = 0.0

    def ready(self) -> None:
        """Load the model unless it is loaded.

        Raises:
            Unavailable: it does not load, or it failed at every text within the last half minute.
        """
        self._encoder.load()
        if self._failure and clock.monotonic() - self._failed_at <= RETRY_SECONDS:
            raise Unavailable(self._failure)

    def encode(
        self,
        texts: Sequence[str],
        *,
        alone: bool = False,
        urgent: bool = False,
        keep: Callable[[], None] | None = None,
    ) -> dict[str, Row]:
        """Return a row or an error for each text: a text at which the model fails costs no other text its row.

        Args:
            texts: the texts that no cache has.
            alone: encode them in a call of their own, since one of them may crash the process.
            urgent: encode them in the next call, ahead of the others; calls stay short while urgent texts come.
            keep: called twice a second during the wait, to renew a lease; whatever it raises ends the wait.

        Raises:
            Unavailable: the model does not load, or fails at every text.
        """
        if not texts:
            return {}
        asked = _EmbeddingRequest(texts)
        with self._guard:
            if urgent:
                self._urgent_at = clock.monotonic()
            if alone:
                self._alone.append(asked)
            else:
                for text in asked.texts:
                    (self._urgent if urgent else self._wanted).setdefault(text, []).append(asked)
            self._start_thread()
            self._guard.notify()
        end = clock.monotonic() + MAX_ENCODE_WAIT
        while not asked.done.wait(KEEP_SECONDS):
            if clock.monotonic() > end:
                raise Unavailable(
                    f"the embedding model {self._encoder.model} has not answered for {MAX_ENCODE_WAIT:g} s"
                )
            if keep is not None:
                keep()
        away = next((row for row in asked.found.values() if isinstance(row, Unavailable)), None)
        if away is not None:
            raise away
        return asked.found

    def _start_thread(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="tellback-encoder", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:  # the system gives no more threads, which no entry caused
                raise Unavailable(f"the embedding model {self._encoder.model} has no thread: {error}") from error

    def _run(self) -> None:
        while (call := self._next_batch()) is not None:
            texts, askers = call
            for text, row in self._encode_rows(texts).items():
                for asked in askers[text]:
                    asked.set_row(text, row)

    def _next_batch(self) -> tuple[list[str], dict[str, list[_EmbeddingRequest]]] | None:
        """Return the texts of the next call and their requests; None after `IDLE_SECONDS` without a request."""
        with self._guard:
            if not self._guard.wait_for(lambda: bool(self._alone or self._urgent or self._wanted), IDLE_SECONDS):
                self._thread = None
                return None
            if self._alone:  # first, and without a delay: no other text may share the call
                asked = self._alone.popleft()
                return list(asked.texts), {text: [asked] for text in asked.texts}
            self._guard.wait_for(lambda: len(self._urgent) + len(self._wanted) >= MAX_BATCH, self._delay)
            texts = self._take_batch()
            return texts, {text: [*self._urgent.pop(text, ()), *self._wanted.pop(text, ())] for text in texts}

    def _take_batch(self) -> list[str]:
        """Return the urgent texts, then those that wait longest, up to the limits of one call."""
        most, room = MAX_BATCH, MAX_BATCH_CHARACTERS
        if clock.monotonic() - self._urgent_at < SHORT_CALLS_SECONDS:
            most, room = MAX_SHORT_BATCH, MAX_BATCH_CHARACTERS * MAX_SHORT_BATCH // MAX_BATCH
        texts: list[str] = []
        for text in dict.fromkeys((*self._urgent, *self._wanted)):
            room -= min(len(text), READ_CHARACTERS)
            if texts and (room < 0 or len(texts) == most):
                break
            texts.append(text)
        return texts

    def _encode_rows(self, texts: list[str]) -> dict[str, Row]:
        try:
            rows = self._bisect_failures(texts)
        except Unavailable as away:
            return dict.fromkeys(texts, away)
        self._failure = ""
        return rows

    def _bisect_failures(self, texts: list[str]) -> dict[str, Row]:
        """Return a row for each text; if a call fails, try its halves, down to the text that makes it fail."""
        try:
            return dict(zip(texts, self._encode_texts(texts), strict=True))
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a model raises at a text
            if len(texts) == 1:
                self._check_model_works(error)
                _logger.warning("encoder.text_failed", characters=len(texts[0]), reason=type(error).__name__)
                return {texts[0]: error}
        half = len(texts) // 2
        return self._bisect_failures(texts[:half]) | self._bisect_failures(texts[half:])

    def _encode_texts(self, texts: list[str]) -> Vectors:
        rows = self._encoder.encode(texts)
        if rows.shape != (len(texts), self._encoder.dimension) or not np.isfinite(rows).all():
            raise ValueError(f"the model gives {len(texts)} texts rows of shape {rows.shape}, not all of them finite")
        return rows

    def _check_model_works(self, cause: Exception) -> None:
        """Return if the model encodes a plain text: then the failure is the text's fault.

        Raises:
            Unavailable: the model fails at a plain text too, so no entry may be blamed for it.
        """
        try:
            self._encode_texts([PROBE])
        except Exception as error:
            self._failure = f"the embedding model {self._encoder.model} fails: {type(error).__name__}: {error}"
            self._failed_at = clock.monotonic()
            _logger.exception("encoder.broken", model=self._encoder.model)
            raise Unavailable(self._failure) from cause


_batched_encoders: dict[Encoder, BatchedEncoder] = {}
_guard = threading.Lock()


def batched_encoder(encoder: Encoder, delay: float) -> BatchedEncoder:
    """Return this process's batching of a model, shared by all teams, banks and loops."""
    with _guard:
        return _batched_encoders.setdefault(encoder, BatchedEncoder(encoder, delay=delay))


def _forget_after_fork() -> None:
    global _guard  # noqa: PLW0603 - another thread of the parent may have held it at the fork
    _guard = threading.Lock()
    _batched_encoders.clear()  # their threads run in the parent only


os.register_at_fork(after_in_child=_forget_after_fork)


class Embedder:
    """Cached embeddings of one model for the threads of this process; Redis keeps them for a day.

    `delay` is the seconds that a text waits for others to share a call of the model.
    """

    def __init__(self, encoder: Encoder, database: Database, *, delay: float) -> None:
        self.encoder = encoder
        self._batched = batched_encoder(encoder, delay)
        self._db = database
        self._known: LRUCache[str, Vectors] = LRUCache(MAX_CACHED)
        self._guard = threading.Lock()

    def ready(self) -> None:
        """Load the model unless it is loaded.

        Raises:
            Unavailable: it does not load, or fails at every text.
        """
        self._batched.ready()

    def embed_each(
        self,
        texts: Iterable[str],
        shard: Shard,
        *,
        alone: bool = False,
        urgent: bool = False,
        keep: Callable[[], None] | None = None,
    ) -> tuple[dict[str, Vectors], dict[str, Exception]]:
        """Return the vectors, and the errors of texts at which the model fails; those cost no other text its vector.

        Args:
            texts: any number, repeats included.
            shard: the shard whose cache in Redis to use.
            alone: share no call with others, since a text may crash the process.
            urgent: encode the texts in the model's next call.
            keep: called twice a second while the model computes; whatever it raises ends the wait.

        Raises:
            Unavailable: the model does not load or fails at every text, or Redis does not answer.
        """
        wanted = list(dict.fromkeys(texts))
        vectors = self._load_cached(wanted)
        cache = EmbeddingCache(self._db, shard, _cache_name(self.encoder))
        stored = self._load_stored([text for text in wanted if text not in vectors], cache)
        self._cache(stored)
        vectors.update(stored)
        missing = [text for text in wanted if text not in vectors]
        rows = self._batched.encode(missing, alone=alone, urgent=urgent, keep=keep)
        new, failures = _without_failures(rows)
        self._cache(new)
        self._store(new, cache)
        vectors.update(new)
        return vectors, failures

    def encode_each(
        self, texts: Sequence[str], *, alone: bool, keep: Callable[[], None]
    ) -> tuple[dict[str, Vectors], dict[str, Exception]]:
        """Return the same as `embed_each`, without the caches: for texts that come only once, such as those of facts.

        Raises:
            Unavailable: the model does not load or fails at every text.
        """
        return _without_failures(self._batched.encode(texts, alone=alone, keep=keep))

    def _load_stored(self, texts: list[str], cache: EmbeddingCache) -> dict[str, Vectors]:
        found: dict[str, Vectors] = {}
        for start in range(0, len(texts), STORE_BATCH):
            raws = cache.get(texts[start : start + STORE_BATCH])
            whole = {text: raw for text, raw in raws.items() if len(raw) == 4 * self.encoder.dimension}
            found.update(zip(whole, as_vectors(list(whole.values()), self.encoder.dimension), strict=True))
        return found

    def _store(self, vectors: Mapping[str, Vectors], cache: EmbeddingCache) -> None:
        texts = list(vectors)
        with suppress(RedisFull):  # a cache that cannot be filled must not delay the entries of a full Redis
            for start in range(0, len(texts), STORE_BATCH):
                cache.put({text: as_bytes(vectors[text]) for text in texts[start : start + STORE_BATCH]})

    def _load_cached(self, texts: list[str]) -> dict[str, Vectors]:
        with self._guard:
            return {text: vector for text in texts if (vector := self._known.get(text)) is not None}

    def _cache(self, vectors: Mapping[str, Vectors]) -> None:
        with self._guard:
            # Copies, since a view would keep the whole batch in memory.
            self._known.update({text: vector.copy() for text, vector in vectors.items()})


def _without_failures(rows: Mapping[str, Row]) -> tuple[dict[str, Vectors], dict[str, Exception]]:
    """Return the vectors of texts, and the errors of the others."""
    failures = {text: row for text, row in rows.items() if isinstance(row, Exception)}
    return {text: row for text, row in rows.items() if not isinstance(row, Exception)}, failures


def _cache_name(encoder: Encoder) -> str:
    """Return the model's name and fingerprint: other files under the same name give other vectors."""
    return f"{encoder.model}@{encoder.weights}" if encoder.weights else encoder.model


_AT_ONCE: Final = 512


class ModelSimilarity:
    """A function that returns, for each text, its highest cosine with any of other texts.

    The model is the one of `settings`, by default those of `TELLBACK_*`, or an `encoder` of your own. It loads on first
    use, in some five seconds, and stays in the process. Needs `tellback[workers]`.
    """

    def __init__(self, settings: Settings | None = None, *, encoder: Encoder | None = None) -> None:
        self._encoder = encoder or encoder_for(settings or load())

    def __call__(self, texts: Sequence[str], others: Sequence[str]) -> list[float]:
        """Return the cosines, in the order of `texts`.

        Raises:
            Unavailable: the model does not load.
        """
        if not texts or not others:
            return [0.0] * len(texts)
        distinct = list(dict.fromkeys([*texts, *others]))
        parts = [
            self._encoder.encode(distinct[start : start + _AT_ONCE]) for start in range(0, len(distinct), _AT_ONCE)
        ]
        every: Vectors = np.concatenate(parts)
        rows = dict(zip(distinct, every, strict=True))
        product = np.stack([rows[text] for text in texts]) @ np.stack([rows[text] for text in others]).T
        return [float(cosine) for cosine in product.max(axis=1)]
