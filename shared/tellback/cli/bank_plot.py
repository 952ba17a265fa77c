"""A bank's figures as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from tellback.cli.stats_plot import plain, save
from tellback.client.stats import moment

if TYPE_CHECKING:
    from tellback.client.bank_report import BankReport

COLORS: Final = {"used": "tab:blue", "ignored": "lightgray", "helpful": "tab:green", "not_helpful": "tab:red"}


def draw(report: BankReport, path: Path) -> None:
    """Write it into `path`; the ending says the format."""
    figure = Figure(figsize=(11, 7.5), layout="constrained")  # no display is needed
    axes: Any = figure.subplots(2, 2)  # matplotlib's types leave its keywords unknown
    _means(axes[0][0], report)
    _histories(axes[0][1], report)
    _spread(axes[1][0], report)
    _signals(axes[1][1], report)
    stats = report.stats
    last = "" if stats.last_signal_at is None else f", to {moment(stats.last_signal_at)} UTC"
    title = cast("Any", figure.suptitle)  # pyright: ignore[reportUnknownMemberType]  # as above
    title(f"Bank {plain(stats.bank)}, {stats.facts:,} facts, {stats.signal_count:,} signals{last}")
    save(figure, path)


def _means(axes: Any, report: BankReport) -> None:
    days = [date.fromisoformat(day.day) for day in report.days]
    axes.plot(days, [day.average_score for day in report.days], "o-", color="tab:blue")
    _scale(axes)
    _finish(axes, "Average score by day", days, times=True)


def _histories(axes: Any, report: BankReport) -> None:
    times: list[datetime] = []
    for fact in report.histories:
        at = [datetime.fromtimestamp(each / 1000, UTC) for each in fact.at]
        axes.plot(at, fact.scores, ".-", label=plain(fact.fact_id))
        times += at
    _scale(axes)
    _finish(axes, "Scores of the facts most signalled lately", times, times=True)
    if times:
        axes.legend(fontsize=8)


def _spread(axes: Any, report: BankReport) -> None:
    counts = report.stats.distribution
    colors = ["tab:red" if band < len(counts) / 2 else "tab:blue" for band in range(len(counts))]
    axes.bar([(band + 0.5) / 10 for band in range(len(counts))], counts, width=0.09, color=colors)
    axes.set_xlabel("score")
    axes.locator_params(axis="y", integer=True)
    _finish(axes, "Facts by score", counts if any(counts) else [])


def _signals(axes: Any, report: BankReport) -> None:
    days = [date.fromisoformat(day.day) for day in report.days]
    below = [0] * len(days)
    for kind, color in COLORS.items():
        counts = [day.signal_breakdown[kind] for day in report.days]
        axes.bar(days, counts, bottom=below, color=color, label=kind)
        below = [low + count for low, count in zip(below, counts, strict=True)]
    axes.locator_params(axis="y", integer=True)
    _finish(axes, "Signals by day", days, times=True)
    if days:
        axes.set_title("Signals by day", loc="left", pad=24)
        axes.legend(
            fontsize=8, ncols=len(COLORS), frameon=False, loc="lower left", bbox_to_anchor=(0, 1)
        )  # over no bar


def _scale(axes: Any) -> None:
    axes.set_ylim(0, 1)
    axes.axhline(0.5, color="lightgray", lw=1, zorder=0)


def _finish(axes: Any, title: str, shown: Sequence[Any], *, times: bool = False) -> None:
    axes.set_title(title, loc="left")
    if not shown:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "nothing counted", ha="center", va="center", transform=axes.transAxes)
    elif times:
        locator, formatter = cast("Any", AutoDateLocator), cast("Any", ConciseDateFormatter)  # untyped
        ticks = locator(minticks=2, maxticks=6)
        axes.xaxis.set_major_locator(ticks)
        axes.xaxis.set_major_formatter(formatter(ticks))
