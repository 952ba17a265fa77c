"""Scores: tables and worked examples, then properties. Requirements S-12, S-16 and S-33."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.contracts.signal_types import NEUTRAL, WEEK_MS
from tellback.signals.ranking import WEIGHTS, clamp_score, combined_score, decay_score, score_delta

DAY_MS = WEEK_MS / 7
scores = st.floats(0, 1)
times = st.floats(0, 200 * WEEK_MS)


def test_table_of_signal_types() -> None:
    """Requirements S-1 and S-12: every type with its weight, and its effect at full confidence."""
    promised = {"used": (1.0, 0.10), "ignored": (-0.5, -0.05), "helpful": (1.5, 0.15), "not_helpful": (-1.0, -0.10)}
    assert {signal_type: weight for signal_type, (weight, _) in promised.items()} == WEIGHTS
    for signal_type in WEIGHTS:
        assert score_delta(signal_type, 1.0) == pytest.approx(promised[signal_type][1]), signal_type


def test_initial_score_is_neutral() -> None:
    """A fact without signals has 0.5. Requirement S-11."""
    assert NEUTRAL == 0.5


def test_confidence_scales_the_delta() -> None:
    """Ignored facts signalled with confidence 0.5 lose half as much."""
    assert score_delta("ignored", 0.5) == pytest.approx(-0.025)
    assert score_delta("used", 0.0) == 0


@pytest.mark.parametrize(
    ("score", "days", "expected"),
    [(1.0, 7, 0.975), (0.0, 7, 0.025), (0.9, 14, 0.5 + 0.4 * 0.95**2), (0.7, 3.5, 0.5 + 0.2 * 0.95**0.5)],
)
def test_time_decay(score: float, days: float, expected: float) -> None:
    """Requirement S-16: 5 % a week toward 0.5, from either side."""
    assert decay_score(score, days * DAY_MS) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("fact", "semantic", "usefulness", "final"), [("A", 0.80, 0.90, 0.83), ("B", 0.90, 0.30, 0.72)]
)
def test_how_boosting_works(fact: str, semantic: float, usefulness: float, final: float) -> None:
    """Requirement S-33: the example with weight 0.3."""
    assert combined_score(semantic, usefulness, 0.3) == pytest.approx(final), fact


def test_clamp_at_both_ends() -> None:
    assert (clamp_score(1.1), clamp_score(-0.1), clamp_score(0.3)) == (1.0, 0.0, 0.3)


def test_a_clock_that_goes_back_grows_nothing() -> None:
    assert decay_score(0.9, -10 * WEEK_MS) == 0.9
    assert decay_score(0.1, -10 * WEEK_MS) == 0.1


@given(times)
def test_neutral_is_a_fixed_point_of_decay(elapsed: float) -> None:
    assert decay_score(NEUTRAL, elapsed) == NEUTRAL


@given(scores, times, times)
def test_decay_composes(score: float, first: float, second: float) -> None:
    """Decay written back in between, or not, is the same to a reader."""
    assert decay_score(decay_score(score, first), second) == pytest.approx(
        decay_score(score, first + second), abs=1e-12
    )


@given(scores, times, times)
def test_decay_only_nears_neutral(score: float, first: float, more: float) -> None:
    assert abs(decay_score(score, first + more) - NEUTRAL) <= abs(decay_score(score, first) - NEUTRAL) + 1e-15


@given(scores, scores, times)
def test_decay_keeps_order(a: float, b: float, elapsed: float) -> None:
    low, high = sorted((a, b))
    assert decay_score(low, elapsed) <= decay_score(high, elapsed)
