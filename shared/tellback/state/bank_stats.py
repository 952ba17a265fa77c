"""What a bank's signals add up to: figures kept with each signal, read without looking at every fact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from struct import Struct
from typing import Any, Final

import msgspec

from tellback.contracts.signals import BankDay, BankStats, FactScore, FactStats
from tellback.errors import NotFound
from tellback.signals.models import default_threshold
from tellback.signals.scoring import NEUTRAL, clamp, decayed
from tellback.state.banks import FACT, KINDS, bank_fields, bank_info
from tellback.state.database import Database
from tellback.state.keys import Layout, Shard
from tellback.state.memories import memory_info
from tellback.state.script import Script

TOP: Final = 10
PAGE: Final = 500
BANDS: Final = 10

_DAY: Final = Struct("<6d")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC).date()

_stats = Script("bank_stats")
_ranked = Script("rank_facts")


class PruneRule(msgspec.Struct, frozen=True, kw_only=True):
    """Which facts a person may want to take out of the store that recalls find them in: all three must hold.

    `against` is how many of its signals were `ignored` or `not_helpful`, for each that was `used` or `helpful`.
    """

    max_score: float = 0.3
    min_signals: int = 5
    against: float = 2.0

    def names(self, fact: FactScore) -> bool:
        """Whether the rule holds of this fact; one that only ever was ignored is infinitely much ignored."""
        counts = fact.signal_breakdown
        good = counts["used"] + counts["helpful"]
        bad = counts["ignored"] + counts["not_helpful"]
        enough = fact.signal_count >= self.min_signals
        return enough and fact.usefulness_score <= self.max_score and bad >= self.against * good


class BankStatistics:
    """The figures of one bank. Every method raises `Unavailable` while Redis is away."""

    def __init__(self, database: Database, shard: Shard, bank: str) -> None:
        """Take the Redis, the bank's shard and its name."""
        self._db = database
        self._shard = shard
        self.bank = bank

    def fact_stats(self, fact_id: str) -> FactStats:
        """What the signals of a fact add up to.

        Raises:
            NotFound: the bank has no signal of this fact.
        """
        packed = self._db.command("HGET", self._shard.key("facts", self.bank), fact_id)
        if packed is None:
            raise NotFound(f"bank {self.bank!r} has no signal of fact {fact_id!r}")
        score, scored_at, last, created, *counts = FACT.unpack(packed)
        return FactStats(
            usefulness_score=decayed(score, self._db.now_ms() - scored_at),
            signal_count=int(sum(counts)),
            signal_breakdown=breakdown(counts),
            last_signal_at=int(last),
            created_at=int(created),
        )

    def stats(self) -> BankStats:
        """What the bank holds and how its facts fare; one round trip, whose cost grows with the logarithm of the facts.

        Raises:
            NotFound: nothing was ever signalled to a bank of this name, and it holds no fact.
        """
        names = ("bank", "facts", "above", "below", "ctxver", "mem", "memtext")
        reply = self._db.run(_stats.call([self._shard.key(name, self.bank) for name in names], [TOP]))
        now, flat, facts, contexts, spread, most, least, begun, held = reply
        fields = bank_fields(flat)
        info, memories = bank_info(fields), memory_info(begun)
        model = info or memories
        if model is None:
            raise NotFound(f"no bank {self.bank!r}; one begins with its first signal, or fact that it is to hold")
        counts: dict[str, int] = {kind: int(fields.get(kind, 0)) for kind in KINDS}
        return BankStats(
            bank=self.bank,
            model=model.model,
            dimension=model.dimension,
            threshold=info.threshold if info else default_threshold(model.model),
            facts=int(facts),
            contexts=int(contexts),
            held_facts=int(held),
            signal_count=sum(counts.values()),
            signal_breakdown=counts,
            last_signal_at=int(last) if (last := fields.get("last_signal_at")) else None,
            created_at=int(begun_at) if (begun_at := fields.get("created_at")) else None,
            average_score=_average(fields, int(facts), int(now)),
            distribution=[int(facts_in) for facts_in in spread],
            most_useful=sorted(_scores(most, int(now)), key=lambda fact: -fact.usefulness_score),
            least_useful=sorted(_scores(least, int(now)), key=lambda fact: fact.usefulness_score),
        )

    def days(self) -> list[BankDay]:
        """The days (UTC) that had signals, oldest first, at most 400."""
        flat = self._db.command("HGETALL", self._shard.key("bankdays", self.bank))
        found = sorted((int(day), _DAY.unpack(packed)) for day, packed in zip(flat[::2], flat[1::2], strict=True))
        return [
            BankDay(
                day=(_EPOCH + timedelta(days=day)).isoformat(),
                average_score=clamp(mean),
                facts=int(facts),
                signal_breakdown=breakdown(counts),
            )
            for day, (mean, facts, *counts) in found
        ]

    def newest(self, limit: int) -> list[dict[str, Any]]:
        """The newest signals as they came, oldest first, at most 1,000.

        Each has its time `at`, the fact's global `score` after it, query and remark.
        """
        raws = self._db.command("LRANGE", self._shard.key("siglog", self.bank), -limit, -1)
        return [msgspec.json.decode(raw, type=dict[str, Any]) for raw in raws]

    def prune_candidates(self, rule: PruneRule, limit: int = 100) -> list[FactScore]:
        """Facts that `rule` names, the least useful first. Nothing is deleted.

        It reads on through the bank, in short calls, until it has enough or scores are above the rule's.
        """
        return list(islice((fact for fact in self._upward(rule.max_score) if rule.names(fact)), limit))

    def _upward(self, most: float) -> Iterator[FactScore]:
        """Facts up to this score, each once, from the lowest on; signals that come meanwhile may hide one."""
        keys = [self._shard.key(name, self.bank) for name in ("facts", "above", "below")]
        told = set[str]()
        for start in count(0, PAGE):
            now, ranked, *flat = self._db.run(_ranked.call(keys, [start, PAGE]))
            for fact in _scores(flat, int(now)):
                if fact.usefulness_score > most:
                    return
                if fact.fact_id not in told:
                    told.add(fact.fact_id)
                    yield fact
            if ranked < PAGE:
                return


def signals_applied(database: Database, layout: Layout) -> dict[str, int]:
    """How many signals the team's banks ever took, by type: counted when they are applied, and only growing."""
    totals: dict[str, int] = dict.fromkeys(KINDS, 0)
    for counts in database.pipeline([("HMGET", shard.key("sigstats"), *KINDS) for shard in layout.all]):
        for kind, applied in zip(KINDS, counts, strict=True):
            totals[kind] += int(applied or 0)
    return totals


def breakdown(counts: Sequence[float]) -> dict[str, int]:
    """Counts in the order of `KINDS`, by signal type."""
    return {kind: int(number) for kind, number in zip(KINDS, counts, strict=True)}


def _scores(flat: Sequence[Any], now: int) -> list[FactScore]:
    found: list[FactScore] = []
    for fact_id, packed in zip(flat[::2], flat[1::2], strict=True):
        score, scored_at, last, _, *counts = FACT.unpack(packed)
        found.append(
            FactScore(
                fact_id=fact_id.decode(),
                usefulness_score=decayed(score, now - scored_at),
                signal_count=int(sum(counts)),
                signal_breakdown=breakdown(counts),
                last_signal_at=int(last),
            )
        )
    return found


def _average(fields: dict[str, str], facts: int, now: int) -> float:
    """The mean of all facts' scores from the sum that each signal keeps, faded to now."""
    if not facts:
        return NEUTRAL
    mean = NEUTRAL + float(fields.get("offset", 0)) / facts
    return clamp(decayed(mean, now - float(fields.get("offset_at", now))))
