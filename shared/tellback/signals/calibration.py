"""From which cosine on two queries are the same: precision, recall and F1 of labelled pairs by threshold, and a pick.

The highest F1 of a sample lies on a chance peak of it. The pick is the top of the curve when that is smoothed, in the
middle where it is flat, so that it does well on pairs that it has not seen. numpy comes with the workers: base code
does not import this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tellback.errors import InvalidInput

FEW: Final = 100
"""Fewer pairs of either kind give a rough threshold."""

_STEP: Final = 0.001
# Share of the spread of the same pairs' cosines over which the curve is smoothed. 0.4 of it is 0.04 for the packaged
# model on the STS benchmark; over random halves, half of that and double it did worse on the other half.
_WIDTH: Final = 0.4
_WIDTHS: Final = (0.005, 0.05)
_FLAT: Final = 1e-4

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Point:
    """How well pairs are told apart at one threshold; same means a cosine at or above it.

    `precision` is the share of the pairs taken for the same that are, `recall` the share of the same ones found, `f1`
    their harmonic mean. Where no pair reaches the threshold, precision is 1.
    """

    threshold: float
    precision: float
    recall: float
    f1: float


class Calibration:
    """Labelled pairs by their cosine."""

    def __init__(self, cosines: Sequence[float], same: Sequence[bool]) -> None:
        """Take each pair's cosine, and whether people call it the same.

        Raises:
            InvalidInput: all pairs are the same, or none is: nothing can be told apart.
        """
        values, labels = np.asarray(cosines, np.float64), np.asarray(same, bool)
        self.pairs, self.same = len(labels), int(labels.sum())
        if self.same in {0, self.pairs}:
            which = "all" if self.same else "none"
            raise InvalidInput(f"{which} of the {self.pairs} pairs are the same: give pairs of both kinds")
        order = np.argsort(values, kind="stable")
        # A match is decided in float32, and so is it here: a threshold of 0.81 is reached by the float32 next to it.
        self._cosines = values[order].astype(np.float32)
        self._found = np.concatenate([[0], np.cumsum(labels[order])])
        self._spread = float(values[labels].std())

    def at(self, threshold: float) -> Point:
        """How well a threshold does."""
        precision, recall, f1 = (float(curve[0]) for curve in self._curves(np.array([threshold])))
        return Point(threshold, precision, recall, f1)

    def highest(self) -> Point:
        """The threshold of the highest F1 of these very pairs: the bar, not the pick."""
        cosines = np.unique(self._cosines).astype(np.float64)
        best = int(self._curves(cosines)[2].argmax())
        return self.at(float(cosines[best]))

    def pick(self) -> Point:
        """The threshold to use, to three decimals: the top of the smoothed F1, in its middle where that is flat."""
        grid = np.round(np.arange(0.0, 1.0 + _STEP / 2, _STEP), 3)
        smooth = _smoothed(self._curves(grid)[2], min(max(_WIDTH * self._spread, _WIDTHS[0]), _WIDTHS[1]))
        top = int(smooth.argmax())
        return self.at(float(grid[_middle(smooth, top)]))

    def _curves(self, thresholds: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        below = np.searchsorted(self._cosines, thresholds.astype(np.float32), "left")
        taken = self.pairs - below
        right = self.same - self._found[below]
        precision = np.where(taken > 0, right / np.maximum(taken, 1), 1.0)
        return precision, right / self.same, 2 * right / (taken + self.same)


def _smoothed(curve: Numbers, width: float) -> Numbers:
    """Weighted means around each point of the grid; at its ends, of what is there."""
    reach = round(4 * width / _STEP)
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) * _STEP / width) ** 2)
    return np.asarray(np.convolve(curve, weights, "same") / np.convolve(np.ones_like(curve), weights, "same"))


def _middle(curve: Numbers, top: int) -> int:
    """The middle of the flat stretch around the top."""
    flat = curve >= curve[top] - _FLAT
    below, above = np.flatnonzero(~flat[:top]), np.flatnonzero(~flat[top:])
    first = int(below[-1]) + 1 if len(below) else 0
    last = top + int(above[0]) - 1 if len(above) else len(curve) - 1
    return (first + last) // 2
