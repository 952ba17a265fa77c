"""A bank's scores and contexts in Redis: what the worker loads, applies and reads, and what a host may ask."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

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

FACT: Final = struct.Struct("<8d")
"""A fact: score, scored_at, last_signal_at, created_at, and its signals by type. Times are milliseconds."""
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
    weights: str = ""
    """What tells the model's files from others'; '' of a bank that does not say."""


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
    weights: str = ""
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
            bank_info(bank_fields(flat)),
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
            *self._keys("sigseen", "sigseen-old", "siglog", "above", "below", "bankdays"),
            self._shard.key("sigstats"),
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

    def _keys(self, *names: str) -> list[str]:
        return [self._shard.key(name, self.bank) for name in names]

    def _context_key(self, slot: int) -> str:
        return self._shard.key("ctx", self.bank, str(slot))


def bank_names(database: Database, layout: Layout) -> list[str]:
    """The team's banks, also those that only hold facts, the one signalled or told last first."""
    keys = [(shard, shard.key(family)) for shard in layout.all for family in ("banks", "membanks")]
    replies = database.pipeline([("ZRANGE", key, 0, -1, "WITHSCORES") for _, key in keys])
    aged: dict[str, float] = {}
    for (shard, _), flat in zip(keys, replies, strict=True):
        for raw, at in zip(flat[::2], flat[1::2], strict=True):
            name = raw.decode()
            if layout.of(name) == shard:  # a host of another language may have put it where nobody looks
                aged[name] = max(float(at), aged.get(name, 0.0))
    return sorted(aged, key=lambda name: (-aged[name], name))


def bank_fields(flat: Sequence[Any]) -> dict[str, str]:
    """A bank's hash, as HGETALL replies."""
    values = [value.decode() for value in flat]
    return dict(zip(values[::2], values[1::2], strict=True))


def bank_info(fields: dict[str, str]) -> BankInfo | None:
    """What the bank was begun with; None for one that is yet to begin."""
    if "id" not in fields:
        return None
    threshold = float(fields["threshold"])
    return BankInfo(fields["id"], fields["model"], int(fields["dimension"]), threshold, fields.get("weights", ""))


def _usefulness(record: Sequence[Any], now: int) -> Usefulness:
    of_context, packed = record
    score, scored_at, _, *counts = (_CONTEXT_SCORE if of_context else FACT).unpack(packed)
    signals = int(counts[0] if of_context else sum(counts[1:]))  # a fact's first is when it was created
    return Usefulness(decayed(score, now - scored_at), "context" if of_context else "global", signals)
