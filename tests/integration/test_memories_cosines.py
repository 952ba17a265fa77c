"""The semantic score of a fact that a bank holds is a cosine, whatever rounding makes of it."""

from __future__ import annotations

import pytest

from tellback import Tellback
from tellback.embedding.memories import MemorySearch
from tests.support.signals import Bench, serving


def test_a_semantic_score_stays_between_minus_one_and_one(
    tb: Tellback, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A float32 product of a vector with itself may be a little above 1."""

    def rounded(*_: object) -> list[tuple[str, float]]:
        return [("same", 1.0000001192092896), ("near", 0.5), ("opposite", -1.0000001192092896)]

    monkeypatch.setattr(MemorySearch, "nearest", rounded)
    bank = tb.bank("b")
    for fact_id in ("same", "near", "opposite"):
        bank.remember(fact_id, "x@0")
    tb.flush()
    bench.drain()
    with serving(bench):
        hits = bank.recall("x@0", wait=20)
    assert [(hit.fact_id, hit.semantic) for hit in hits] == [("same", 1.0), ("near", 0.5), ("opposite", -1.0)]
