"""Scores as the source document has them: its tables and worked examples, then properties."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.contracts.signals import SignalType
from tellback.signals.scoring import NEUTRAL, WEEK_MS, WEIGHTS, clamp, decayed, delta, final_score, moved

DAY_MS = WEEK_MS / 7
scores = st.floats(0, 1)
times = st.floats(0, 200 * WEEK_MS)
types = st.sampled_from(get_args(SignalType))


@pytest.mark.parametrize(
    ("signal_type", "weight", "effect"),
    [("used", 1.0, 0.10), ("ignored", -0.5, -0.05), ("helpful", 1.5, 0.15), ("not_helpful", -1.0, -0.10)],
)
def test_table_of_signal_types(signal_type: SignalType, weight: float, effect: float) -> None:
    """feedback-signals, "Signal Types" and "Score Updates"."""
    assert WEIGHTS[signal_type] == weight
    assert moved(NEUTRAL, 0, delta(signal_type, 1.0)) == pytest.approx(0.5 + effect)


def test_initial_score_is_neutral() -> None:
    """feedback-signals, "Initial Score"."""
    assert NEUTRAL == 0.5


def test_confidence_scales_the_delta() -> None:
    """The ignored facts of the document's example are signalled with confidence 0.5."""
    assert delta("ignored", 0.5) == pytest.approx(-0.025)
    assert delta("used", 0.0) == 0


@pytest.mark.parametrize(
    ("score", "days", "expected"),
    [(1.0, 7, 0.975), (0.0, 7, 0.025), (0.9, 14, 0.5 + 0.4 * 0.95**2), (0.7, 3.5, 0.5 + 0.2 * 0.95**0.5)],
)
def test_time_decay(score: float, days: float, expected: float) -> None:
    """feedback-signals, "Time Decay": 5 % a week toward 0.5, from either side."""
    assert decayed(score, days * DAY_MS) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("fact", "semantic", "usefulness", "final"), [("A", 0.80, 0.90, 0.83), ("B", 0.90, 0.30, 0.72)]
)
def test_how_boosting_works(fact: str, semantic: float, usefulness: float, final: float) -> None:
    """feedback-signals, "How Boosting Works": the example with weight 0.3."""
    assert final_score(semantic, usefulness, 0.3) == pytest.approx(final), fact


def test_clamp_at_both_ends() -> None:
    assert (clamp(1.1), clamp(-0.1), clamp(0.3)) == (1.0, 0.0, 0.3)


def test_a_clock_that_goes_back_grows_nothing() -> None:
    assert decayed(0.9, -10 * WEEK_MS) == 0.9
    assert decayed(0.1, -10 * WEEK_MS) == 0.1


@given(scores, times, types, scores)
def test_scores_stay_in_bounds(score: float, elapsed: float, signal_type: SignalType, confidence: float) -> None:
    assert 0 <= moved(score, elapsed, delta(signal_type, confidence)) <= 1
    assert 0 <= decayed(score, elapsed) <= 1


@given(times)
def test_neutral_is_a_fixed_point_of_decay(elapsed: float) -> None:
    assert decayed(NEUTRAL, elapsed) == NEUTRAL


@given(scores, times, times)
def test_decay_composes(score: float, first: float, second: float) -> None:
    """Decay written back in between, or not, is the same to a reader."""
    assert decayed(decayed(score, first), second) == pytest.approx(decayed(score, first + second), abs=1e-12)


@given(scores, times, times)
def test_decay_only_nears_neutral(score: float, first: float, more: float) -> None:
    assert abs(decayed(score, first + more) - NEUTRAL) <= abs(decayed(score, first) - NEUTRAL) + 1e-15


@given(scores, scores, times)
def test_decay_keeps_order(a: float, b: float, elapsed: float) -> None:
    low, high = sorted((a, b))
    assert decayed(low, elapsed) <= decayed(high, elapsed)


def test_signals_commute_except_at_the_clamp() -> None:
    """Away from the ends order does not matter; at an end it does, so a batch is applied in order."""
    up, down = delta("helpful", 1), delta("not_helpful", 1)
    assert moved(moved(0.5, 0, up), 0, down) == pytest.approx(moved(moved(0.5, 0, down), 0, up))
    assert moved(moved(1.0, 0, up), 0, down) == pytest.approx(0.9)
    assert moved(moved(1.0, 0, down), 0, up) == pytest.approx(1.0)
