"""One picture of all rows: each ratio as a share of its budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import RowResult
from tellback.cli.plots import new_figure


def draw(results: Sequence[RowResult], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = new_figure(9, 1.4 + 0.9 * len(results))
    axes = figure.subplots()
    for row, result in enumerate(results):
        colour = "tab:green" if result.met else "tab:red"
        axes.barh(row, result.median / result.budget, color=colour, alpha=0.6, height=0.5)
        axes.plot([ratio / result.budget for ratio in result.ratios], [row] * len(result.ratios), "k.", markersize=5)
        label = f"{result.median:.2f} ×, budget {result.sense} {result.budget:g} ×"
        axes.annotate(label, (0.02, row), va="center", fontsize=9)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(range(len(results)), [result.name for result in results])
    axes.set_xlabel("ratio ÷ budget (dots: runs; the line is the budget)")
    axes.invert_yaxis()
    figure.savefig(path, dpi=120)
