"""The queues of a fleet, simulated: events arrive at random, Redis takes each in, processes apply them in batches.

A process that is free takes what waits, at most a batch; its service takes a fixed time and one for each event. With
batches of one and exponential service it is the textbook's M/M/c, which `tests/unit/test_fleet_queues.py` compares.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import simpy

Service = Callable[[random.Random, int], float]
"""Seconds that a server needs for so many events."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Servers that share one queue."""

    servers: int
    service: Service
    batch: int = 1


def fixed(seconds: float, each: float) -> Service:
    """A service that always takes as long: the measured time of a batch, and of each event in it."""
    return lambda _, events: seconds + each * events


def exponential(mean: float) -> Service:
    """A service of random length, as the formulas of queues have it."""
    return lambda dice, events: sum(dice.expovariate(1 / mean) for _ in range(events))


@dataclass
class _WaitingQueue:
    """A stage at work: each event is how long it has waited, and when it came into this queue."""

    env: simpy.Environment
    stage: Stage
    dice: random.Random
    done: Callable[[float], None]
    idle: int = 0
    waiting: deque[tuple[float, float]] = field(default_factory=deque[tuple[float, float]])

    def __post_init__(self) -> None:
        self.idle = self.stage.servers

    def put(self, waited: float) -> None:
        self.waiting.append((waited, self.env.now))
        if self.idle:
            self.idle -= 1
            self.env.process(self._serve())

    def _serve(self) -> Generator[simpy.Event, Any, None]:
        """Serve as long as something waits."""
        while self.waiting:
            batch = [self.waiting.popleft() for _ in range(min(self.stage.batch, len(self.waiting)))]
            waits = [waited + self.env.now - since for waited, since in batch]
            yield self.env.timeout(self.stage.service(self.dice, len(batch)))
            for waited in waits:
                self.done(waited)
        self.idle += 1


@dataclass(frozen=True, slots=True)
class Delays:
    """Waits of the events of one simulation in queues, in seconds, without their service."""

    waits: Sequence[float]

    @property
    def mean(self) -> float:
        return sum(self.waits) / len(self.waits)

    def quantile(self, share: float) -> float:
        """Return the wait that this share of the events do not exceed."""
        return sorted(self.waits)[min(len(self.waits) - 1, int(share * len(self.waits)))]


def simulate(rate: float, stages: Sequence[Stage], events: int, *, warm: float = 0.2) -> Delays:
    """Return how long events waited that arrived at a rate by a Poisson process; the first ones do not count."""
    dice = random.Random(1)
    env = simpy.Environment()
    waits: list[float] = []
    queues: list[_WaitingQueue] = []
    for stage in reversed(stages):
        queues.insert(0, _WaitingQueue(env, stage, dice, queues[0].put if queues else waits.append))

    def arrive() -> Generator[simpy.Event, Any, None]:
        for _ in range(events):
            yield env.timeout(dice.expovariate(rate))
            queues[0].put(0.0)

    env.process(arrive())
    env.run()
    return Delays(waits[int(warm * events) :])
