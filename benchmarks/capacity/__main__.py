"""`python -m benchmarks capacity`: measures what a worker process and a Redis can do; writes the page.

The figures go into `benchmarks/capacity/figures.json`, which the simulation of a fleet reads, and from there into the
tables of `docs/operations/capacity.md`. `--page` writes the tables alone, from the figures that are there.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from typing import TypeVar

from benchmarks.capacity.figures import RUNS, CapacityFigures
from benchmarks.capacity.growth import NODES, PROCESSES, measured_nodes, measured_processes, measured_unit
from benchmarks.capacity.loads import LOADS
from benchmarks.capacity.page import PAGE, tables, write_tables

T = TypeVar("T")
Job = tuple[int, int]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks capacity", description=__doc__)
    parser.add_argument("--page", action="store_true", help="measure nothing, write the page from the figures")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each load, of which the median counts")
    arguments = parser.parse_args(words)
    figures = CapacityFigures.read() if arguments.page else measure(arguments.runs)
    figures.write()
    write_tables(figures)
    print("\n".join(tables(figures).values()))
    print(f"\nwritten: {PAGE}")


def measure(runs: int) -> CapacityFigures:
    """Measure everything, each load in a process and on a system of its own."""
    before = os.getloadavg()[1]  # later it is mostly the measurement's own
    units = list(_each(measured_unit, range(len(LOADS)), runs))
    growth = [*_each(measured_processes, PROCESSES, runs), *_each(measured_nodes, NODES, runs)]
    return CapacityFigures(
        date=datetime.now(UTC).date().isoformat(),
        machine=f"{os.cpu_count()} cores, Python {platform.python_version()}",
        load_average=round(before, 1),
        runs=runs,
        units=units,
        growth=growth,
    )


def _each(measured: Callable[[Job], T], of: Iterable[int], runs: int) -> Iterable[T]:
    # A process for each: Celery's pools of connections would lead to the system before.
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as process:
        for found in process.map(measured, [(each, runs) for each in of]):
            print(found, flush=True)
            yield found


if __name__ == "__main__":
    main()
