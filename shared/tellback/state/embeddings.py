"""Embeddings in Redis: a cache of query embeddings that all workers share, and the state of the models on each host.

The cache keeps two generations of 10,000 for each model and shard, for a day. The states show an operator a model that
does not load, or a bank that has another model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from tellback.state.database import Database
from tellback.state.keys import Layout, Shard, lifetime_ms
from tellback.state.readable import readable
from tellback.state.scripts import signals as scripts


class EmbeddingCache:
    """The embeddings of one model in one shard, as float32 bytes."""

    def __init__(self, database: Database, shard: Shard, model: str) -> None:
        self._db = database
        self._key = shard.key("vec", model)
        self._old_key = shard.key("vec-old", model)

    def get(self, texts: Sequence[str]) -> dict[str, bytes]:
        """Return the cached embeddings by text."""
        if not texts:
            return {}
        fields = [_field(text) for text in texts]
        new, old = self._db.pipeline([("HMGET", key, *fields) for key in (self._key, self._old_key)])
        found = {text: a or b for text, a, b in zip(texts, new, old, strict=True)}
        return {text: vector for text, vector in found.items() if vector}

    def put(self, vectors: Mapping[str, bytes]) -> None:
        """Cache embeddings, at most 600 at once: a generation then exceeds its cap by less than that."""
        if vectors:
            flat = [part for text, vector in vectors.items() for part in (_field(text), vector)]
            self._db.run(scripts.put_embeddings(vec=self._key, embeddings=flat))


def _field(text: str) -> bytes:
    # A digest bounds the field, whatever the length of the query; 128 bits make a collision all but impossible.
    return hashlib.sha256(text.encode()).digest()[:16]


class EncoderState(msgspec.Struct, frozen=True, kw_only=True):
    """A model on a host: loaded, or failed for a `reason`; `at` is milliseconds since the epoch, server time.

    `mismatch` names the bank that has another model; its signals wait for a worker with that one.
    """

    host: str
    model: str
    state: Literal["loaded", "failed"]
    dimension: int = 0
    reason: str = ""
    mismatch: str = msgspec.field(default="", name="is_mismatch")
    at: int = 0


_decode = msgspec.json.Decoder(EncoderState).decode


class Encoders:
    """The states of one team's worker hosts, kept in its first shard for a day.

    A host has a state for each model, because its workers may have different ones.
    """

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        self._key = layout.shard(0).key("encoder")

    def report(self, state: EncoderState) -> None:
        """Report the state of a model on a host; reports older than a day are deleted."""
        known = msgspec.structs.replace(state, at=self._db.now_ms())
        life = lifetime_ms("encoder")
        field = f"{known.host}\0{known.model}"
        call = scripts.report_encoder(
            encoder=self._key,
            field=field,
            state=msgspec.json.encode(known),
            oldest=known.at - life,
            lifetime_ms=life,
        )
        self._db.run(call)

    def all(self) -> list[EncoderState]:
        """Return the reports of the last day, by host and model."""
        states = readable("encoder", self._db.command("HVALS", self._key), _decode)
        return sorted(states, key=lambda state: (state.host, state.model))
