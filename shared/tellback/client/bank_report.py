"""A bank's figures over time, as `tellback stats --bank` shows them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tellback.client.context import Context
from tellback.client.model_state import ModelState, model_state
from tellback.contracts.signals import BankDay, BankStats
from tellback.state.bank_stats import BankStatistics
from tellback.state.decay import Decay

HISTORIES: Final = 8
NEWEST: Final = 1_000


class FactHistory(msgspec.Struct, frozen=True, kw_only=True):
    """A fact's global score after each of its latest signals; times are milliseconds, server time."""

    fact_id: str
    at: list[int]
    scores: list[float]


class BankReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a bank holds now, its latest days, and how the scores of its most signalled facts moved.

    `histories` come from the newest 1,000 signals, which go seven days after the last. `decayed` is the ISO week whose
    decay is done in the bank's shard, None before the first. `model` says whether signals can be applied.
    """

    stats: BankStats
    days: list[BankDay]
    histories: list[FactHistory]
    decayed: str | None
    model: ModelState


def bank_report(context: Context, bank: str, days: int) -> BankReport:
    """The bank, with its newest `days` days that had signals.

    Raises:
        NotFound: nothing was ever signalled to a bank of this name.
        Unavailable: Redis is away.
    """
    shard = context.layout.of(bank)
    found = BankStatistics(context.database, shard, bank)
    states = {state.shard: state for state in Decay(context.database, context.layout).states()}
    return BankReport(
        stats=found.stats(),
        days=found.days()[-days:],
        histories=histories(found.newest(NEWEST)),
        decayed=states[shard.index].done if shard.index in states else None,
        model=model_state(context),
    )


def histories(signals: list[dict[str, Any]]) -> list[FactHistory]:
    """The facts with the most of these signals, at most eight, each with its score after every one of them."""
    facts: dict[str, FactHistory] = {}
    for signal in signals:
        if "score" in signal:
            fact = facts.setdefault(signal["fact_id"], FactHistory(fact_id=signal["fact_id"], at=[], scores=[]))
            fact.at.append(signal["at"])
            fact.scores.append(signal["score"])
    return sorted(facts.values(), key=lambda fact: -len(fact.at))[:HISTORIES]
