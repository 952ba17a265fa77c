"""Embeddings by text: from this process's memory, else from Redis, else from one call of the model."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

from tellback.embedding.encoder import Encoder
from tellback.signals.matching import Vectors, as_bytes, as_vectors
from tellback.state.database import Database
from tellback.state.embeddings import EmbeddingCache
from tellback.state.keys import Shard

REMEMBERED: Final = 10_000  # 15 MB at 384 dimensions
ENCODED_AT_ONCE: Final = 512  # 3 to 5 seconds on two cores, well inside the lease


class Embedder:
    """The embeddings of one model for the threads of this process."""

    def __init__(self, encoder: Encoder, database: Database) -> None:
        """Take the model and the Redis that keeps embeddings for a day."""
        self.encoder = encoder
        self._db = database
        self._known: OrderedDict[str, Vectors] = OrderedDict()
        self._guard = threading.Lock()

    def embed(self, texts: Iterable[str], shard: Shard) -> dict[str, Vectors]:
        """The vector of each distinct text; what no cache has is encoded once, in one call up to 512 texts.

        Raises:
            Unavailable: the model does not load, or Redis is away.
        """
        wanted = list(dict.fromkeys(texts))
        vectors = self._remembered(wanted)
        missing = [text for text in wanted if text not in vectors]
        cache = EmbeddingCache(self._db, shard, self.encoder.model)
        for start in range(0, len(missing), ENCODED_AT_ONCE):
            part = self._fetch(missing[start : start + ENCODED_AT_ONCE], cache)
            self._remember(part)
            vectors.update(part)
        return vectors

    def _fetch(self, texts: list[str], cache: EmbeddingCache) -> dict[str, Vectors]:
        kept = cache.get(texts)
        width = 4 * self.encoder.dimension
        kept = {text: raw for text, raw in kept.items() if len(raw) == width}
        found = dict(zip(kept, as_vectors(list(kept.values()), self.encoder.dimension), strict=True))
        new = [text for text in texts if text not in found]
        if new:
            rows = dict(zip(new, self.encoder.encode(new), strict=True))
            cache.put({text: as_bytes(row) for text, row in rows.items()})
            found.update(rows)
        return found

    def _remembered(self, texts: list[str]) -> dict[str, Vectors]:
        with self._guard:
            found = {text: vector for text in texts if (vector := self._known.get(text)) is not None}
            for text in found:
                self._known.move_to_end(text)
            return found

    def _remember(self, vectors: Mapping[str, Vectors]) -> None:
        with self._guard:
            self._known.update({text: vector.copy() for text, vector in vectors.items()})  # not a view of the batch
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
