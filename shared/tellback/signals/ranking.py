"""Scores and ranking: how a signal moves a score, how scores decay, and how they weigh in a recall's ranking.

The rules of a score here must agree with the Lua scripts that apply signals. A recall never changes a score.
Requirements S-1, S-11, S-12, S-16, S-17 and S-33.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

import msgspec

from tellback.contracts.signal_types import DECAY_PER_WEEK, NEUTRAL, SIGNAL_TYPES, STEP, WEEK_MS, SignalType
from tellback.contracts.signals import Candidate, RecallHit, RecallRequested, Scope

WEIGHTS: Final[dict[SignalType, float]] = {kind.name: kind.weight for kind in SIGNAL_TYPES}


def score_delta(signal_type: SignalType, confidence: float) -> float:
    """Return the change of a score by one signal: weight x confidence x 0.1."""
    return WEIGHTS[signal_type] * confidence * STEP


def clamp_score(score: float) -> float:
    """Return the score limited to [0, 1]."""
    return min(max(score, 0.0), 1.0)


def decay_score(score: float, elapsed_ms: float) -> float:
    """Return the score after `elapsed_ms` without a signal: 5 % a week toward 0.5.

    A negative time changes nothing, since clocks can step back.
    """
    if elapsed_ms <= 0:
        return score
    faded: float = DECAY_PER_WEEK ** (elapsed_ms / WEEK_MS)
    return NEUTRAL + (score - NEUTRAL) * faded


def combined_score(semantic: float, usefulness: float, weight: float) -> float:
    """Return (1 - weight) x semantic + weight x usefulness."""
    return (1 - weight) * semantic + weight * usefulness


FEW_SIGNALS: Final = 5
"""A fact with fewer signals is new: `exploration` reserves places for those."""


class Usefulness(msgspec.Struct, frozen=True):
    """A fact's current score, the scope it comes from, and the number of its signals."""

    score: float
    scope: Scope
    signals: int = 0


_Ranked = tuple[float, Candidate, float, Usefulness]
"""A candidate with its score before it and the usefulness that counted after it."""


def rank_candidates(
    request: RecallRequested, usefulness: Sequence[Usefulness], *, degraded: bool = False
) -> list[RecallHit]:
    """Return the best `request.limit` candidates, best first; ties keep the candidates' order.

    `exploration` reserves that share of `limit`, rounded up, for facts with few signals. Places that such facts did not
    win by themselves go, at the end, to the most relevant of the others.

    Args:
        request: candidates, weight, filter and limit. Without `boost_by_usefulness` only the semantic score ranks.
        usefulness: one per candidate, in the same order; `min_usefulness` filters on it, boosted or not.
        degraded: the value of each hit's `degraded`.
    """
    weight = request.usefulness_weight if request.boost_by_usefulness else 0.0
    found: list[_Ranked] = []
    for candidate, known in zip(request.candidates or (), usefulness, strict=True):
        useful = effective_usefulness(request, known)
        if useful >= request.min_usefulness:
            found.append((combined_score(candidate.semantic, useful, weight), candidate, useful, known))
    found.sort(key=itemgetter(0), reverse=True)  # stable, reversed too: ties keep their order
    places = min(request.limit, len(found))
    kept = math.ceil(request.exploration * places - 1e-9)  # 0.07 * 100 is 7.000000000000001, which must not become 8
    stay, explored = _with_exploration(found, places, kept) if kept else (found[:places], [])
    return [
        RecallHit(
            fact_id=candidate.fact_id,
            score=score,
            semantic=candidate.semantic,
            usefulness=useful,
            scope=known.scope,
            degraded=degraded,
            explored=is_explored,
        )
        for some, is_explored in ((stay, False), (explored, True))
        for score, candidate, useful, known in some
    ]


def effective_usefulness(request: RecallRequested, usefulness: Usefulness) -> float:
    """Return a fact's usefulness for this request: no lower than its floor, and no penalty before enough signals."""
    least = request.penalty_floor
    if usefulness.signals < request.penalty_after:
        least = max(least, NEUTRAL)
    return max(usefulness.score, least)


def _with_exploration(found: Sequence[_Ranked], places: int, kept: int) -> tuple[list[_Ranked], list[_Ranked]]:
    """Return the best with at least `kept` new facts among them: those that stay, and those added at the end."""
    among = sum(_is_new(each) for each in found[:places])
    rest = [each for each in found[places:] if _is_new(each)]
    brought = sorted(rest, key=lambda each: -each[1].semantic)[: max(0, kept - among)]
    # The lowest-ranked known facts give up their places. A new fact that won its place never does.
    leaving = [i for i in reversed(range(places)) if not _is_new(found[i])][: len(brought)]
    return [found[i] for i in range(places) if i not in leaving], brought


def _is_new(ranked: _Ranked) -> bool:
    return ranked[3].signals < FEW_SIGNALS
