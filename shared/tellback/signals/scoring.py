"""How a signal moves a score, how a score fades, and how it weighs in a ranking.

Source: feedback-signals, "Score Algorithm" and "How Boosting Works".
"""

from __future__ import annotations

from typing import Final

from tellback.contracts.signals import SignalType

WEIGHTS: Final[dict[SignalType, float]] = {"used": 1.0, "ignored": -0.5, "helpful": 1.5, "not_helpful": -1.0}
NEUTRAL: Final = 0.5
STEP: Final = 0.1
DECAY_PER_WEEK: Final = 0.95
WEEK_MS: Final = 7 * 86_400_000


def delta(signal_type: SignalType, confidence: float) -> float:
    """What one signal adds to a score: weight x confidence x 0.1."""
    return WEIGHTS[signal_type] * confidence * STEP


def clamp(score: float) -> float:
    """The score, kept in [0, 1]."""
    return min(max(score, 0.0), 1.0)


def decayed(score: float, elapsed_ms: float) -> float:
    """The score after `elapsed_ms` without a signal: 5 % a week toward 0.5. A clock that went back changes nothing."""
    if elapsed_ms <= 0:
        return score
    faded: float = DECAY_PER_WEEK ** (elapsed_ms / WEEK_MS)
    return NEUTRAL + (score - NEUTRAL) * faded


def moved(score: float, elapsed_ms: float, change: float) -> float:
    """The score after one signal that came `elapsed_ms` after the last: decay, then `change`, then clamp."""
    return clamp(decayed(score, elapsed_ms) + change)


def final_score(semantic: float, usefulness: float, weight: float) -> float:
    """(1 - weight) x semantic + weight x usefulness."""
    return (1 - weight) * semantic + weight * usefulness
