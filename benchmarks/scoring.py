"""The score of nudges against labelled stretches: pure functions of what was reported at which call.

A nudge is right inside a stretch that is labelled stuck, from the call on at which the evidence is complete; one that
comes earlier, or while the agent gets on, is false. A stuck stretch is reported if a nudge came within three calls of
that call. Nudges in stretches on which readers could differ are counted apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import median
from typing import Final

from benchmarks.labels.stretches import Stretch

IN_TIME: Final = 3  # calls after the evidence is complete

_Z: Final = 1.96  # of a two-sided interval of 95 %


@dataclass(frozen=True, slots=True)
class Share:
    """A number of things out of a number, with its Wilson interval, which holds for few things too."""

    part: int
    whole: int

    @property
    def value(self) -> float | None:
        """The share, or None of nothing."""
        return self.part / self.whole if self.whole else None

    @property
    def interval(self) -> tuple[float, float]:
        """The interval that holds the true share 95 times in 100."""
        n, square = self.whole, _Z * _Z
        if not n:
            return 0.0, 1.0
        middle = (self.part + square / 2) / (n + square)
        reach = _Z * sqrt(self.part * (n - self.part) / n + square / 4) / (n + square)
        return max(0.0, middle - reach), min(1.0, middle + reach)

    def __str__(self) -> str:
        if self.value is None:
            return "none"
        low, high = self.interval
        return f"{self.value:.2f} ({self.part} of {self.whole}; {low:.2f} to {high:.2f})"


@dataclass(frozen=True, slots=True)
class StretchNudge:
    """A stuck stretch, and the first call from its evidence on at which it was reported, if any."""

    stretch: Stretch
    call: int | None

    @property
    def delay(self) -> int | None:
        """The calls between the evidence and the nudge."""
        assert self.stretch.since is not None  # only stuck stretches are reported
        return None if self.call is None else self.call - self.stretch.since


@dataclass(slots=True)
class LabelScore:
    """The counts of nudges in labelled transcripts."""

    right: int = 0
    false: int = 0
    unclear: int = 0
    stretches: list[StretchNudge] = field(default_factory=list[StretchNudge])
    false_kinds: Counter[str] = field(default_factory=Counter[str])

    @property
    def precision(self) -> Share:
        """The share of nudges that were right, of those in stretches that are clear."""
        return Share(self.right, self.right + self.false)

    @property
    def recall(self) -> Share:
        """The share of stuck stretches that were reported in time."""
        in_time = sum(each.delay is not None and each.delay <= IN_TIME for each in self.stretches)
        return Share(in_time, len(self.stretches))

    @property
    def delays(self) -> tuple[int, float] | None:
        """The shortest and the median delay of the stretches that were reported at all."""
        known = [each.delay for each in self.stretches if each.delay is not None]
        return (min(known), median(known)) if known else None

    def add(self, stretches: Sequence[Stretch], spoken: Iterable[int]) -> None:
        """Judge the nudges of one transcript, at these calls, by its stretches."""
        nudges = sorted(spoken)
        for call in nudges:
            self._judge(next(each for each in stretches if each.first <= call <= each.last), call)
        for each in stretches:
            since = each.since
            if each.label == "stuck" and since is not None:
                first = next((call for call in nudges if since <= call <= each.last), None)
                self.stretches.append(StretchNudge(each, first))

    def _judge(self, stretch: Stretch, call: int) -> None:
        if stretch.label == "unclear":
            self.unclear += 1
        elif stretch.since is not None and call >= stretch.since:
            self.right += 1
        else:
            self.false += 1
            self.false_kinds["too early" if stretch.since is not None else "getting on"] += 1
