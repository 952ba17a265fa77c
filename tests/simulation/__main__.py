"""Run seeds of the simulation, or replay and shrink one that failed. `make simulate SEEDS=10000` calls this."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import active_children
from pathlib import Path
from time import perf_counter
from types import FrameType

from tests.simulation.runs import SCENARIOS, SeedRun, run_seed, run_seeds, shrunk
from tests.simulation.server import VirtualServer

CHUNK = 25  # seeds of one call of a process


def main() -> int:
    """Run what the arguments ask for; return 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds to run (default 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes, each with a Redis of its own (default 2)")
    parser.add_argument(
        "--scenario", choices=sorted(SCENARIOS), help="run this scenario alone (default: each seed decides)"
    )
    parser.add_argument(
        "--replay",
        type=int,
        metavar="SEED",
        help="run one seed again; if it fails, find fewer decisions that fail too, and print their events",
    )
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, _exit)
    if given.replay is not None:
        return _replay(given.scenario, given.replay)
    began = perf_counter()
    failures, done, decisions = list[SeedRun](), 0, 0
    with (
        tempfile.TemporaryDirectory(prefix="simulation-") as folder,
        ProcessPoolExecutor(given.jobs, initializer=_begin, initargs=(folder,)) as pool,
    ):
        firsts = range(given.first, given.first + given.seeds, CHUNK)
        last = given.first + given.seeds
        runs = [pool.submit(run_seeds, given.scenario, first, min(first + CHUNK, last)) for first in firsts]
        try:
            for run in as_completed(runs):
                result = run.result()
                done += result.seeds
                decisions += result.decisions
                failures += result.failures
                for failure in result.failures:
                    _print_failure(failure)
                _progress(done, given.seeds, failures)
        except BaseException:  # Ctrl-C or SIGTERM; the executor would wait for all seeds
            for process in active_children():
                process.kill()
            raise
    print(f"{done} seeds, {decisions} decisions in {perf_counter() - began:.0f} s, {len(failures)} failed")
    return 1 if failures else 0


def _begin(folder: str) -> None:
    """Make a process of the pool one that can be killed: what it writes is in the folder of the first one."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    tempfile.tempdir = folder


def _exit(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def _print_failure(failure: SeedRun) -> None:
    print(f"seed {failure.seed} ({failure.scenario}): {failure.error}")
    print(f"  again: python -m tests.simulation --scenario {failure.scenario} --replay {failure.seed}", flush=True)


def _progress(done: int, seeds: int, failures: list[SeedRun]) -> None:
    end = "\r" if sys.stdout.isatty() else "\n"
    if sys.stdout.isatty() or done % (CHUNK * 20) == 0:
        print(f"{done} of {seeds} seeds, {len(failures)} failed", end=end, flush=True)


def _replay(scenario: str | None, seed: int) -> int:
    with tempfile.TemporaryDirectory() as folder, VirtualServer.start(Path(folder)) as server:
        failure = run_seed(server, Path(folder), seed, scenario)
        if failure is None:
            print(f"seed {seed} passes")
            return 0
        print(f"seed {seed} ({failure.scenario}) fails: {failure.error}\nshrinking {len(failure.taken)} decisions …")
        small = shrunk(server, Path(folder), failure)
        print(f"fails with {len(small.taken)} decisions: {small.error}")
        for line in small.trace:
            print(f"  {line}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
