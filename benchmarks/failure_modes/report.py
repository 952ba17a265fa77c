"""Figures of many runs: means, how much guidance changes them, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any, Final

from matplotlib.figure import Figure

from benchmarks.failure_modes.coding import CodingMode, play_coding
from benchmarks.failure_modes.modes import Mode
from benchmarks.failure_modes.runs import AgentRun, play

COMPLIANCES: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
RESAMPLES: Final = 1_000
MEASURES: Final[dict[str, Callable[[AgentRun], float]]] = {
    "solved": lambda run: run.solved,
    "calls": lambda run: run.calls,
    "loops": lambda run: run.loops,
    "repeated failures": lambda run: run.repeated,
    "premature answers": lambda run: run.premature,
    "rate limited": lambda run: run.limited,
    "taken": lambda run: run.taken,
}
COLUMNS: Final = ("calls", "calls to solve", "loops", "repeated failures", "wrong answers", "rate limited", "taken")


@dataclass(frozen=True, slots=True)
class Row:
    """A mode with guidance at one compliance (None: off). `change` is against off, with its 95 % interval.

    `to_solve` is the mean number of calls of the runs that were solved; not a number where none was.
    """

    mode: str
    compliance: float | None
    means: dict[str, float]
    to_solve: float
    change: dict[str, tuple[float, float, float]]


def measure(mode: Mode | CodingMode, seeds: int, compliances: Sequence[float] = COMPLIANCES) -> list[Row]:
    """All rows of a mode; the unit that is resampled is the seed, since the agents of a fleet are not independent."""
    off = [_played(mode, seed) for seed in range(seeds)]
    rows = [Row(mode.name, None, _means(off), _to_solve(off), {})]
    for compliance in compliances:
        on = [_played(mode, seed, compliance) for seed in range(seeds)]
        change = {name: _change(off, on, each) for name, each in MEASURES.items()}
        rows.append(Row(mode.name, compliance, _means(on), _to_solve(on), change))
    return rows


def _played(mode: Mode | CodingMode, seed: int, compliance: float | None = None) -> list[AgentRun]:
    guided = compliance is not None
    if isinstance(mode, CodingMode):
        return play_coding(mode, seed, guided=guided, compliance=compliance or 0.0)
    return play(mode, seed, guided=guided, compliance=compliance or 0.0)


def _means(runs: Sequence[Sequence[AgentRun]]) -> dict[str, float]:
    return {name: mean(each(run) for fleet in runs for run in fleet) for name, each in MEASURES.items()}


def _to_solve(runs: Sequence[Sequence[AgentRun]]) -> float:
    calls = [run.calls for fleet in runs for run in fleet if run.solved]
    return mean(calls) if calls else math.nan


def _change(
    off: Sequence[Sequence[AgentRun]], on: Sequence[Sequence[AgentRun]], each: Callable[[AgentRun], float]
) -> tuple[float, float, float]:
    """The mean difference of the same seeds, and its bootstrapped 95 % interval."""
    pairs = [
        mean(each(run) for run in guided) - mean(each(run) for run in alone)
        for alone, guided in zip(off, on, strict=True)
    ]
    random = Random("bootstrap")
    drawn = sorted(mean(random.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    return mean(pairs), drawn[int(0.025 * RESAMPLES)], drawn[int(0.975 * RESAMPLES) - 1]


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    heads = ("mode", "guidance", "solved", "change (95 %)", *COLUMNS)
    lines = [f"| {' | '.join(heads)} |", f"|---|---|--:|---|{'--:|' * len(COLUMNS)}"]
    for row in rows:
        m = row.means
        change = ""
        if row.change:
            at, low, high = row.change["solved"]
            change = f"{at * 100:+.0f} ({low * 100:+.0f} to {high * 100:+.0f})"
        guidance = "off" if row.compliance is None else f"p = {row.compliance:g}"
        lines.append(
            f"| {row.mode} | {guidance} | {m['solved']:.0%} | {change} | {m['calls']:.1f} | {row.to_solve:.1f} "
            f"| {m['loops']:.2f} | {m['repeated failures']:.2f} | {m['premature answers']:.0%} "
            f"| {m['rate limited']:.1f} | {m['taken']:.1f} |"
        )
    return "\n".join(lines)


def draw(rows: Sequence[Row], path: Path) -> None:
    """One invoker a mode: the share that is solved by compliance, with guidance off as a line."""
    names = list(dict.fromkeys(row.mode for row in rows))
    across = 4
    down = -(-len(names) // across)
    figure: Any = Figure(figsize=(3.1 * across, 2.3 * down), layout="constrained")  # types leave its keywords open
    grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    for place, name in enumerate(names):
        axes = grid[place // across][place % across]
        off = next(row for row in rows if row.mode == name and row.compliance is None)
        on = [row for row in rows if row.mode == name and row.compliance is not None]
        share = [row.means["solved"] for row in on]
        below = [-(row.change["solved"][1] - row.change["solved"][0]) for row in on]
        above = [row.change["solved"][2] - row.change["solved"][0] for row in on]
        axes.axhline(off.means["solved"], color="tab:gray", linestyle="--", linewidth=1, label="off")
        axes.errorbar([row.compliance for row in on], share, yerr=[below, above], color="tab:blue", marker="o", ms=4,
                      capsize=2, label="on")  # fmt: skip
        axes.set_title(name, fontsize=9)
        axes.set_ylim(0, 1.05)
    for place in range(len(names), down * across):
        grid[place // across][place % across].axis("off")
    grid[0][0].legend(fontsize=8, loc="lower right")
    figure.supxlabel("probability that a suggestion is taken", fontsize=9)
    figure.supylabel("share of tasks solved (bars: 95 % of the change)", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
