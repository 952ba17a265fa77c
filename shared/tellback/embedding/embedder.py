"""Embeddings by text: from this process's cache, otherwise from Redis, otherwise from the model.

Queries repeat, and a lookup is far cheaper than a call of the model. `ModelSimilarity` is the same model as a function
of texts, for the `similarity` of `tellback.detect_signals`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import numpy as np
from cachetools import LRUCache

from tellback.embedding.batching import batched_encoder
from tellback.embedding.encoder import Encoder, encoder_for
from tellback.settings import Settings, load
from tellback.signals.matching import Vectors, as_bytes, as_vectors
from tellback.state.database import Database
from tellback.state.embeddings import EmbeddingCache
from tellback.state.keys import Shard
from tellback.state.unavailable import RedisFull

MAX_CACHED: Final = 10_000  # 15 MB at 384 dimensions

BATCH_DELAY: Final = 0.005  # seconds

STORE_BATCH: Final = 512  # embeddings of one Redis call: 800 KB


class Embedder:
    """Cached embeddings of one model for the threads of this process; Redis keeps them for a day.

    `delay` is the seconds that a text waits for others to share a call of the model.
    """

    def __init__(self, encoder: Encoder, database: Database, *, delay: float = BATCH_DELAY) -> None:
        self.encoder = encoder
        self._gathering = batched_encoder(encoder, delay)
        self._db = database
        self._known: LRUCache[str, Vectors] = LRUCache(MAX_CACHED)
        self._guard = threading.Lock()

    def ready(self) -> None:
        """Load the model unless it is loaded.

        Raises:
            Unavailable: it does not load, or fails at every text.
        """
        self._gathering.ready()

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
        rows = self._gathering.encode(missing, alone=alone, urgent=urgent, keep=keep)
        failures = {text: row for text, row in rows.items() if isinstance(row, Exception)}
        new = {text: row for text, row in rows.items() if not isinstance(row, Exception)}
        self._cache(new)
        self._store(new, cache)
        vectors.update(new)
        return vectors, failures

    def encode_each(
        self, texts: Sequence[str], *, alone: bool = False, keep: Callable[[], None] | None = None
    ) -> tuple[dict[str, Vectors], dict[str, Exception]]:
        """Do the same without the caches, for texts that come only once, such as those of facts.

        Raises:
            Unavailable: the model does not load or fails at every text.
        """
        rows = self._gathering.encode(list(texts), alone=alone, keep=keep)
        failures = {text: row for text, row in rows.items() if isinstance(row, Exception)}
        return {text: row for text, row in rows.items() if not isinstance(row, Exception)}, failures

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
