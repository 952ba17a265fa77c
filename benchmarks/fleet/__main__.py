"""`python -m benchmarks fleet`: simulates how long events wait, by the number of agents and worker processes.

Service times are those that `python -m benchmarks capacity` measured. Prints a table and draws the plot of the page.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.capacity.figures import CapacityFigures
from benchmarks.capacity.page import CALL_EVERY, PAGE
from benchmarks.fleet.queues import Delays, Stage, fixed, simulate
from tellback.cli.plots import new_figure

PROCESSES: Final = (2, 8, 32, 128)
AGENTS: Final = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
BATCH: Final = 500
"""`TELLBACK_CONSUME_BATCH`."""
NODES_FOR: Final = 8
"""Worker processes for each node of Redis in the simulation."""
EVENTS: Final = 20_000


def stages(figures: CapacityFigures, processes: int) -> list[Stage]:
    """Return Redis, then the processes: a batch costs what a lone event costs more than one of many."""
    many, lone = figures.unit("event"), figures.unit("lone event")
    each = many.worker_us / 1e6
    apply = fixed(max(0.0, lone.worker_us / 1e6 - each), each)
    nodes = max(1, processes // NODES_FOR)
    return [Stage(nodes, fixed(0, many.redis_us / 1e6)), Stage(processes, apply, BATCH)]


def delays(figures: CapacityFigures, agents: int, processes: int, events: int = EVENTS) -> Delays:
    """Return the waits of a fleet whose agents make a tool call every ten seconds, each at a time of its own."""
    return simulate(agents / CALL_EVERY, stages(figures, processes), events)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks fleet", description=__doc__)
    parser.add_argument("--plot", type=Path, default=PAGE.with_name("fleet-delay.png"), help="where the plot goes")
    arguments = parser.parse_args(words)
    figures = CapacityFigures.read()
    found = {(agents, count): delays(figures, agents, count) for count in PROCESSES for agents in AGENTS}
    print("milliseconds that events wait, median and 99 %\n")
    print("| agents | " + " | ".join(f"{count} processes" for count in PROCESSES) + " |")
    print("|--:|" + "--:|" * len(PROCESSES))
    for agents in AGENTS:
        cells = [found[agents, count] for count in PROCESSES]
        shown = [f"{1e3 * cell.quantile(0.5):,.1f}, {1e3 * cell.quantile(0.99):,.1f}" for cell in cells]
        print(f"| {agents:,} | " + " | ".join(shown) + " |")
    draw({count: [found[agents, count].quantile(0.99) for agents in AGENTS] for count in PROCESSES}, arguments.plot)
    print(f"\nplot: {arguments.plot}")


def draw(waits: dict[int, list[float]], path: Path) -> None:
    """Draw the wait that 99 % do not exceed, a line for each number of processes."""
    figure = new_figure(8, 4.5)
    axes = figure.subplots()
    for count, seconds in waits.items():
        nodes = max(1, count // NODES_FOR)
        label = f"{count} processes, {nodes} Redis"
        axes.plot(AGENTS, [max(1e-5, value) * 1e3 for value in seconds], marker=".", label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(f"agents, a tool call each {CALL_EVERY:g} s")
    axes.set_ylabel("ms in queues, 99 %")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
