"""Giving a bank another model, in Redis: what is still to be embedded, the new vectors, and the switch.

Of contexts the queries are embedded, of the facts that the bank holds their texts. Both change at one moment.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tellback.state.banks import BankInfo, bank_fields, bank_info
from tellback.state.database import Arg, Database
from tellback.state.keys import Shard
from tellback.state.memories import TEXTS_AT_ONCE, MemoryInfo, memory_info, record_text
from tellback.state.script import Call, Script

EMBEDDED_AT_ONCE: Final = 256
"""Contexts between two notes of how far it has come: a killed process repeats no more."""

_next = Script("next_contexts")
_keep = Script("keep_next")
_next_held = Script("next_memories")
_keep_held = Script("keep_memory")
_switch = Script("switch_model")


@dataclass(frozen=True, slots=True)
class Target:
    """The model that a bank is to have, and the threshold that belongs to it."""

    model: str
    weights: str
    dimension: int
    threshold: float


@dataclass(frozen=True, slots=True)
class Outstanding:
    """The next contexts to be embedded, by slot, of `contexts` in all; `upto` is the version up to which they are all.

    `bank` is None where nothing was signalled yet; then, and with the model already, the switch is `done` here.
    """

    bank: BankInfo | None
    done: bool
    since: int
    upto: int
    contexts: int
    texts: Mapping[int, str]

    @property
    def waits(self) -> bool:
        """Whether something is to be embedded, or noted."""
        return bool(self.texts) or self.since != self.upto


@dataclass(frozen=True, slots=True)
class HeldOutstanding:
    """The same of the facts that the bank holds, `facts` in all: the next ones with their versions and texts."""

    info: MemoryInfo | None
    done: bool
    since: int
    upto: int
    facts: int
    texts: Sequence[tuple[str, int, str]]

    @property
    def waits(self) -> bool:
        """Whether something is to be embedded, or noted."""
        return bool(self.texts) or self.since != self.upto


class ModelSwitch:
    """One bank on its way to another model. Every method raises `Unavailable` while Redis is away."""

    def __init__(self, database: Database, shard: Shard, bank: str, target: Target) -> None:
        """Take the Redis, the bank's shard and name, and the model."""
        self._db = database
        self._shard = shard
        self._bank = bank
        self._target = target

    def embedded(self, held: MemoryInfo | None) -> int:
        """Contexts and held facts whose new vectors are kept."""
        contexts = int(self._db.command("HLEN", self._key("nextvec")))
        if held is None:
            return contexts
        counted = ("VCARD", self._key("memnextset")) if held.kind == "set" else ("HLEN", self._key("memnextvec"))
        return contexts + int(self._db.command(*counted))

    def outstanding(self) -> Outstanding:
        """The contexts to be embedded next."""
        keys = [self._key(name) for name in ("bank", "ctxver", "ctxtext", "next", "nextvec")]
        reply = self._db.run(_next.call(keys, [*self._meant, EMBEDDED_AT_ONCE]))
        flat, since, upto, contexts, slots, texts = reply
        info = bank_info(bank_fields(flat))
        done = info is None or (info.model, info.weights, info.dimension) == self._meant
        by_slot = {int(slot): (text or b"").decode() for slot, text in zip(slots, texts, strict=True)}
        return Outstanding(info, done, int(since), int(upto), int(contexts), by_slot)

    def held_outstanding(self) -> HeldOutstanding:
        """The held facts to be embedded next."""
        keys = [self._key(name) for name in ("mem", "memver", "memtext", "memnext", "memnextvec", "memnextset")]
        flat, since, upto, facts, told, records = self._db.run(_next_held.call(keys, [*self._meant, TEXTS_AT_ONCE]))
        info = memory_info(flat)
        done = info is None or (info.model, info.weights, info.dimension) == self._meant
        versions = zip(told[::2], told[1::2], records, strict=True)
        texts = [(name.decode(), int(version), record_text(record)) for name, version, record in versions]
        return HeldOutstanding(info, done, int(since), int(upto), int(facts), texts)

    def keep(self, part: Outstanding, vectors: Mapping[int, bytes]) -> bool:
        """Keep the vectors of `part`; False where another process has gone on meanwhile."""
        target = self._target
        flat: list[Arg] = [part for slot, vector in vectors.items() for part in (slot, vector)]
        args: list[Arg] = [_id(part.bank), target.model, target.weights, part.since, part.upto, *flat]
        return bool(self._db.run(_keep.call([self._key("next"), self._key("nextvec")], args)) == b"ok")

    def keep_held(self, part: HeldOutstanding, vectors: Sequence[bytes]) -> None:
        """Keep the vectors of `part`, one for each fact; none where another process has gone on meanwhile."""
        keys = [self._key(name) for name in ("memnext", "memver", "memnextvec", "memnextset")]
        kind = part.info.kind if part.info else ""
        whose: list[Arg] = [_id(part.info), self._target.model, self._target.weights]
        calls, since = list[Call](), part.since
        for (fact_id, version, _), vector in zip(part.texts, vectors, strict=True):
            calls.append(_keep_held.call(keys, [*whose, since, version, kind, fact_id, vector]))
            since = version
        if since != part.upto:
            calls.append(_keep_held.call(keys, [*whose, since, part.upto, kind]))
        self._db.run_all(calls)

    def switch(self, part: Outstanding, held: HeldOutstanding) -> bool:
        """Give the bank its new model, at the versions of both parts; False where something was written since."""
        names = ["bank", "ctxvec", "next", "nextvec", "lastvec"]
        names += ["mem", "memtext", "memvec", "memset", "memnext", "memnextvec", "memnextset"]
        args: list[Arg] = [_id(part.bank), part.upto, _id(held.info), held.upto, secrets.token_hex(8)]
        args += [*self._meant, repr(self._target.threshold)]
        return bool(self._db.run(_switch.call([self._key(name) for name in names], args)) == b"ok")

    @property
    def _meant(self) -> tuple[str, str, int]:
        return self._target.model, self._target.weights, self._target.dimension

    def _key(self, name: str) -> str:
        return self._shard.key(name, self._bank)


def _id(begun: BankInfo | MemoryInfo | None) -> str:
    return begun.id if begun else ""
