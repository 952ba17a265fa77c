"""`python -m benchmarks [NAMES...]`: measures rows of the budgets, prints their ratios and draws them."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks import folds, nudges
from benchmarks import results as results_of_tools
from benchmarks.capacity import __main__ as capacity
from benchmarks.failure_modes import __main__ as failure_modes
from benchmarks.fleet import __main__ as fleet
from benchmarks.measure import RowResult
from benchmarks.plot import draw
from benchmarks.rows import ROWS, measured
from benchmarks.system import CONCURRENCY


def main() -> None:
    # figures without ratios and budgets
    others = {
        "capacity": capacity.main,
        "failure_modes": failure_modes.main,
        "fleet": fleet.main,
        "folds": folds.main,
        "nudges": nudges.main,
        "results": results_of_tools.main,
    }
    if len(sys.argv) > 1 and sys.argv[1] in others:
        others[sys.argv[1]](sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"rows to measure, default all: {', '.join(ROWS)}")
    parser.add_argument("--plot", type=Path, default=Path("build/bench.png"), help="where the plot goes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(ROWS)
    if unknown:
        parser.error(f"no row {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    if not arguments.json:
        print(f"{os.cpu_count()} cores, Python {platform.python_version()}, prefork with {CONCURRENCY} processes\n")
    results: list[RowResult] = []
    # A process for each row: Celery's pools of connections would lead to the system of the row before.
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as process:
        for row in process.map(measured, arguments.names or ROWS):
            results += row
            if not arguments.json:
                print("\n".join(line for result in row for line in result.lines()), flush=True)
    draw(results, arguments.plot)
    if arguments.json:
        rows = [
            {"name": r.name, "median": r.median, "ratios": list(r.ratios), "budget": r.budget, "met": r.met}
            for r in results
        ]
        print(json.dumps(rows))
    else:
        print(f"\nplot: {arguments.plot}")


if __name__ == "__main__":
    main()
