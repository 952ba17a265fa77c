"""Runs of the simulation: one seed, many seeds, and the smallest run that still fails."""

from __future__ import annotations

import logging
import shutil
import tempfile
import traceback
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from tests.simulation.banks import BanksScenario
from tests.simulation.choices import Choices, shrink
from tests.simulation.clock_steps import ClockScenario
from tests.simulation.commands import CommandsScenario
from tests.simulation.exhaustion import ExhaustionScenario
from tests.simulation.guidance import GuidanceScenario
from tests.simulation.lost_tail import LostTailScenario
from tests.simulation.outbox import OutboxScenario
from tests.simulation.publishing import PublishingScenario
from tests.simulation.server import VirtualServer
from tests.simulation.signals import SignalsScenario
from tests.simulation.turns import TurnsScenario
from tests.simulation.world import World

SCENARIOS: dict[str, Any] = {
    "banks": BanksScenario,
    "clock": ClockScenario,
    "commands": CommandsScenario,
    "exhaustion": ExhaustionScenario,
    "guidance": GuidanceScenario,
    "lost-tail": LostTailScenario,
    "outbox": OutboxScenario,
    "publishing": PublishingScenario,
    "signals": SignalsScenario,
    "turns": TurnsScenario,
}


@dataclass(frozen=True)
class SeedRun:
    """One run of a seed: its error, if it failed, the decisions that were not the default, and its events."""

    seed: int
    scenario: str
    error: str | None
    taken: list[int]
    trace: list[str]


class SeedsResult(NamedTuple):
    """The outcome of a number of seeds; `decisions` counts those that were not the default."""

    seeds: int
    decisions: int
    failures: list[SeedRun]


def play_seed(
    server: VirtualServer, folder: Path, seed: int, scenario: str | None = None, only: Collection[int] | None = None
) -> SeedRun:
    """Play one seed. Without a `scenario` the seed decides which one; with `only`, no other decision is taken."""
    name = scenario or sorted(SCENARIOS)[seed % len(SCENARIOS)]
    choices = Choices(seed, only)
    own = folder / "run"
    shutil.rmtree(own, ignore_errors=True)
    world = World(server, choices, seed, own)
    # Logs of thousands of runs help nobody; the trace says what happened.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.ERROR)
    error = None
    try:
        SCENARIOS[name](world).play()
        world.check_keys()
    except Exception as failure:  # noqa: BLE001 - any error is the run's failure
        lines = "".join(traceback.format_exception(failure, limit=-3)).splitlines()
        error = str(failure) or lines[-1]
        world.trace += lines
    finally:
        logging.disable(logging.NOTSET)
        structlog.reset_defaults()
        world.close()
    world.note(f"the end, after {world.scheduler.steps} steps and {world.network.trips} round trips")
    return SeedRun(seed, name, error, choices.taken, world.trace)


def run_seed(
    server: VirtualServer, folder: Path, seed: int, scenario: str | None = None, only: Collection[int] | None = None
) -> SeedRun | None:
    """Play one seed; return its run if it failed."""
    run = play_seed(server, folder, seed, scenario, only)
    return None if run.error is None else run


def run_seeds(scenario: str | None, first: int, last: int) -> SeedsResult:
    """Run a range of seeds on a Redis of their own."""
    with tempfile.TemporaryDirectory() as folder, VirtualServer.start(Path(folder)) as server:
        runs = [play_seed(server, Path(folder), seed, scenario) for seed in range(first, last)]
    return SeedsResult(len(runs), sum(len(run.taken) for run in runs), [run for run in runs if run.error is not None])


def shrunk(server: VirtualServer, folder: Path, failure: SeedRun) -> SeedRun:
    """Return the smallest run found that fails: the same seed with fewer decisions."""

    def fails(only: Collection[int]) -> bool:
        return run_seed(server, folder, failure.seed, failure.scenario, only) is not None

    kept = shrink(failure.taken, fails)
    return run_seed(server, folder, failure.seed, failure.scenario, kept) or failure
