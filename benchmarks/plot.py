"""One picture of all rows: each ratio as a share of its budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from matplotlib.figure import Figure

from benchmarks.measure import RowResult


def draw(results: Sequence[RowResult], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(9, 1.4 + 0.9 * len(results)), layout="constrained")  # no display is needed
    axes: Any = figure.subplots()  # matplotlib's types leave its keywords unknown
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
    save = cast("Any", figure.savefig)  # pyright: ignore[reportUnknownMemberType]  # as above
    save(path, dpi=120)
