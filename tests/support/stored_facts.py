"""Facts that a bank stores, and recalls of them, with the loops run by hand."""

from __future__ import annotations

from typing import Any

from tellback import RecallHit, Tellback
from tellback.state.stored_facts import FactStore
from tests.support.signals import Bench, serving


def remembered(tb: Tellback, bench: Bench, facts: dict[str, str], bank: str = "b") -> None:
    """Store facts and apply them."""
    for fact_id, text in facts.items():
        tb.bank(bank).remember(fact_id, text)
    tb.flush()
    bench.consume()


def found(tb: Tellback, bench: Bench, query: str, *, bank: str = "b", **options: Any) -> list[RecallHit]:
    """Recall from what a bank stores, while the loops are served."""
    given: dict[str, Any] = {"wait": 20, **options}
    with serving(bench):
        return tb.bank(bank).recall(query, **given)


def ids(hits: list[RecallHit]) -> list[str]:
    """Return the ids of hits, in their order."""
    return [hit.fact_id for hit in hits]


def store(tb: Tellback, bank: str = "b") -> FactStore:
    """Return what a bank stores, as a worker reads it."""
    return FactStore(tb.context.database, tb.context.layout.of(bank), bank)
