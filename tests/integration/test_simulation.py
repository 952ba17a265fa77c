"""The simulation: seeds that pass, runs that repeat exactly, and fixed faults that it finds when they are put back.

`make test` plays 200 seeds, more of the scenarios whose runs are short; the slow test plays 40 others of each.
"""

from __future__ import annotations

import gc
import hashlib
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.simulation.clock_steps import ClockScenario
from tests.simulation.put_back import PUT_BACK
from tests.simulation.runs import SCENARIOS, SeedRun, play_seed, run_seed, shrunk
from tests.simulation.server import VirtualServer
from tests.support.processes import run_program
from tests.support.waiting import wait_until

ROOT: Final = Path(__file__).resolve().parents[2]
QUICK_SEEDS: Final = {
    "banks": 3,
    "clock": 6,
    "commands": 4,
    "exhaustion": 10,
    "guidance": 6,
    "lost-tail": 3,
    "outbox": 17,
    "publishing": 48,
    "signals": 3,
    "turns": 4,
}
SLOW_SEEDS: Final = 40  # of each scenario
SEARCHED_SEEDS: Final = 200  # at most: the first seed that finds the fault ends its search
PRINT_DIGEST: Final = """
import sys, tempfile
from pathlib import Path
from tests.integration.test_simulation import digests
from tests.simulation.server import VirtualServer
with tempfile.TemporaryDirectory() as folder, VirtualServer.start(Path(folder)) as server:
    print(digests(server, Path(folder)))
"""


class Search(NamedTuple):
    """The first of the seeds among which a fault that is put back must be found, and its symptom."""

    first: int
    symptom: str


# From about the first seed that finds it: a change of the code gives the seeds other runs.
SEARCHES: Final = {
    "1": Search(5, "is in no index"),
    "2": Search(0, "events lost"),
    "3": Search(20, "events twice"),
    "6": Search(0, "with a full Redis"),
    "7": Search(0, "seconds between deadline and fallback"),
    "applied ids forgotten": Search(12, "signals counted"),
    "taken without an operation": Search(105, "delivered"),
    "fallback beside an answer": Search(51, "2 first answers"),
    "claimed within the lease of another": Search(3, "within the lease of attempt"),
    "standstill counted with later steps": Search(75, "seconds between deadline and fallback"),
    "decay that leaves the time": Search(0, "what the signals make"),
    "limit moved with the deadline": Search(0, "seconds between deadline and fallback"),
    "copies of a lost tail kept": Search(0, "in the bank"),
    "copies compared by version alone": Search(153, "in the bank"),
    "stored beside the loss": Search(50, "records"),
    "left running by a frozen worker": Search(190, "overlap"),
}
QUICK: Final = {"3", "6", "7", "taken without an operation", "left running by a frozen worker"}  # of each loop
WATCHING: Final = "tellback-call-deadline"  # a thread of a client that outlives its last call by two seconds

pytestmark = [
    pytest.mark.timeout(900),  # a run is work, not waiting: on a busy machine it takes ten times as long
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # processes that are killed close nothing
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # which the collector then finds
]


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    """Meet no thread of an earlier test, which would sleep on the simulation's clock; later tests meet no warnings."""
    wait_until(lambda: not any(thread.name == WATCHING for thread in threading.enumerate()), "calls are still watched")
    yield
    gc.collect()


@pytest.fixture(scope="session")
def virtual_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VirtualServer]:
    """A redis-server of this test process, whose clock is the simulation's."""
    if shutil.which("cc") is None or not sys.platform.startswith("linux"):
        reason = "the clock of simulated runs needs Linux and a C compiler: apt-get install gcc libc6-dev"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with VirtualServer.start(tmp_path_factory.mktemp("virtual")) as server:
        yield server


def digests(server: VirtualServer, folder: Path) -> str:
    """Return a checksum of the decisions and events of a run of each scenario, a line each."""
    runs = [play_seed(server, folder, 3, scenario) for scenario in sorted(SCENARIOS)]
    assert all(run.taken for run in runs)
    sums = [hashlib.sha256(repr((run.taken, run.trace)).encode()).hexdigest() for run in runs]
    return "\n".join(f"{run.scenario} {checksum}" for run, checksum in zip(runs, sums, strict=True))


def found(server: VirtualServer, folder: Path, fault: str) -> SeedRun:
    """Return the first failure with its symptom among the seeds of a fault that is put back; it has others too."""
    scenario, (first, symptom) = PUT_BACK[fault][0], SEARCHES[fault]
    seeds = range(first, first + SEARCHED_SEEDS)
    runs = (run_seed(server, folder, seed, scenario) for seed in seeds)
    failure = next((run for run in runs if run is not None and symptom in str(run.error)), None)
    assert failure is not None, f"no seed of {seeds[0]} to {seeds[-1]} finds fault {fault}"
    return failure


def failures(server: VirtualServer, folder: Path, scenario: str, seeds: range) -> list[str]:
    runs = (run_seed(server, folder, seed, scenario) for seed in seeds)
    return [f"python -m tests.simulation --scenario {scenario} --replay {run.seed}: {run.error}" for run in runs if run]


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_seeds_of_each_scenario_pass(virtual_server: VirtualServer, tmp_path: Path, scenario: str) -> None:
    assert failures(virtual_server, tmp_path, scenario, range(QUICK_SEEDS[scenario])) == []


@pytest.mark.slow
@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_many_seeds_of_each_scenario_pass(virtual_server: VirtualServer, tmp_path: Path, scenario: str) -> None:
    assert failures(virtual_server, tmp_path, scenario, range(1000, 1000 + SLOW_SEEDS)) == []


@pytest.mark.slow
def test_a_seed_repeats_its_run_exactly_whatever_the_hashes_of_text(
    virtual_server: VirtualServer, tmp_path: Path
) -> None:
    here = digests(virtual_server, tmp_path)
    done = run_program(
        [sys.executable, "-c", PRINT_DIGEST], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "1"}, check=True
    )
    assert done.stdout.strip() == here


def test_a_key_that_is_not_declared_fails_its_run(
    virtual_server: VirtualServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stray(ClockScenario):
        def play(self) -> None:
            self.world.database.command("SET", "tb:{default:0}:stray", 1)

    monkeypatch.setitem(SCENARIOS, "clock", Stray)
    failure = run_seed(virtual_server, tmp_path, 0, "clock")
    assert failure is not None
    assert "no family 'stray' is declared" in str(failure.error)


@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, marks=[] if fault in QUICK else [pytest.mark.slow]) for fault in PUT_BACK],
)
def test_a_fixed_fault_is_found_when_it_is_put_back(virtual_server: VirtualServer, tmp_path: Path, fault: str) -> None:
    """The failing seed replays from its decisions alone, and passes once the fault is fixed again."""
    scenario, put_back = PUT_BACK[fault]
    with put_back():
        failure = found(virtual_server, tmp_path, fault)
        again = run_seed(virtual_server, tmp_path, failure.seed, scenario, only=failure.taken)
        assert again == failure
    assert run_seed(virtual_server, tmp_path, failure.seed, scenario) is None


def test_shrinking_keeps_the_failure(virtual_server: VirtualServer, tmp_path: Path) -> None:
    """6 of 268 decisions lose events after a fork: the switches between its threads."""
    _, put_back = PUT_BACK["2"]
    with put_back():
        failure = run_seed(virtual_server, tmp_path, 142, "publishing")
        assert failure is not None
        small = shrunk(virtual_server, tmp_path, failure)
        assert "events lost" in str(small.error)
        assert len(small.taken) < len(failure.taken) / 4
        assert run_seed(virtual_server, tmp_path, small.seed, small.scenario, only=small.taken) == small
