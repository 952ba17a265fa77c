"""The facts that a bank remembers, in Redis: their texts, and their vectors, in a vector set where the server has them.

Else the vectors stand in a hash, and each process that searches keeps a copy, brought up to date by version.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from redis import exceptions

from tellback.names import Family
from tellback.signals.models import OtherModel
from tellback.state.database import Arg, Command, Database
from tellback.state.intake import Entry, Lease, committed
from tellback.state.keys import Shard, stream_of
from tellback.state.script import Call, Script

LOADED_AT_ONCE: Final = 1_000
"""Vectors of one reply: 1.5 MB at 384 dimensions."""
TEXTS_AT_ONCE: Final = 32
"""Of one reply: 2 MB."""
EFFORT: Final = 400
"""Facts that a search of a vector set looks at, at least."""

Kind = Literal["set", "vectors"]

_AT: Final = struct.Struct("<d")
_remember = Script("remember_fact")
_forget = Script("forget_fact")
_load = Script("load_memories")


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """What a bank's remembered facts were begun with; `id` tells them from earlier ones. `bytes` is that of texts."""

    id: str
    kind: Kind
    model: str
    dimension: int
    bytes: int
    weights: str = ""
    """What tells the model's files from others'; '' where that was not said."""

    def check(self, bank: str, model: str, weights: str, dimension: int) -> None:
        """Return if this is the model: the same files, whatever they are called; where either does not say, by name.

        Raises:
            OtherModel: the facts were embedded with another one.
        """
        same = self.weights == weights if self.weights and weights else self.model == model
        if not same or self.dimension != dimension:
            stored = described(self.model, self.weights)
            raise other_model(bank, stored, self.dimension, described(model, weights), dimension)


@dataclass(frozen=True, slots=True)
class MemoryNews:
    """What came since a version: vectors as float32 bytes by fact; with `anew` all that was known before is void."""

    info: MemoryInfo | None
    anew: bool
    version: int
    vectors: Mapping[str, bytes]
    gone: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether these are all the news."""
        return len(self.vectors) < LOADED_AT_ONCE


@dataclass(frozen=True, slots=True)
class Memory:
    """A remembered fact; `at` is milliseconds since the epoch, server time."""

    fact_id: str
    at: int
    text: str


@dataclass(frozen=True, slots=True)
class Embedded:
    """A fact to be remembered; the vector is float32 bytes."""

    fact_id: str
    text: str
    vector: bytes


@dataclass(frozen=True, slots=True)
class Model:
    """The model of a writer, the kind of what it would begin, and the bounds of a bank."""

    name: str
    dimension: int
    kind: Kind
    most_facts: int
    most_bytes: int
    weights: str = ""


class MemoryStore:
    """The remembered facts of one bank."""

    def __init__(self, database: Database, shard: Shard, bank: str) -> None:
        """Take the Redis, the bank's shard and its name."""
        self._db = database
        self._shard = shard
        self.bank = bank

    def info(self) -> MemoryInfo | None:
        """What they were begun with; None where there is none."""
        return memory_info(self._db.command("HGETALL", self._key("mem")))

    def count(self) -> int:
        """How many there are."""
        return int(self._db.command("HLEN", self._key("memtext")))

    def remember(self, lease: Lease, entry: Entry, fact: Embedded, model: Model) -> Call:
        """The script that remembers a fact and acknowledges its entry."""
        args: list[Arg] = [
            *(*lease.args([entry]), entry.message.event_id),
            *(secrets.token_hex(8), model.kind, model.name, model.dimension, model.most_facts, model.most_bytes),
            *(fact.fact_id, fact.text, fact.vector, model.weights, self.bank),
        ]
        return _remember.call(self._keys(lease), args)

    def forget(self, lease: Lease, entry: Entry, fact_id: str) -> Call:
        """The script that forgets a fact and acknowledges its entry."""
        return _forget.call(self._keys(lease), [*lease.args([entry]), entry.message.event_id, fact_id, self.bank])

    def load(self, known: str, version: int) -> MemoryNews:
        """What is new since `version` of the facts whose id is `known` ('' and 0 for everything); of kind `vectors`."""
        keys = [self._key(name) for name in ("mem", "memvec", "memver", "memgone")]
        flat, anew, told, names, vectors, gone = self._db.run(_load.call(keys, [known, version, LOADED_AT_ONCE]))
        found = zip((name.decode() for name in names), vectors, strict=True)
        return MemoryNews(
            info=memory_info(flat),
            anew=bool(anew),
            version=int(told),
            vectors={name: vector for name, vector in found if vector is not None},
            gone=tuple(name.decode() for name in gone),
        )

    def nearest(self, known: str, vector: bytes, count: int) -> list[tuple[str, float]] | None:
        """The facts of highest cosine, best first, of kind `set`; None where their id is `known` no longer."""
        effort = max(EFFORT, 2 * count)
        search = ("VSIM", self._key("memset"), "FP32", vector, "WITHSCORES", "COUNT", count, "EF", effort)
        flat, now = self._db.pipeline([search, ("HGET", self._key("mem"), "id")], raise_on_error=False)
        if now != known.encode():  # they got another model, perhaps of other dimensions, before they were searched
            return None
        if isinstance(flat, Exception):
            raise flat
        pairs = zip(flat[::2], flat[1::2], strict=True)
        return [(name.decode(), 2 * float(score) - 1) for name, score in pairs]  # 1 for the same, 0 for the opposite

    def texts(self, fact_ids: Sequence[str]) -> dict[str, str]:
        """The texts of those that are remembered."""
        return {fact_id: record_text(record) for fact_id, record in self._records(fact_ids)}

    def newest(self, limit: int) -> list[Memory]:
        """The facts remembered last, the newest first."""
        names = [name.decode() for name in self._db.command("ZREVRANGE", self._key("memver"), 0, limit - 1)]
        return [_memory(fact_id, record) for fact_id, record in self._records(names)]

    def _records(self, fact_ids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        for start in range(0, len(fact_ids), TEXTS_AT_ONCE):
            some = fact_ids[start : start + TEXTS_AT_ONCE]
            records = self._db.command("HMGET", self._key("memtext"), *some)
            yield from ((fact_id, record) for fact_id, record in zip(some, records, strict=True) if record)

    def _keys(self, lease: Lease) -> list[str]:
        names = ["mem", "memtext", "memvec", "memver", "memgone", "memset", "memseen", "memseen-old"]
        names += ["memnextvec", "memnextset"]
        return [*lease.keys, *map(self._key, names), self._shard.key("membanks")]

    def _key(self, name: str) -> str:
        return self._shard.key(name, self.bank)


def has_vector_sets(database: Database, shard: Shard) -> bool:
    """Whether the server has vector sets, and lets us use them."""
    try:
        database.command("VCARD", shard.key("memset", ""))
    except exceptions.ResponseError:  # it knows no such command, or does not allow it
        return False
    return True


def written(reply: Any, bank: str, model: Model) -> None:
    """Return if a script of `remember` or `forget` took effect.

    Raises:
        Fenced: the lease has passed on; nothing was written.
        OtherModel: the bank's facts were embedded with another model; nothing was written.
    """
    if reply not in (b"ok", b"fenced"):
        stored, dimension, weights = reply
        theirs = described(stored.decode(), weights.decode())
        raise other_model(bank, theirs, int(dimension), described(model.name, model.weights), model.dimension)
    committed(reply)


def other_model(bank: str, stored: str, stored_dimension: int, model: str, dimension: int) -> OtherModel:
    """The error of a process whose model is not that of a bank's facts."""
    return OtherModel(
        f"the facts that bank {bank!r} remembers were embedded with the model {stored} of {stored_dimension} "
        f"dimensions, and this process has {model} of {dimension}: set TELLBACK_MODEL to the former, or give the bank "
        f"the latter by `tellback bank reembed {bank}`, then replay the dead letters"
    )


def described(model: str, weights: str) -> str:
    """A model for a person, with what tells its files from others'."""
    return f"{model} (files {weights})" if weights else model


class Backlog:
    """What waits in the stream that brings a bank's facts."""

    def __init__(self, database: Database, shard: Shard, bank: str) -> None:
        """Take the Redis, the bank's shard and its name."""
        self._db = database
        self._seen = [shard.key(name, bank) for name in ("memseen", "memseen-old")]
        self._stream = stream_of(shard, Family.SIGNALS)

    def last(self) -> str | None:
        """The id of the newest entry that waits."""
        entries = self._db.command("XREVRANGE", self._stream, "+", "-", "COUNT", 1)
        return entries[0][0].decode() if entries else None

    def done(self, event_id: str, entry_id: str) -> bool:
        """Whether this event of the bank was applied, or no entry waits that is no newer than this one.

        What other banks of the shard wait for may wait long, and an event that became a dead letter is never applied.
        """
        seen: list[Command] = [("SISMEMBER", key, event_id) for key in self._seen]
        *applied, waiting = self._db.pipeline([*seen, ("XRANGE", self._stream, "-", entry_id, "COUNT", 1)])
        return any(applied) or not waiting


def memory_info(flat: Sequence[bytes]) -> MemoryInfo | None:
    """What a bank's facts were begun with, from their hash as HGETALL replies; None where there is none."""
    values = [value.decode() for value in flat]
    fields = dict(zip(values[::2], values[1::2], strict=True))
    if "id" not in fields:
        return None
    kind: Kind = "set" if fields["kind"] == "set" else "vectors"
    dimension, weights = int(fields["dimension"]), fields.get("weights", "")
    return MemoryInfo(fields["id"], kind, fields["model"], dimension, int(fields["bytes"]), weights)


def _memory(fact_id: str, record: bytes) -> Memory:
    (at,) = _AT.unpack_from(record)
    return Memory(fact_id, int(at), record_text(record))


def record_text(record: bytes) -> str:
    """The text of a fact as it is kept, after its time."""
    return record[_AT.size :].decode()
