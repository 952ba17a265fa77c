"""The threshold from labelled pairs: the counts are right, and the pick does well on pairs that it has not seen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.errors import InvalidInput
from tellback.signals.calibration import Calibration, ThresholdScore
from tellback.signals.matching import reaches_threshold

LABELLED = st.lists(st.tuples(st.floats(-1, 1, width=32), st.booleans()), min_size=2, max_size=60).filter(
    lambda pairs: len({same for _, same in pairs}) == 2
)


def _calibration(pairs: list[tuple[float, bool]]) -> Calibration:
    return Calibration([cosine for cosine, _ in pairs], [same for _, same in pairs])


def _sample(seed: int, pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and labels as they are of real questions: one in five is the same, and the kinds overlap."""
    random = np.random.default_rng(seed)
    same = random.random(pairs) < 0.2
    cosines = np.where(same, random.normal(0.85, 0.09, pairs), random.normal(0.55, 0.25, pairs))
    return np.clip(cosines, -1, 1), same


@given(LABELLED, st.floats(-1, 1))
def test_a_point_is_what_counting_says(pairs: list[tuple[float, bool]], threshold: float) -> None:
    """A pair reaches the threshold here exactly if it does in matching."""
    taken = [same for cosine, same in pairs if reaches_threshold(cosine, threshold)]
    right, same = sum(taken), sum(same for _, same in pairs)
    point = _calibration(pairs).score_at(threshold)
    assert point.precision == pytest.approx(right / len(taken) if taken else 1)
    assert point.recall == pytest.approx(right / same)
    assert point.f1 == pytest.approx(2 * right / (len(taken) + same))


@given(LABELLED)
def test_no_threshold_beats_the_highest(pairs: list[tuple[float, bool]]) -> None:
    calibration = _calibration(pairs)
    highest = calibration.best_f1()
    every = [cosine for cosine, _ in pairs] + [threshold / 100 for threshold in range(101)]
    assert highest.f1 == pytest.approx(max(calibration.score_at(threshold).f1 for threshold in every))
    assert 0 <= calibration.recommended().threshold <= 1


def test_the_pick_lies_midway_where_the_kinds_are_apart() -> None:
    """At either edge the next pair could fall to the other side."""
    calibration = _calibration([(0.3, False)] * 20 + [(0.9, True)] * 20)
    assert calibration.recommended() == ThresholdScore(0.6, 1.0, 1.0, 1.0)
    assert _calibration([(0.3, True), (0.2, False)]).recommended().threshold == pytest.approx(0.25, abs=0.01)


def test_a_chance_peak_does_not_draw_the_pick() -> None:
    """A few same pairs in a row make the raw curve peak far from its broad top."""
    cosines, same = _sample(3, 4_000)
    usual = Calibration(cosines.tolist(), same.tolist()).recommended().threshold
    spike = np.repeat([0.9905, 0.9895], [60, 60])
    drawn = Calibration([*cosines, *spike], [*same, *[True] * 60, *[False] * 60]).recommended().threshold
    assert drawn == pytest.approx(usual, abs=0.03)


def test_the_pick_does_well_on_pairs_that_it_has_not_seen() -> None:
    """Over many samples of 750 pairs it stays within 0.02 of the best possible F1, which 200,000 other pairs show."""
    world = Calibration(*(part.tolist() for part in _sample(0, 200_000)))
    best = world.best_f1().f1
    picks = [
        Calibration(*(part.tolist() for part in _sample(seed, 750))).recommended().threshold for seed in range(1, 201)
    ]
    short = [best - world.score_at(threshold).f1 for threshold in picks]
    assert max(short) < 0.02
    raw = [Calibration(*(part.tolist() for part in _sample(seed, 750))).best_f1().threshold for seed in range(1, 201)]
    assert np.mean(short) < 0.6 * np.mean([best - world.score_at(threshold).f1 for threshold in raw])


@pytest.mark.parametrize(("same", "said"), [([True, True], "all of the 2"), ([False], "none of the 1"), ([], "none")])
def test_one_kind_alone_says_nothing(same: list[bool], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Calibration([0.5] * len(same), same)
