"""Ranking of recalled facts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.contracts.signals import Candidate, RecallHit, RecallRequested
from tellback.signals.ranking import Usefulness, rank_candidates

CANDIDATES = [Candidate("A", 0.80), Candidate("B", 0.90)]
USEFULNESS = [Usefulness(0.90, "cluster"), Usefulness(0.30, "global")]


def ask(
    candidates: list[Candidate], *, boost: bool = True, weight: float = 0.3, least: float = 0.0, limit: int = 10
) -> RecallRequested:
    return RecallRequested(
        event_id="e",
        bank="b",
        query="q",
        candidates=candidates,
        limit=limit,
        boost_by_usefulness=boost,
        usefulness_weight=weight,
        min_usefulness=least,
    )


def ids(hits: list[RecallHit]) -> list[str]:
    return [hit.fact_id for hit in hits]


def test_a_useful_fact_passes_a_closer_one() -> None:
    """Requirement S-33: with weight 0.3, A (0.80, 0.90) ranks at 0.83 before B (0.90, 0.30) at 0.72."""
    hits = rank_candidates(ask(CANDIDATES), USEFULNESS)
    assert ids(hits) == ["A", "B"]
    assert [hit.score for hit in hits] == pytest.approx([0.83, 0.72])
    assert [(hit.semantic, hit.usefulness, hit.scope) for hit in hits] == [(0.8, 0.9, "cluster"), (0.9, 0.3, "global")]


def test_without_the_boost_relevance_alone_ranks() -> None:
    hits = rank_candidates(ask(CANDIDATES, boost=False), USEFULNESS)
    assert [(hit.fact_id, hit.score) for hit in hits] == [("B", 0.9), ("A", 0.8)]


def test_weight_zero_and_one_are_the_two_ends() -> None:
    assert [hit.score for hit in rank_candidates(ask(CANDIDATES, weight=0.0), USEFULNESS)] == [0.9, 0.8]
    assert [hit.score for hit in rank_candidates(ask(CANDIDATES, weight=1.0), USEFULNESS)] == [0.9, 0.3]


def test_the_filter_is_on_usefulness_and_inclusive() -> None:
    assert ids(rank_candidates(ask(CANDIDATES, least=0.9), USEFULNESS)) == ["A"]
    assert ids(rank_candidates(ask(CANDIDATES, least=0.3), USEFULNESS)) == ["A", "B"]


def test_an_unknown_fact_counts_as_neutral() -> None:
    unknown = [Usefulness(0.5, "neutral")]
    assert ids(rank_candidates(ask([Candidate("new", 0.1)], least=0.5), unknown)) == ["new"]
    assert ids(rank_candidates(ask([Candidate("new", 0.1)], least=0.51), unknown)) == []


def test_ties_keep_the_order_of_the_candidates() -> None:
    same = [Candidate(name, 0.7) for name in "zaymb"]
    assert ids(rank_candidates(ask(same), [Usefulness(0.5, "neutral")] * 5)) == list("zaymb")


def test_degraded_is_said_by_each_hit() -> None:
    assert all(hit.degraded for hit in rank_candidates(ask(CANDIDATES), USEFULNESS, degraded=True))


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 1)), max_size=30), st.integers(1, 10), st.floats(0, 1))
def test_ranking_is_sorted_limited_and_filtered(pairs: list[tuple[float, float]], limit: int, least: float) -> None:
    candidates = [Candidate(str(i), semantic) for i, (semantic, _) in enumerate(pairs)]
    known = [Usefulness(score, "global") for _, score in pairs]
    hits = rank_candidates(ask(candidates, limit=limit, least=least), known)
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert len(hits) == min(limit, sum(score >= least for _, score in pairs))
    assert all(hit.usefulness >= least for hit in hits)
