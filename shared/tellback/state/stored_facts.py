"""The stored facts of a bank in Redis: their texts and their vectors.

The vectors are in a vector set if the server has those. Otherwise they are in a hash, and each process that searches
caches a copy, which it updates by version.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from redis import exceptions

from tellback.names import Family
from tellback.signals.models import ModelMismatch
from tellback.state.banks import text_fields
from tellback.state.database import Database
from tellback.state.intake_lease import IntakeEntry, Lease, committed
from tellback.state.keys import Shard, stream_of
from tellback.state.script_calls import Command, ScriptCall
from tellback.state.scripts import signals as scripts
from tellback.state.unavailable import NotPermitted

LOAD_BATCH: Final = 1_000
"""Vectors of one reply: 1.5 MB at 384 dimensions."""
TEXT_BATCH: Final = 32
"""Texts of one reply: 2 MB."""
SEARCH_EFFORT: Final = 400
"""Fewest facts that a search of a vector set explores (EF)."""

VectorStorage = Literal["set", "vectors"]

_AT: Final = struct.Struct("<d")


@dataclass(frozen=True, slots=True)
class StoredFactsInfo:
    """The model of a bank's stored facts. `id` differs from that of earlier ones; `bytes` is the size of the texts."""

    id: str
    kind: VectorStorage
    model: str
    dimension: int
    bytes: int
    weights: str = ""
    """The digest of the model's files; '' if it is not known."""
    stamp: str = ""
    """The random stamp of the last change; '' for one of an earlier release."""

    def check(self, bank: str, model: str, weights: str, dimension: int) -> None:
        """Check that this is the model of the facts: by the digests of the files if both are known, otherwise by name.

        Raises:
            ModelMismatch: the facts were embedded with another model.
        """
        same = self.weights == weights if self.weights and weights else self.model == model
        if not same or self.dimension != dimension:
            stored = describe_model(self.model, self.weights)
            raise model_mismatch(bank, stored, self.dimension, describe_model(model, weights), dimension)


@dataclass(frozen=True, slots=True)
class StoredFactsUpdates:
    """Changes since a version: vectors as float32 bytes by fact. With `is_reset`, drop everything cached before."""

    info: StoredFactsInfo | None
    is_reset: bool
    version: int
    vectors: Mapping[str, bytes]
    deleted: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """False if there are more changes than one reply holds: load again."""
        return len(self.vectors) < LOAD_BATCH


@dataclass(frozen=True, slots=True)
class StoredFact:
    """A stored fact; `at` is milliseconds since the epoch, server time."""

    fact_id: str
    at: int
    text: str


@dataclass(frozen=True, slots=True)
class EmbeddedFact:
    """A fact to be stored; the vector is float32 bytes."""

    fact_id: str
    text: str
    vector: bytes


@dataclass(frozen=True, slots=True)
class FactModel:
    """The model of a writer, the kind of storage it would begin, and the bounds of a bank."""

    name: str
    dimension: int
    kind: VectorStorage
    max_facts: int
    max_bytes: int
    weights: str = ""


class FactStore:
    """The stored facts of one bank."""

    def __init__(self, database: Database, shard: Shard, bank: str) -> None:
        self._db = database
        self._shard = shard
        self.bank = bank

    def info(self) -> StoredFactsInfo | None:
        """Return the model of the facts; None if there are none."""
        return stored_facts_info(self._db.command("HGETALL", self._key("factinfo")))

    def count(self) -> int:
        """Return the number of stored facts."""
        return int(self._db.command("HLEN", self._key("facttext")))

    def remember(self, lease: Lease, entry: IntakeEntry, fact: EmbeddedFact, model: FactModel) -> ScriptCall:
        """Build the call that stores a fact and acknowledges its entry."""
        return scripts.remember_fact(
            **lease.commit_of([entry]),
            factinfo=self._key("factinfo"),
            event_id=entry.message.event_id,
            new_stamp=secrets.token_hex(8),
            facts_id=secrets.token_hex(8),
            kind=model.kind,
            model=model.name,
            dimension=model.dimension,
            max_facts=model.max_facts,
            max_bytes=model.max_bytes,
            fact_id=fact.fact_id,
            text=fact.text,
            vector=fact.vector,
            weights=model.weights,
            bank=self.bank,
        )

    def forget(self, lease: Lease, entry: IntakeEntry, fact_id: str) -> ScriptCall:
        """Build the call that deletes a fact and acknowledges its entry."""
        return scripts.forget_fact(
            **lease.commit_of([entry]),
            factinfo=self._key("factinfo"),
            event_id=entry.message.event_id,
            new_stamp=secrets.token_hex(8),
            fact_id=fact_id,
            bank=self.bank,
        )

    def load(self, id_: str, version: int, stamp: str) -> StoredFactsUpdates:
        """Load what is new since a version and stamp of facts `id_` ('', 0, '' for everything), of kind `vectors`."""
        call = scripts.load_facts(
            factinfo=self._key("factinfo"),
            facts_id=id_,
            version=version,
            stamp=stamp,
            limit=LOAD_BATCH,
        )
        flat, is_reset, latest, names, vectors, deleted = self._db.run(call)
        found = zip((name.decode() for name in names), vectors, strict=True)
        return StoredFactsUpdates(
            info=stored_facts_info(flat),
            is_reset=bool(is_reset),
            version=int(latest),
            vectors={name: vector for name, vector in found if vector is not None},
            deleted=tuple(name.decode() for name in deleted),
        )

    def nearest(self, id_: str, vector: bytes, count: int) -> list[tuple[str, float]] | None:
        """Return the facts of highest cosine, best first, of kind `set`; None if the facts' id is no longer `id_`."""
        effort = max(SEARCH_EFFORT, 2 * count)
        search = ("VSIM", self._key("factset"), "FP32", vector, "WITHSCORES", "COUNT", count, "EF", effort)
        flat, now = self._db.run_each([], [search, ("HGET", self._key("factinfo"), "id")])
        if isinstance(now, Exception):
            raise now
        if now != id_.encode():  # another model, perhaps of another dimension, took over before the search
            return None
        if isinstance(flat, Exception):
            raise flat
        pairs = zip(flat[::2], flat[1::2], strict=True)
        # VSIM scores 1 for the same direction and 0 for the opposite one; a cosine is 1 and -1.
        return [(name.decode(), 2 * float(score) - 1) for name, score in pairs]

    def texts(self, fact_ids: Sequence[str]) -> dict[str, str]:
        """Return the texts of those of these facts that are stored."""
        return {fact_id: record_text(record) for fact_id, record in self._records(fact_ids)}

    def newest(self, limit: int) -> list[StoredFact]:
        """Return the facts stored last, newest first."""
        names = [name.decode() for name in self._db.command("ZREVRANGE", self._key("factver"), 0, limit - 1)]
        return [_stored_fact(fact_id, record) for fact_id, record in self._records(names)]

    def _records(self, fact_ids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        for start in range(0, len(fact_ids), TEXT_BATCH):
            some = fact_ids[start : start + TEXT_BATCH]
            records = self._db.command("HMGET", self._key("facttext"), *some)
            yield from ((fact_id, record) for fact_id, record in zip(some, records, strict=True) if record)

    def _key(self, name: str) -> str:
        return self._shard.key(name, self.bank)


def has_vector_sets(database: Database, shard: Shard) -> bool:
    """Check whether the server has vector sets and allows their use."""
    try:
        database.command("VCARD", shard.key("factset", ""))
    except (exceptions.ResponseError, NotPermitted):  # an unknown command, or forbidden by an access list
        return False
    return True


def check_written(reply: Any, bank: str, model: FactModel) -> None:
    """Check the reply of a `remember` or `forget` call.

    Raises:
        Fenced: the lease has passed on; nothing was written.
        ModelMismatch: the bank's facts were embedded with another model; nothing was written.
    """
    if reply not in (b"ok", b"fenced"):
        stored, dimension, weights = reply
        theirs = describe_model(stored.decode(), weights.decode())
        raise model_mismatch(bank, theirs, int(dimension), describe_model(model.name, model.weights), model.dimension)
    committed(reply)


def model_mismatch(bank: str, stored: str, stored_dimension: int, model: str, dimension: int) -> ModelMismatch:
    """Build the error of a process whose model is not that of a bank's facts."""
    return ModelMismatch(
        f"the facts that bank {bank!r} remembers were embedded with the model {stored} of {stored_dimension} "
        f"dimensions, and this process has {model} of {dimension}: set TELLBACK_MODEL to the former, or give the bank "
        f"the latter by `tellback bank reembed {bank}`, then replay the dead letters"
    )


def describe_model(model: str, weights: str) -> str:
    """Describe a model for a person: its name, and the digest of its files if known."""
    return f"{model} (files {weights})" if weights else model


class FactBacklog:
    """The entries that wait in the stream of a bank's facts."""

    def __init__(self, database: Database, shard: Shard, bank: str) -> None:
        self._db = database
        self._seen = [shard.key(name, bank) for name in ("factseen", "factseen-old")]
        self._stream = stream_of(shard, Family.SIGNALS)

    def newest_id(self) -> str | None:
        """Return the id of the newest waiting entry."""
        entries = self._db.command("XREVRANGE", self._stream, "+", "-", "COUNT", 1)
        return entries[0][0].decode() if entries else None

    def is_applied(self, event_id: str, entry_id: str) -> bool:
        """Check whether this event of the bank was applied, or no entry up to its own still waits.

        The first check alone would wait forever for an event that became a dead letter; the second alone would wait
        for entries of other banks in the shard.
        """
        seen: list[Command] = [("SISMEMBER", key, event_id) for key in self._seen]
        *applied, waiting = self._db.pipeline([*seen, ("XRANGE", self._stream, "-", entry_id, "COUNT", 1)])
        return any(applied) or not waiting


def stored_facts_info(flat: Sequence[bytes]) -> StoredFactsInfo | None:
    """Decode the model of a bank's facts from the reply of HGETALL; None if there are none."""
    fields = text_fields(flat)
    if "id" not in fields:
        return None
    kind: VectorStorage = "set" if fields["kind"] == "set" else "vectors"
    dimension, weights, stamp = int(fields["dimension"]), fields.get("weights", ""), fields.get("stamp", "")
    return StoredFactsInfo(fields["id"], kind, fields["model"], dimension, int(fields["bytes"]), weights, stamp)


def _stored_fact(fact_id: str, record: bytes) -> StoredFact:
    (at,) = _AT.unpack_from(record)
    return StoredFact(fact_id, int(at), record_text(record))


def record_text(record: bytes) -> str:
    """Return the text in a fact's record, which begins with its time."""
    return record[_AT.size :].decode()
