"""The result of a row, and its form in the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one run: how much a second, and how much processor time each took, in microseconds."""

    rate: float
    cpu_us: float
    of_ours_us: float = 0.0  # of it, all but that of Redis
    shares: str = ""  # of processor time, by process


@dataclass(frozen=True, slots=True)
class RowResult:
    """Ratios of one row, one for each repetition; `sense` says on which side of `budget` they should lie."""

    name: str
    what: str
    ratios: Sequence[float]
    budget: float
    sense: Literal["at least", "at most"]
    details: Sequence[str] = field(default=())

    @property
    def median(self) -> float:
        return median(self.ratios)

    @property
    def met(self) -> bool:
        return self.median >= self.budget if self.sense == "at least" else self.median <= self.budget

    def lines(self) -> list[str]:
        """The row as a person reads it."""
        spread = f"{min(self.ratios):.2f} to {max(self.ratios):.2f} over {len(self.ratios)} runs"
        verdict = "met" if self.met else "NOT met"
        return [
            f"{self.name}: {self.what}",
            f"    median {self.median:.2f} ×  ({spread});  budget {self.sense} {self.budget:g} ×: {verdict}",
            *(f"    {line}" for line in self.details),
        ]


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Median and range of absolute figures."""
    low, middle, high = (f"{value:,.{digits}f}" for value in (min(values), median(values), max(values)))
    return f"{middle} ({low} to {high})"
