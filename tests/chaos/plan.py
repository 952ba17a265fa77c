"""The plan of faults of one run: drawn from its seed alone, so that it can be printed and repeated."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

QUIET: Final = 6.0
"""Seconds at the beginning and between two outages: hosts and workers reach Redis in them."""
LONGEST_OUTAGE: Final = 5.0
"""Seconds; `system.SETTINGS` lets a command outlive a longer one."""


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A kind of fault: how often it is drawn, how long it lasts, and the kinds of which it excludes each other."""

    weight: int
    shortest: float
    longest: float
    is_outage: bool = False


KINDS: Final[Mapping[str, FaultKind]] = {
    "swallow replies": FaultKind(4, 1, 4),
    "delay": FaultKind(2, 1, 5),
    "cut connections": FaultKind(3, 0, 0),
    "hold the link": FaultKind(2, 1, LONGEST_OUTAGE, is_outage=True),
    "kill redis": FaultKind(2, 0, 2, is_outage=True),
    "stop redis": FaultKind(2, 0.5, LONGEST_OUTAGE, is_outage=True),
    "limit memory": FaultKind(2, 1, 5, is_outage=True),
    "kill worker": FaultKind(2, 0, 3),
    "stop worker": FaultKind(2, 1, 8),
    "kill pool child": FaultKind(4, 0, 0),
    "stop pool child": FaultKind(3, 1, 9),
    "kill beat": FaultKind(1, 0, 8),
    "stop beat": FaultKind(1, 1, 8),
    "kill host": FaultKind(4, 0, 3),
    "stop host": FaultKind(2, 1, 6),
    "kill transport": FaultKind(2, 0, 2),
    "stop transport": FaultKind(1, 1, 12),
    "fill disk": FaultKind(3, 2, LONGEST_OUTAGE, is_outage=True),
    "step clock": FaultKind(2, 0, 0),
    "forget connections": FaultKind(0, 0, 0),  # drawn by itself: see `_silences`
}
SILENCE: Final = 6.0
"""Seconds from the moment in which connections are forgotten until those who wait on them have given up."""
STEPS: Final = (-3600, -60, -5, 5, 30, 60)
"""Seconds by which the clock of Redis' host may step. A longer step forward has Redis remove keys that had less left
to live, such as the replies that repeated decisions get (docs/architecture.md)."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: it begins `at` seconds after the start, at one of the processes or links of its kind."""

    at: float
    kind: str
    target: int
    seconds: float
    amount: int = 0

    def __str__(self) -> str:
        lasting = f" for {self.seconds:.1f} s" if self.seconds else ""
        by = f" by {self.amount:+d} s" if self.kind == "step clock" else ""
        return f"{self.at:7.1f} s  {self.kind}{by} ({self.target}){lasting}"


def draw(seed: int, seconds: float, *, without: frozenset[str] = frozenset()) -> list[Fault]:
    """Return the faults of a run of `seconds`, in order; none lasts beyond its end."""
    dice = random.Random(seed)
    kinds, weights = list(KINDS), [kind.weight for kind in KINDS.values()]
    faults, at, outage_until = list[Fault](), QUIET, 0.0
    while (at := at + dice.uniform(0.3, 3.5)) < seconds:
        kind = dice.choices(kinds, weights)[0]
        drawn = KINDS[kind]
        lasting = min(round(dice.uniform(drawn.shortest, drawn.longest), 1), max(0.0, seconds - at))
        fault = Fault(round(at, 1), kind, dice.randrange(12), lasting, dice.choice(STEPS))
        if kind in without or (drawn.is_outage and at < outage_until + QUIET):
            continue
        if drawn.is_outage:
            outage_until = at + lasting
        faults.append(fault)
    silences = [] if "forget connections" in without else _silences(seed, seconds, faults)
    return sorted([*faults, *silences], key=lambda fault: fault.at)


def _silences(seed: int, seconds: float, faults: list[Fault]) -> list[Fault]:
    """Return when connections are forgotten: between outages, or a command would lose Redis for longer than it may.

    They are drawn by dice of their own, so a seed has the other faults that it had before there were these.
    """
    dice = random.Random(f"{seed} silence")
    outages = [(each.at, each.at + each.seconds) for each in faults if KINDS[each.kind].is_outage]
    found, at = list[Fault](), QUIET
    while (at := at + dice.uniform(3, 20)) < seconds - SILENCE:
        if all(ended < at - 1 or at + SILENCE < began for began, ended in outages):
            found.append(Fault(round(at, 1), "forget connections", dice.randrange(12), 0.0))
    return found
