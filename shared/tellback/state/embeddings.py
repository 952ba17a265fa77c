"""Embeddings of queries, kept a day for every worker: two generations of 10,000 for each model and shard."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from tellback.state.database import Database
from tellback.state.keys import Shard
from tellback.state.script import Script

_keep = Script("keep_embeddings")


class EmbeddingCache:
    """The embeddings of one model in one shard, as float32 bytes."""

    def __init__(self, database: Database, shard: Shard, model: str) -> None:
        """Take the Redis, the shard and the model's name."""
        self._db = database
        self._key = shard.key("vec", model)
        self._old_key = shard.key("vec-old", model)

    def get(self, texts: Sequence[str]) -> dict[str, bytes]:
        """The embeddings that are kept, by text."""
        if not texts:
            return {}
        fields = [_field(text) for text in texts]
        new, old = self._db.pipeline([("HMGET", key, *fields) for key in (self._key, self._old_key)])
        found = {text: a or b for text, a, b in zip(texts, new, old, strict=True)}
        return {text: vector for text, vector in found.items() if vector}

    def put(self, vectors: Mapping[str, bytes]) -> None:
        """Keep embeddings, at most 600 at once."""
        if vectors:
            flat = [part for text, vector in vectors.items() for part in (_field(text), vector)]
            self._db.run(_keep.call([self._key, self._old_key], flat))


def _field(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:16]
