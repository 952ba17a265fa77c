"""A bank's scores and query clusters in Redis: load them, apply signals to them, and read scores for a recall.

A worker plans a batch of signals against the version of the bank that it has loaded. The script that applies the plan
checks that version; if another worker was faster, load and plan again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from tellback.contracts.signal_types import KINDS, NEUTRAL
from tellback.signals.ranking import Usefulness, decay_score
from tellback.state.database import Database
from tellback.state.intake_lease import IntakeEntry, Lease, committed
from tellback.state.keys import FAMILIES, Layout, Shard
from tellback.state.readable import scored_names
from tellback.state.scripts import signals as scripts

CLUSTER_BATCH: Final = 1_000
"""Vectors of one reply: 1.5 MB at 384 dimensions."""
MATCH_BATCH: Final = 256
"""Clusters that one call reads scores from; a further call reads only facts without a score so far."""
FIELDS_READ: Final = 10_000
"""Scores of clusters after which such a call ends: some three milliseconds of Redis' time."""

FACT: Final = struct.Struct(f"<{4 + len(KINDS)}d")
"""A fact: score, scored_at, last_signal_at, created_at, and its signals by type. Times are milliseconds."""
_CLUSTER_SCORE: Final = struct.Struct("<4d")
_ANY_VERSION: Final = -1  # global scores need no version: they are not matched to clusters


@dataclass(frozen=True, slots=True)
class BankInfo:
    """The model and threshold with which a bank began. `id` distinguishes it from an earlier bank of the same name."""

    id: str
    model: str
    dimension: int
    threshold: float
    weights: str = ""
    """The digest of the model's files; '' if it is not known."""
    stamp: str = ""
    """The random stamp of the last change of its clusters; '' for one of an earlier release."""


@dataclass(frozen=True, slots=True)
class BankUpdates:
    """Clusters of a bank written since a known version, by slot, with their vectors as float32 bytes.

    `bank` is None before the first signal. With `is_reset`, drop all that was known before.
    """

    bank: BankInfo | None
    is_reset: bool
    version: int
    slots: tuple[int, ...]
    vectors: tuple[bytes, ...]
    oldest_slots: tuple[int, ...]
    applied_ids: tuple[bool, ...]

    @property
    def is_complete(self) -> bool:
        """False if there are more clusters than one reply holds: load again."""
        return len(self.slots) < CLUSTER_BATCH


class PlannedCluster(msgspec.Struct, frozen=True, array_like=True):
    """A cluster that the plan applies signals to; a new one has its vector in the `vectors` beside the plan."""

    slot: int
    is_new: bool
    text: str


class PlannedSignal(msgspec.Struct, frozen=True, array_like=True):
    """One signal. `kind`, `cluster` and `session` count from 1; session 0 is none. `log` is its JSON after `at`."""

    signal_id: str
    fact_id: str
    kind: int
    change: float
    cluster: int
    session: int
    log: str


class SignalPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan for whole batches of one bank: at most 500 signals, none applied before and none twice in the plan.

    `bank_id`, `version` and `stamp` are those of the bank that the plan was made against, `new_stamp` that of its next
    change; `new_bank_id` to `weights` count only if the bank is new. The lease is renewed for `lease_ms`, because the
    next batch may have to be embedded first.
    """

    bank: str
    bank_id: str
    version: int
    stamp: str
    new_stamp: str
    new_bank_id: str
    model: str
    dimension: int
    threshold: float
    weights: str = ""
    lease_ms: int
    facts_cap: int
    cluster_cap: int = FAMILIES["cluster"].cap or 0
    clusters: list[PlannedCluster] = []
    items: list[PlannedSignal] = []


class BankStore:
    """One bank of a team."""

    def __init__(self, database: Database, shard: Shard, bank: str) -> None:
        self._db = database
        self._shard = shard
        self._key = shard.key("bank", bank)
        self.bank = bank

    def load(
        self, bank_id: str, version: int, stamp: str, *, oldest: int = 0, signal_ids: Sequence[str] = ()
    ) -> BankUpdates:
        """Load what is new since `version` of the bank whose id is `bank_id` ('', 0 and '' for everything).

        Args:
            bank_id: id of the bank as it was last loaded.
            version: its version then.
            stamp: the stamp of its last change then.
            oldest: how many slots to name, the longest without a signal first.
            signal_ids: ids to check for having been applied before.
        """
        call = scripts.load_bank(
            bank=self._key,
            bank_id=bank_id,
            version=version,
            stamp=stamp,
            limit=CLUSTER_BATCH,
            oldest=oldest,
            signal_ids=signal_ids,
        )
        reply = self._db.run(call)
        flat, is_reset, latest, slots, vectors, aged, seen = reply
        return BankUpdates(
            bank_info(text_fields(flat)),
            bool(is_reset),
            int(latest),
            tuple(map(int, slots)),
            tuple(vectors),
            tuple(map(int, aged)),
            tuple(flag == 1 for flag in seen),
        )

    def apply(
        self,
        lease: Lease,
        entries: Sequence[IntakeEntry],
        plan: SignalPlan,
        vectors: Sequence[bytes],
        sessions: Sequence[str],
    ) -> bool:
        """Apply a plan and acknowledge its entries; return False if the bank has changed: load and plan again.

        Raises:
            Fenced: the lease has passed on; nothing was written.
        """
        call = scripts.apply_signals(
            **lease.commit_of(entries),
            bank=self._key,
            clusters=[self._cluster_key(place.slot) for place in plan.clusters],
            hists=[self._shard.key("hist", session) for session in sessions],
            plan=msgspec.msgpack.encode(plan),
            vectors=vectors,
        )
        return committed(self._db.run(call))

    def usefulness(
        self, bank_id: str, version: int, stamp: str, slots: Sequence[int], facts: Sequence[str]
    ) -> list[Usefulness] | None:
        """Return each fact's score now: from the first cluster in `slots` that has one, or its global one, or 0.5.

        Returns:
            None if the bank is no longer at `version` with this stamp: match again.
        """
        found: dict[str, Usefulness] = {}
        open_facts, open_slots = list(facts), list(slots)
        while open_facts:
            call = scripts.read_usefulness(
                bank=self._key,
                clusters=[self._cluster_key(slot) for slot in open_slots[:MATCH_BATCH]],
                bank_id=bank_id,
                stamp=stamp,
                version=version,
                most=FIELDS_READ,
                fact_ids=open_facts,
            )
            reply = self._db.run(call)
            if reply == b"stale":
                return None
            now, done, of_clusters, of_bank = reply
            found.update(_usefulness(open_facts, of_clusters, int(now), "cluster"))
            open_facts = [fact for fact in open_facts if fact not in found]
            open_slots = open_slots[done:]
            if not open_slots:
                found.update(_usefulness(open_facts, of_bank, int(now), "global"))
                break
        unknown = Usefulness(NEUTRAL, "neutral")
        return [found.get(fact, unknown) for fact in facts]

    def global_usefulness(self, facts: Sequence[str]) -> list[Usefulness]:
        """Return each fact's global score now, otherwise 0.5."""
        found = self.usefulness("", _ANY_VERSION, "", (), facts)
        assert found is not None, "no version was asked for"
        return found

    def _cluster_key(self, slot: int) -> str:
        return self._shard.key("cluster", self.bank, str(slot))


def bank_names(database: Database, layout: Layout) -> list[str]:
    """List the team's banks, also those that only store facts; the last one written comes first."""
    keys = [(shard, shard.key(family)) for shard in layout.all for family in ("banks", "factbanks")]
    replies = database.pipeline([("ZRANGE", key, 0, -1, "WITHSCORES") for _, key in keys])
    aged: dict[str, float] = {}
    for (shard, _), flat in zip(keys, replies, strict=True):
        for name, at in scored_names("bank", flat):
            if layout.of(name) == shard:  # a host in another language may have used the wrong shard
                aged[name] = max(at, aged.get(name, 0.0))
    return sorted(aged, key=lambda name: (-aged[name], name))


def text_fields(flat: Sequence[Any]) -> dict[str, str]:
    """Decode a hash of texts from the reply of HGETALL."""
    values = [value.decode() for value in flat]
    return dict(zip(values[::2], values[1::2], strict=True))


def bank_info(fields: dict[str, str]) -> BankInfo | None:
    """Return the model and threshold of a bank from its fields; None if it has not begun."""
    if "id" not in fields:
        return None
    return BankInfo(
        fields["id"],
        fields["model"],
        int(fields["dimension"]),
        float(fields["threshold"]),
        fields.get("weights", ""),
        fields.get("stamp", ""),
    )


def unpack_fact(packed: bytes) -> tuple[float, ...]:
    """Unpack a fact's record; one with other signal types than ours is shorter or longer (decisions/formats)."""
    return FACT.unpack(packed[: FACT.size].ljust(FACT.size, b"\0"))


def _usefulness(
    facts: Sequence[str], records: Sequence[bytes | None], now: int, scope: Literal["cluster", "global"]
) -> Iterator[tuple[str, Usefulness]]:
    """Yield the facts that have a record in this scope, with their usefulness now."""
    for fact, packed in zip(facts, records, strict=True):
        if packed is None:
            continue
        if scope == "cluster":
            score, scored_at, _, signals = _CLUSTER_SCORE.unpack(packed)
        else:
            score, scored_at, _, _, *counts = unpack_fact(packed)
            signals = sum(counts)
        yield fact, Usefulness(decay_score(score, now - scored_at), scope, int(signals))
