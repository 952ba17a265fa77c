"""Statistics of a bank. They are updated with each signal, and reading them does not read every fact."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count, islice
from struct import Struct
from typing import Any, Final

import msgspec

from tellback.contracts.signal_types import KINDS, NEUTRAL, SIGNAL_TYPES
from tellback.contracts.signals import BankDay, BankStats, FactScore, FactStats
from tellback.errors import NotFound
from tellback.signals.models import default_threshold
from tellback.signals.ranking import clamp_score, decay_score
from tellback.state.banks import bank_info, text_fields, unpack_fact
from tellback.state.database import Database
from tellback.state.keys import Layout, Shard
from tellback.state.readable import readable, reading, summed_counts
from tellback.state.scripts import signals as scripts
from tellback.state.stored_facts import stored_facts_info

TOP: Final = 10
PAGE: Final = 500

_DAY: Final = Struct(f"<{2 + len(KINDS)}d")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC).date()


class PruneRule(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that a person may want to delete from the store that recalls search; all three conditions must hold.

    `min_against` is the number of signals against a fact for each signal for it, as `SIGNAL_TYPES` counts them.
    """

    max_score: float = 0.3
    min_signals: int = 5
    min_against: float = 2.0

    def matches(self, fact: FactScore) -> bool:
        """Check a fact against the rule; without any good signal, every ratio is reached."""
        counts = fact.signal_breakdown
        good = sum(counts[kind.name] for kind in SIGNAL_TYPES if kind.prune == "for")
        bad = sum(counts[kind.name] for kind in SIGNAL_TYPES if kind.prune == "against")
        enough = fact.signal_count >= self.min_signals
        return enough and fact.usefulness_score <= self.max_score and bad >= self.min_against * good


class BankStatistics:
    """The statistics of one bank. Every method raises `Unavailable` while Redis is away."""

    def __init__(self, database: Database, shard: Shard, bank: str) -> None:
        self._db = database
        self._shard = shard
        self.bank = bank

    def fact_stats(self, fact_id: str) -> FactStats:
        """Return the score and signal counts of a fact.

        Raises:
            NotFound: the bank has no signal of this fact.
        """
        packed = self._db.command("HGET", self._shard.key("factscore", self.bank), fact_id)
        if packed is None:
            raise NotFound(f"bank {self.bank!r} has no signal of fact {fact_id!r}")
        score, scored_at, last, created, *counts = unpack_fact(packed)
        return FactStats(
            usefulness_score=decay_score(score, self._db.now_ms() - scored_at),
            signal_count=int(sum(counts)),
            signal_breakdown=by_signal_type(counts),
            last_signal_at=int(last),
            created_at=int(created),
        )

    def stats(self) -> BankStats:
        """Return the bank's size and scores in one round trip.

        The cost grows with the logarithm of the facts: 70 µs of Redis in a bank of 100,000.

        Raises:
            NotFound: no bank of this name has a signal or a stored fact.
        """
        key = self._shard.key("bank", self.bank)
        with reading(key):
            return self._bank_stats(self._db.run(scripts.bank_stats(bank=key, top=TOP)))

    def _bank_stats(self, reply: Any) -> BankStats:
        now, flat, facts, clusters, spread, most, least, begun, held = reply
        fields = text_fields(flat)
        info, stored = bank_info(fields), stored_facts_info(begun)
        model = info or stored
        if model is None:
            raise NotFound(f"no bank {self.bank!r}; its first signal or stored fact creates it")
        counts: dict[str, int] = {kind: int(fields.get(kind, 0)) for kind in KINDS}
        return BankStats(
            bank=self.bank,
            model=model.model,
            dimension=model.dimension,
            threshold=info.threshold if info else default_threshold(model.model),
            facts=int(facts),
            clusters=int(clusters),
            stored_facts=int(held),
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
        """Return the days (UTC) that had signals, oldest first, at most 400."""
        flat = self._db.command("HGETALL", self._shard.key("bankdays", self.bank))
        found = readable("day of a bank", zip(flat[::2], flat[1::2], strict=True), _bank_day)
        return sorted(found, key=lambda day: day.day)

    def newest_signals(self, limit: int) -> list[dict[str, Any]]:
        """Return the newest signals, oldest first, at most 1,000.

        Each has its time `at`, the fact's global `score` after it, its query and its remark.
        """
        raws = self._db.command("LRANGE", self._shard.key("siglog", self.bank), -limit, -1)
        return readable("signal", raws, msgspec.json.Decoder(dict[str, Any]).decode)

    def prune_candidates(self, rule: PruneRule, limit: int = 100) -> list[FactScore]:
        """Return facts that match `rule`, the least useful first. Nothing is deleted.

        This reads the bank in short calls until it has enough facts or the scores exceed the rule's.
        """
        matching = (fact for fact in self._lowest_scores(rule.max_score) if rule.matches(fact))
        return list(islice(matching, min(limit, sys.maxsize)))

    def _lowest_scores(self, most: float) -> Iterator[FactScore]:
        """Yield facts up to this score, each once, lowest first; a signal during the read may hide one."""
        page = partial(scripts.rank_facts, factscore=self._shard.key("factscore", self.bank), limit=PAGE)
        seen = set[str]()
        for start in count(0, PAGE):
            now, ranked, *flat = self._db.run(page(start=start))
            # A signal may move a fact to a later page between two calls; `seen` keeps it from being listed twice.
            for fact in _scores(flat, int(now)):
                if fact.usefulness_score > most:
                    return
                if fact.fact_id not in seen:
                    seen.add(fact.fact_id)
                    yield fact
            if ranked < PAGE:
                return


def signals_applied(database: Database, layout: Layout) -> dict[str, int]:
    """Return how many signals were ever applied to the team's banks, by type."""
    return summed_counts(database, [shard.key("sigstats") for shard in layout.all], KINDS)


def unpack_day(packed: bytes) -> tuple[float, ...]:
    """Unpack a day of a bank: mean, facts, and counts, padded as `unpack_fact` pads a fact's."""
    return _DAY.unpack(packed[: _DAY.size].ljust(_DAY.size, b"\0"))


def _bank_day(pair: tuple[bytes, bytes]) -> BankDay:
    mean, facts, *counts = unpack_day(pair[1])
    return BankDay(
        day=(_EPOCH + timedelta(days=int(pair[0]))).isoformat(),
        average_score=clamp_score(mean),
        facts=int(facts),
        signal_breakdown=by_signal_type(counts),
    )


def by_signal_type(counts: Sequence[float]) -> dict[str, int]:
    """Return counts in the order of `KINDS` as a dict by signal type."""
    return {kind: int(number) for kind, number in zip(KINDS, counts, strict=True)}


def _scores(flat: Sequence[Any], now: int) -> list[FactScore]:
    found: list[FactScore] = []
    for fact_id, packed in zip(flat[::2], flat[1::2], strict=True):
        score, scored_at, last, _, *counts = unpack_fact(packed)
        found.append(
            FactScore(
                fact_id=fact_id.decode(),
                usefulness_score=decay_score(score, now - scored_at),
                signal_count=int(sum(counts)),
                signal_breakdown=by_signal_type(counts),
                last_signal_at=int(last),
            )
        )
    return found


def _average(fields: dict[str, str], facts: int, now: int) -> float:
    """Return the mean of all scores now, from the sum that each signal updates: it decays as the scores do."""
    if not facts:
        return NEUTRAL
    mean = NEUTRAL + float(fields.get("offset", 0)) / facts
    return clamp_score(decay_score(mean, now - float(fields.get("offset_at", now))))
