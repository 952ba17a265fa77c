"""Embeddings by text: from this process's memory, else from Redis, else from one call of the model."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from tellback.embedding.encoder import Encoder
from tellback.embedding.gathering import gathering_of
from tellback.signals.matching import Vectors, as_bytes, as_vectors
from tellback.state.database import Database
from tellback.state.embeddings import EmbeddingCache
from tellback.state.keys import Shard

REMEMBERED: Final = 10_000  # 15 MB at 384 dimensions
LINGER: Final = 0.005  # seconds
STORED_AT_ONCE: Final = 512  # embeddings of one call of Redis: 800 KB


class Embedder:
    """The embeddings of one model for the threads of this process."""

    def __init__(self, encoder: Encoder, database: Database, *, linger: float = LINGER) -> None:
        """Take the model, the Redis that keeps embeddings for a day, and how long a text waits for company."""
        self.encoder = encoder
        self._gathering = gathering_of(encoder, linger)
        self._db = database
        self._known: OrderedDict[str, Vectors] = OrderedDict()
        self._guard = threading.Lock()

    def ready(self) -> None:
        """Load the model if need be.

        Raises:
            Unavailable: it does not load, or fails at any text.
        """
        self._gathering.ready()

    def embed(
        self,
        texts: Iterable[str],
        shard: Shard,
        *,
        urgent: bool = False,
        keep: Callable[[], None] | None = None,
    ) -> dict[str, Vectors]:
        """The vector of each distinct text; what no cache has is encoded once, together with what others wait for.

        The options are those of `embed_each`.

        Raises:
            Unavailable: the model does not load, or Redis is away.
            Exception: what the model raised at one of the texts.
        """
        vectors, failures = self.embed_each(texts, shard, urgent=urgent, keep=keep)
        for failure in failures.values():
            raise failure
        return vectors

    def embed_each(
        self,
        texts: Iterable[str],
        shard: Shard,
        *,
        alone: bool = False,
        urgent: bool = False,
        keep: Callable[[], None] | None = None,
    ) -> tuple[dict[str, Vectors], dict[str, Exception]]:
        """The same, and beside it why the model fails at a text: that costs no other text its vector.

        Args:
            texts: any number, repeats included.
            shard: whose cache in Redis is used.
            alone: share no call with others, since a text may end the process.
            urgent: have the texts in the model's next call.
            keep: called twice a second while the model computes; what it raises ends the waiting.

        Raises:
            Unavailable: the model does not load or fails at any text, or Redis is away.
        """
        wanted = list(dict.fromkeys(texts))
        vectors = self._remembered(wanted)
        cache = EmbeddingCache(self._db, shard, _cached_under(self.encoder))
        stored = self._stored([text for text in wanted if text not in vectors], cache)
        self._remember(stored)
        vectors.update(stored)
        missing = [text for text in wanted if text not in vectors]
        rows = self._gathering.ask(missing, alone=alone, urgent=urgent, keep=keep)
        failures = {text: row for text, row in rows.items() if isinstance(row, Exception)}
        new = {text: row for text, row in rows.items() if not isinstance(row, Exception)}
        self._remember(new)
        self._store(new, cache)
        vectors.update(new)
        return vectors, failures

    def encode_each(
        self, texts: Sequence[str], *, alone: bool = False, keep: Callable[[], None] | None = None
    ) -> tuple[dict[str, Vectors], dict[str, Exception]]:
        """As `embed_each`, past the caches: for texts that come once, such as those of facts.

        Raises:
            Unavailable: the model does not load or fails at any text.
        """
        rows = self._gathering.ask(list(texts), alone=alone, keep=keep)
        failures = {text: row for text, row in rows.items() if isinstance(row, Exception)}
        return {text: row for text, row in rows.items() if not isinstance(row, Exception)}, failures

    def _stored(self, texts: list[str], cache: EmbeddingCache) -> dict[str, Vectors]:
        found: dict[str, Vectors] = {}
        for start in range(0, len(texts), STORED_AT_ONCE):
            raws = cache.get(texts[start : start + STORED_AT_ONCE])
            whole = {text: raw for text, raw in raws.items() if len(raw) == 4 * self.encoder.dimension}
            found.update(zip(whole, as_vectors(list(whole.values()), self.encoder.dimension), strict=True))
        return found

    def _store(self, vectors: Mapping[str, Vectors], cache: EmbeddingCache) -> None:
        texts = list(vectors)
        for start in range(0, len(texts), STORED_AT_ONCE):
            cache.put({text: as_bytes(vectors[text]) for text in texts[start : start + STORED_AT_ONCE]})

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


def _cached_under(encoder: Encoder) -> str:
    """A model's name and files: other files of the same name give other vectors."""
    return f"{encoder.model}@{encoder.weights}" if encoder.weights else encoder.model
