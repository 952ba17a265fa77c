"""The verdict on a soak: what grew under load, and what did not come back after it.

Memory may be noisy and may settle once. Its growth is the Theil-Sen slope under load (the median of the slopes between
all pairs), times the time, so a single step is no leak. Files, sockets, threads, processes and Redis must come back:
each is compared with its level before the load, at rest. A pool keeps as many connections as were once needed at the
same time, so connections are compared with the highest number in the warm-up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from tests.soak.sampler import SoakSample

WARM_UP: Final = 0.25  # of the load: caches, pools of connections and the allocator settle
LAST: Final = 3  # samples at the end of a rest that make a level
MOST_PAIRS: Final = 400  # samples of a slope; more are thinned out


@dataclass(frozen=True, slots=True)
class SoakBounds:
    """Allowed growth: of memory the larger of MiB and a share, of a level the larger of a number and a share."""

    memory_mib: float = 3.0
    memory_share: float = 0.03
    count: float = 2.0
    keys: float = 3.0
    redis_mib: float = 0.5
    redis_share: float = 0.05


@dataclass(frozen=True, slots=True)
class SoakFinding:
    """One series: where it stood, by how much it grew, and by how much it might."""

    series: str
    level: float
    growth: float
    allowed: float

    @property
    def ok(self) -> bool:
        """True if it grew by no more than it may."""
        return self.growth <= self.allowed

    def __str__(self) -> str:
        mark = "ok    " if self.ok else "GREW  "
        return f"{mark}{self.series:<28}{self.level:>10.1f} {self.growth:>+9.2f}  (at most {self.allowed:+.2f})"


def judge(samples: Sequence[SoakSample], bounds: SoakBounds) -> list[SoakFinding]:
    """Return a finding for each series that is judged."""
    return [*_under_load(samples, bounds), *_levels(samples, bounds)]


def _under_load(samples: Sequence[SoakSample], bounds: SoakBounds) -> Iterator[SoakFinding]:
    """The growth of memory after the warm-up, up to the end of the load."""
    warm_up, load = _warm_up(samples), [sample for sample in samples if sample.phase == "load"]
    load = load[len(warm_up) :]
    for name in _names(load):
        if name.endswith(".memory") or name == "redis.used":
            points = [(sample.at, sample.values.get(name, 0.0)) for sample in load]
            level = median(value for _, value in points)
            growth = theil_sen(points) * (points[-1][0] - points[0][0])
            yield SoakFinding(f"{name} under load", level, growth, max(bounds.memory_mib, bounds.memory_share * level))


def _levels(samples: Sequence[SoakSample], bounds: SoakBounds) -> Iterator[SoakFinding]:
    """The levels at rest after the load, against those before it."""
    before = [sample for sample in samples if sample.phase == "baseline"][-LAST:]
    after = [sample for sample in samples if sample.phase == "drain"][-LAST:]
    for name in _names([*before, *after]):
        first, last = _level(before, name), _level(after, name)
        if name == "redis.clients" or name.endswith(".sockets"):
            first = max([first, *(sample.values.get(name, 0.0) for sample in _warm_up(samples))])
        allowed = _allowed(name, first, bounds)
        if allowed is not None:
            yield SoakFinding(name, first, last - first, allowed)


def _warm_up(samples: Sequence[SoakSample]) -> list[SoakSample]:
    load = [sample for sample in samples if sample.phase == "load"]
    return load[: round(len(load) * WARM_UP)]


def _allowed(name: str, level: float, bounds: SoakBounds) -> float | None:
    if name == "redis.used":
        return max(bounds.redis_mib, bounds.redis_share * level)
    if name.startswith("keys."):
        return bounds.keys
    if name == "redis.clients" or name.endswith((".files", ".sockets", ".threads", ".processes")):
        return bounds.count
    return None


def _level(samples: Sequence[SoakSample], name: str) -> float:
    return median(sample.values.get(name, 0.0) for sample in samples)


def _names(samples: Sequence[SoakSample]) -> list[str]:
    return sorted({name for sample in samples for name in sample.values})


def theil_sen(points: Sequence[tuple[float, float]]) -> float:
    """Return the median slope of all pairs of points; 0 if there are fewer than two."""
    thin = points[:: max(1, len(points) // MOST_PAIRS)]
    slopes = [(y - b) / (x - a) for i, (a, b) in enumerate(thin) for x, y in thin[i + 1 :] if x > a]
    return median(slopes) if slopes else 0.0
