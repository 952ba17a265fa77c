"""A bank's scores and contexts in Redis: what the worker loads, applies and reads, and what a host may ask."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tellback.contracts.signals import BankStats, FactStats
from tellback.errors import NotFound
from tellback.signals.ranking import Usefulness
from tellback.signals.scoring import NEUTRAL, WEIGHTS, decayed
from tellback.state.database import Arg, Database
from tellback.state.intake import Entry, Lease, committed
from tellback.state.keys import FAMILIES, Layout, Shard
from tellback.state.script import Script

KINDS: Final = tuple(WEIGHTS)
"""The signal types in the order of a fact's counts."""
CONTEXTS_AT_ONCE: Final = 1_000
"""Vectors of one reply: 1.5 MB at 384 dimensions."""
MATCHES_AT_ONCE: Final = 16
"""Contexts that one read of scores looks through."""

_FACT: Final = struct.Struct("<8d")
_CONTEXT_SCORE: Final = struct.Struct("<4d")
_ANY_VERSION: Final = -1

_apply = Script("apply_signals")
_load = Script("load_bank")
_read = Script("read_usefulness")


@dataclass(frozen=True, slots=True)
class BankInfo:
    """What a bank was begun with; `id` tells it from an earlier one of the same name."""

    id: str
    model: str
    dimension: int
    threshold: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """A bank's news: contexts written since the known version, by slot, with their vectors as float32 bytes.

    `bank` is None before the first signal; `complete` is False where more contexts wait than one reply holds.
    """

    bank: BankInfo | None
    version: int
    slots: tuple[int, ...]
    vectors: tuple[bytes, ...]
    oldest: tuple[int, ...]
    seen: tuple[bool, ...]

    @property
    def complete(self) -> bool:
        """Whether these are all the news."""
        return len(self.slots) < CONTEXTS_AT_ONCE


class PlannedPlace(msgspec.Struct, frozen=True, array_like=True):
    """A context that the plan signals; one that it begins has its vector in the plan's `vectors`."""

    slot: int
    begins: bool
    text: str


class PlannedSignal(msgspec.Struct, frozen=True, array_like=True):
    """One signal: its kind and place count from 1, its session from 0 = none; `log` is its JSON after `at`."""

    signal_id: str
    fact_id: str
    kind: int
    change: float
    place: int
    session: int
    log: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Whole batches of one bank, at most 500 signals, none of them applied before and none twice in the plan.

    `known` and `version` are those of the bank that the plan was made against; `id` to `threshold` count where it is
    yet to begin. The lease is renewed for `lease_ms`, since what comes next may have to be embedded first.
    """

    bank: str
    known: str
    version: int
    id: str
    model: str
    dimension: int
    threshold: float
    lease_ms: int
    facts_cap: int
    ctx_cap: int = FAMILIES["ctx"].cap or 0
    places: list[PlannedPlace] = []
    items: list[PlannedSignal] = []


class BankStore:
    """One bank of a team."""

    def __init__(self, database: Database, shard: Shard, bank: str) -> None:
        """Take the Redis, the bank's shard and its name."""
        self._db = database
        self._shard = shard
        self.bank = bank

    def load(self, known: str, version: int, *, oldest: int = 0, signal_ids: Sequence[str] = ()) -> Loaded:
        """What is new since `version` of the bank whose id is `known` ('' and 0 for everything).

        Args:
            known: id of the bank as it was last loaded.
            version: its version then.
            oldest: how many slots to name, the longest without a signal first.
            signal_ids: ids of which to tell whether they were applied before.
        """
        keys = self._keys("bank", "ctxvec", "ctxver", "ctxrecent", "sigseen", "sigseen-old")
        reply = self._db.run(_load.call(keys, [known, version, CONTEXTS_AT_ONCE, oldest, *signal_ids]))
        flat, told, slots, vectors, aged, seen = reply
        return Loaded(
            _bank_info(_fields(flat)),
            int(told),
            tuple(map(int, slots)),
            tuple(vectors),
            tuple(map(int, aged)),
            tuple(flag == 1 for flag in seen),
        )

    def apply(
        self, lease: Lease, entries: Sequence[Entry], plan: Plan, vectors: Sequence[bytes], sessions: Sequence[str]
    ) -> bool:
        """Apply a plan and acknowledge its entries; False where the bank has moved on: load and plan again.

        Raises:
            Fenced: the lease has passed on; nothing was written.
        """
        keys = [
            *lease.keys,
            self._shard.key("bank", self.bank),
            self._shard.key("banks"),
            *self._keys("facts", "recent", "ctxvec", "ctxtext", "ctxver", "ctxrecent"),
            *self._keys("sigseen", "sigseen-old", "siglog"),
            *(self._context_key(place.slot) for place in plan.places),
            *(self._shard.key("hist", session) for session in sessions),
        ]
        args: list[Arg] = [*lease.args(entries), msgspec.msgpack.encode(plan), *vectors]
        return committed(self._db.run(_apply.call(keys, args)))

    def usefulness(
        self, known: str, version: int, slots: Sequence[int], facts: Sequence[str]
    ) -> list[Usefulness] | None:
        """Each fact's score now, from the first of the contexts `slots` that has one, else its global one, else 0.5.

        Returns:
            None where the bank is no longer at `version`: match again.
        """
        if not facts:
            return []
        found = [Usefulness(NEUTRAL, "neutral")] * len(facts)
        pending = list(range(len(facts)))
        for start in range(0, max(1, len(slots)), MATCHES_AT_ONCE):
            some = slots[start : start + MATCHES_AT_ONCE]
            keys = [*self._keys("bank", "facts"), *(self._context_key(slot) for slot in some)]
            reply = self._db.run(_read.call(keys, [known, version, *(facts[i] for i in pending)]))
            if reply == b"stale":
                return None
            for i, record in zip(pending, reply[1:], strict=True):
                if record:
                    found[i] = _usefulness(record, int(reply[0]))
            pending = [i for i in pending if found[i].scope != "context"]
            if not pending:
                break
        return found

    def global_usefulness(self, facts: Sequence[str]) -> list[Usefulness]:
        """Each fact's global score now, else 0.5."""
        found = self.usefulness("", _ANY_VERSION, (), facts)
        assert found is not None, "no version was asked for"
        return found

    def fact_stats(self, fact_id: str) -> FactStats:
        """What the signals of a fact add up to.

        Raises:
            NotFound: the bank has no signal of this fact.
        """
        packed = self._db.command("HGET", self._shard.key("facts", self.bank), fact_id)
        if packed is None:
            raise NotFound(f"bank {self.bank!r} has no signal of fact {fact_id!r}")
        score, scored_at, last, created, *counts = _FACT.unpack(packed)
        return FactStats(
            usefulness_score=decayed(score, self._db.now_ms() - scored_at),
            signal_count=int(sum(counts)),
            signal_breakdown={kind: int(count) for kind, count in zip(KINDS, counts, strict=True)},
            last_signal_at=int(last),
            created_at=int(created),
        )

    def stats(self) -> BankStats:
        """What the bank holds.

        Raises:
            NotFound: nothing was ever signalled to a bank of this name.
        """
        bank_key, facts, contexts = self._keys("bank", "facts", "ctxver")
        flat, fact_count, context_count = self._db.pipeline(
            [("HGETALL", bank_key), ("HLEN", facts), ("ZCARD", contexts)]
        )
        fields = _fields(flat)
        info = _bank_info(fields)
        if info is None:
            raise NotFound(f"no bank {self.bank!r}; one begins with its first signal")
        counts: dict[str, int] = {kind: int(fields.get(kind, 0)) for kind in KINDS}
        return BankStats(
            bank=self.bank,
            model=info.model,
            dimension=info.dimension,
            threshold=info.threshold,
            facts=int(fact_count),
            contexts=int(context_count),
            signal_count=sum(counts.values()),
            signal_breakdown=counts,
            last_signal_at=int(fields["last_signal_at"]),
            created_at=int(fields["created_at"]),
        )

    def newest(self, limit: int) -> list[dict[str, Any]]:
        """The newest signals as they came, oldest first, at most 1,000; each has its time `at`, query and remark."""
        raws = self._db.command("LRANGE", self._shard.key("siglog", self.bank), -limit, -1)
        return [msgspec.json.decode(raw, type=dict[str, Any]) for raw in raws]

    def _keys(self, *names: str) -> list[str]:
        return [self._shard.key(name, self.bank) for name in names]

    def _context_key(self, slot: int) -> str:
        return self._shard.key("ctx", self.bank, str(slot))


def bank_names(database: Database, layout: Layout) -> list[str]:
    """The team's banks, the one signalled last first."""
    replies = database.pipeline([("ZRANGE", shard.key("banks"), 0, -1, "WITHSCORES") for shard in layout.all])
    aged = [(float(at), name.decode()) for flat in replies for name, at in zip(flat[::2], flat[1::2], strict=True)]
    return [name for _, name in sorted(aged, reverse=True)]


def _fields(flat: Sequence[Any]) -> dict[str, str]:
    values = [value.decode() for value in flat]
    return dict(zip(values[::2], values[1::2], strict=True))


def _bank_info(fields: dict[str, str]) -> BankInfo | None:
    if "id" not in fields:
        return None
    return BankInfo(fields["id"], fields["model"], int(fields["dimension"]), float(fields["threshold"]))


def _usefulness(record: Sequence[Any], now: int) -> Usefulness:
    of_context, packed = record
    score, scored_at = (_CONTEXT_SCORE if of_context else _FACT).unpack(packed)[:2]
    return Usefulness(decayed(score, now - scored_at), "context" if of_context else "global")
