"""Ranking what a recall found by relevance and usefulness. Recall never changes a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tellback.contracts.signals import Candidate, RecallHit, RecallRequested, Scope
from tellback.signals.scoring import final_score


@dataclass(frozen=True, slots=True)
class Usefulness:
    """A fact's score now, and where it comes from."""

    score: float
    scope: Scope


def rank(request: RecallRequested, usefulness: Sequence[Usefulness], *, degraded: bool = False) -> list[RecallHit]:
    """The best `request.limit` of the candidates, best first; ties keep the candidates' order.

    Args:
        request: candidates, weight, filter and limit. Without `boost_by_usefulness` the semantic score alone ranks.
        usefulness: one for each candidate, in the same order; `min_usefulness` filters on it, boosted or not.
        degraded: what each hit says of itself.
    """
    weight = request.usefulness_weight if request.boost_by_usefulness else 0.0
    hits = [
        _hit(candidate, known, weight, degraded=degraded)
        for candidate, known in zip(request.candidates, usefulness, strict=True)
        if known.score >= request.min_usefulness
    ]
    return sorted(hits, key=lambda hit: -hit.score)[: request.limit]


def _hit(candidate: Candidate, known: Usefulness, weight: float, *, degraded: bool) -> RecallHit:
    return RecallHit(
        fact_id=candidate.fact_id,
        score=final_score(candidate.semantic, known.score, weight),
        semantic=candidate.semantic,
        usefulness=known.score,
        scope=known.scope,
        degraded=degraded,
    )
