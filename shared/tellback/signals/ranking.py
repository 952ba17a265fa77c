"""Ranking what a recall found by relevance and usefulness. Recall never changes a score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from tellback.contracts.signals import Candidate, RecallHit, RecallRequested, Scope
from tellback.signals.scoring import NEUTRAL, final_score

FEW_SIGNALS: Final = 5
"""A fact with fewer is new: `exploration` keeps places for such ones."""


@dataclass(frozen=True, slots=True)
class Usefulness:
    """A fact's score now, where it comes from, and how many signals made it."""

    score: float
    scope: Scope
    signals: int = 0


def rank(request: RecallRequested, usefulness: Sequence[Usefulness], *, degraded: bool = False) -> list[RecallHit]:
    """The best `request.limit` of the candidates, best first; ties keep the candidates' order.

    With `exploration` the last places, that share of `limit` rounded up, go to the most relevant facts that have few
    signals, unless facts with few signals have come so far by themselves.

    Args:
        request: candidates, weight, filter and limit. Without `boost_by_usefulness` the semantic score alone ranks.
        usefulness: one for each candidate, in the same order; `min_usefulness` filters on it, boosted or not.
        degraded: what each hit says of itself.
    """
    weight = request.usefulness_weight if request.boost_by_usefulness else 0.0
    found = [
        (_hit(candidate, score, known.scope, weight, degraded=degraded), known.signals < FEW_SIGNALS)
        for candidate, known in zip(request.candidates or (), usefulness, strict=True)
        if (score := counted(request, known)) >= request.min_usefulness
    ]
    ranked = sorted(found, key=lambda each: -each[0].score)
    places = min(request.limit, len(ranked))
    kept = math.ceil(request.exploration * places - 1e-9)  # 0.3 of 10 are 3, whatever the product says
    if not kept:
        return [hit for hit, _ in ranked[:places]]
    return _explored(ranked, places, kept)


def counted(request: RecallRequested, known: Usefulness) -> float:
    """A fact's usefulness as the request counts it: a penalty has a floor, and wants some signals before it counts."""
    least = request.penalty_floor
    if known.signals < request.penalty_after:
        least = max(least, NEUTRAL)
    return max(known.score, least)


def _explored(ranked: Sequence[tuple[RecallHit, bool]], places: int, kept: int) -> list[RecallHit]:
    """The best, with at least `kept` new facts among them; those that had to be brought in stand last."""
    among = sum(new for _, new in ranked[:places])
    rest = [hit for hit, new in ranked[places:] if new]
    brought = sorted(rest, key=lambda hit: -hit.semantic)[: max(0, kept - among)]
    # The worst of the known ones make room; a new fact that came by itself is not sent away for another.
    leaving = [i for i in reversed(range(places)) if not ranked[i][1]][: len(brought)]
    stay = [ranked[i][0] for i in range(places) if i not in leaving]
    return [*stay, *(msgspec.structs.replace(hit, explored=True) for hit in brought)]


def _hit(candidate: Candidate, score: float, scope: Scope, weight: float, *, degraded: bool) -> RecallHit:
    return RecallHit(
        fact_id=candidate.fact_id,
        score=final_score(candidate.semantic, score, weight),
        semantic=candidate.semantic,
        usefulness=score,
        scope=scope,
        degraded=degraded,
    )
