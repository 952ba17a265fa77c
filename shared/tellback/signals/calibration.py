"""The threshold that labelled pairs of texts recommend for a model: the cosine from which two queries are the same.

Calibration computes precision, recall and F1 by threshold and recommends one. The highest F1 of a sample lies on a
chance peak, so the recommendation is the top of the smoothed curve, in the middle where that is flat: this does better
on pairs that it has not seen. Needs numpy, which comes with the workers: base code must not import this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tellback.errors import InvalidInput

MIN_PAIRS: Final = 100
"""With fewer pairs of either kind the threshold is rough."""

_STEP: Final = 0.001  # thresholds have three decimals

# Width of the smoothing, as a share of the standard deviation of the same pairs' cosines. On the STS benchmark with the
# packaged model 0.4 of it is 0.04; over random halves, half and double that width did worse on the other half.
_WIDTH: Final = 0.4

# Bounds of that width, for pairs whose cosines hardly differ or fill the whole range.
_WIDTHS: Final = (0.005, 0.05)

# Smoothed F1 this near to its top is as good: of such a flat stretch the middle is recommended, not the first point.
_FLAT: Final = 1e-4

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ThresholdScore:
    """The quality of one threshold, if a cosine at or above it means the same.

    `precision` is the share of matched pairs that are the same, `recall` the share of the same pairs that match, `f1`
    their harmonic mean. Precision is 1 if no pair reaches the threshold.
    """

    threshold: float
    precision: float
    recall: float
    f1: float


class Calibration:
    """Labelled pairs by their cosine."""

    def __init__(self, cosines: Sequence[float], same: Sequence[bool]) -> None:
        """Sort the pairs by cosine; `same` holds the judgement of people for each pair.

        Raises:
            InvalidInput: all pairs are the same, or none is, so no threshold separates them.
        """
        values, labels = np.asarray(cosines, np.float64), np.asarray(same, bool)
        self.pairs, self.same = len(labels), int(labels.sum())
        if self.same in {0, self.pairs}:
            which = "all" if self.same else "none"
            raise InvalidInput(f"{which} of the {self.pairs} pairs are the same: give pairs of both kinds")
        order = np.argsort(values, kind="stable")
        # float32, since matching compares in float32: a cosine that rounds to the same float32 as 0.81 reaches it.
        self._cosines = values[order].astype(np.float32)
        self._found = np.concatenate([[0], np.cumsum(labels[order])])
        self._spread = float(values[labels].std())

    def score_at(self, threshold: float) -> ThresholdScore:
        """Return precision, recall and F1 of a threshold."""
        precision, recall, f1 = (float(curve[0]) for curve in self._curves(np.array([threshold])))
        return ThresholdScore(threshold, precision, recall, f1)

    def best_f1(self) -> ThresholdScore:
        """Return the threshold with the highest F1 on these pairs: an upper bound for comparison, not a choice."""
        cosines = np.unique(self._cosines).astype(np.float64)
        best = int(self._curves(cosines)[2].argmax())
        return self.score_at(float(cosines[best]))

    def recommended(self) -> ThresholdScore:
        """Return the threshold to use, to three decimals: the top of the smoothed F1, or the middle of a flat top."""
        grid = np.round(np.arange(0.0, 1.0 + _STEP / 2, _STEP), 3)
        smooth = _smooth(self._curves(grid)[2], min(max(_WIDTH * self._spread, _WIDTHS[0]), _WIDTHS[1]))
        top = int(smooth.argmax())
        return self.score_at(float(grid[_plateau_middle(smooth, top)]))

    def _curves(self, thresholds: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        below = np.searchsorted(self._cosines, thresholds.astype(np.float32), "left")
        taken = self.pairs - below
        right = self.same - self._found[below]
        precision = np.where(taken > 0, right / np.maximum(taken, 1), 1.0)
        return precision, right / self.same, 2 * right / (taken + self.same)


def _smooth(curve: Numbers, width: float) -> Numbers:
    """Return Gaussian-weighted means around each point of the grid, over the points that exist at its ends."""
    reach = round(4 * width / _STEP)
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) * _STEP / width) ** 2)
    return np.asarray(np.convolve(curve, weights, "same") / np.convolve(np.ones_like(curve), weights, "same"))


def _plateau_middle(curve: Numbers, top: int) -> int:
    """Return the middle of the flat stretch around the top."""
    flat = curve >= curve[top] - _FLAT
    below, above = np.flatnonzero(~flat[:top]), np.flatnonzero(~flat[top:])
    first = int(below[-1]) + 1 if len(below) else 0
    last = top + int(above[0]) - 1 if len(above) else len(curve) - 1
    return (first + last) // 2
