"""`python -m benchmarks [NAMES...]`: measures rows of the budgets, prints their ratios and draws them."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.failure_modes import __main__ as failure_modes
from benchmarks.measure import Result
from benchmarks.plot import draw
from benchmarks.rows import ROWS
from benchmarks.system import CONCURRENCY, system


def main() -> None:
    if sys.argv[1:2] == ["failure_modes"]:  # figures of another kind: no ratios, no budgets
        failure_modes.main(sys.argv[2:])
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
    results: list[Result] = []
    for name in arguments.names or ROWS:
        with system() as fresh:
            measured: Result | tuple[Result, ...] = import_module(f"benchmarks.rows.{name}").measure(fresh)
        fresh_results = measured if isinstance(measured, tuple) else (measured,)
        results += fresh_results
        if not arguments.json:
            print("\n".join(line for result in fresh_results for line in result.lines()), flush=True)
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
