"""Pictures of guidance, of a bank and of a calibration, drawn with matplotlib into a file.

Only this module imports matplotlib, an extra; commands import it once they draw. `Figure` is used without pyplot, so
that no display is needed. Names come from outside: `plot_text` keeps matplotlib from parsing them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from tellback import clock
from tellback.cli.calibrate_report import CalibrationReport
from tellback.client.statistics import format_time
from tellback.contracts.signal_types import SIGNAL_TYPES
from tellback.sanitize import plot_text
from tellback.truncation import truncate_chars, truncate_start
from tellback.wording import count_phrase

if TYPE_CHECKING:
    from tellback.client.statistics import BankReport, GuidanceStats

GOOD: Final = "tab:blue"

BAD: Final = "tab:red"

PALE: Final = "lightgray"

TOP: Final = 12


def draw_guidance(stats: GuidanceStats, path: Path) -> None:
    """Draw calls, rates, tools and suggestions into `path`, in the format of its ending."""
    figure = new_figure(11, 7.5)
    axes = figure.subplots(2, 2)
    _draw_days(axes[0][0], stats)
    _draw_day_rates(axes[0][1], stats)
    _draw_tools(axes[1][0], stats)
    _draw_suggestion_kinds(axes[1][1], stats)
    whose = f"team {stats.team}" if stats.session is None else f"session {stats.session}"
    since = (
        "nothing counted yet"
        if stats.since is None
        else f"{format_time(stats.since)} to {format_time(stats.until)} UTC"
    )
    figure.suptitle(f"Guidance, {_name_label(whose)}, {since}")
    _save_figure(figure, path)


def new_figure(width: float, height: float) -> Any:
    """Return a figure, which needs no display; matplotlib types its methods only in part."""
    return Figure(figsize=(width, height), layout="constrained")


def _save_figure(figure: Any, path: Path) -> None:
    """Write a picture."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name in a script that the font has not: boxes do
        figure.savefig(path, dpi=120)


def _draw_days(axes: Any, stats: GuidanceStats) -> None:
    days = [day.day[5:] for day in stats.by_day]
    errors = [day.totals.errors for day in stats.by_day]
    well = [day.totals.calls - day.totals.errors for day in stats.by_day]
    axes.bar(days, well, color=GOOD, label="other calls")
    axes.bar(days, errors, bottom=well, color=BAD, label="errors")
    axes.tick_params(axis="x", rotation=45)
    _finish_guidance_axes(axes, "Tool calls by day", days)


def _draw_day_rates(axes: Any, stats: GuidanceStats) -> None:
    days = [day.day[5:] for day in stats.by_day]
    taken = [_percent(day.totals.taken, day.totals.offered) for day in stats.by_day]
    wrong = [_percent(day.totals.errors, day.totals.calls) for day in stats.by_day]
    loops = [_percent(day.totals.loops["3"], day.totals.calls) for day in stats.by_day]
    axes.plot(days, taken, "o-", color=GOOD, label="taken, of suggestions")
    axes.plot(days, wrong, "s-", color=BAD, label="errors, of calls")
    axes.plot(days, loops, "^-", color="tab:purple", label="loops, of calls")
    axes.set_ylim(0, 100)
    axes.set_ylabel("%")
    axes.tick_params(axis="x", rotation=45)
    _finish_guidance_axes(axes, "Rates by day", days)


def _draw_tools(axes: Any, stats: GuidanceStats) -> None:
    tools = stats.summary.tools[:TOP]
    names = [_name_label(tool.tool) for tool in tools]
    places = range(len(tools))
    axes.barh(places, [tool.calls - tool.errors for tool in tools], color=GOOD, label="other calls")
    left = [tool.calls - tool.errors for tool in tools]
    axes.barh(places, [tool.errors for tool in tools], left=left, color=BAD, label="errors")
    _prepare_rows(axes, "Tool calls by tool", names)


def _draw_suggestion_kinds(axes: Any, stats: GuidanceStats) -> None:
    kinds = stats.summary.suggestions[:TOP]
    places = range(len(kinds))
    axes.barh(places, [kind.taken for kind in kinds], color=GOOD, label="taken")
    left = [kind.taken for kind in kinds]
    axes.barh(places, [kind.offered - kind.taken for kind in kinds], left=left, color=PALE, label="not taken")
    _prepare_rows(axes, "Suggestions by kind", [_name_label(kind.kind) for kind in kinds])


def _prepare_rows(axes: Any, title: str, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.locator_params(axis="x", nbins=6, integer=True)
    _finish_guidance_axes(axes, title, names)


def _finish_guidance_axes(axes: Any, title: str, names: Sequence[str]) -> None:
    axes.set_title(title, loc="left", pad=24)
    if not names:
        _say_nothing_counted(axes)
        return
    axes.legend(fontsize=8, ncols=3, frameon=False, loc="lower left", bbox_to_anchor=(0, 1))  # above, over no bar


def _say_nothing_counted(axes: Any) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, "nothing counted", ha="center", va="center", transform=axes.transAxes)


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else float("nan")


def _name_label(text: str) -> str:
    """Return a name as a label of at most 28 characters."""
    return plot_text(truncate_chars(text, 28))


def _model_label(text: str) -> str:
    """Return a model's name as a label of its last 60 characters: paths differ at the end."""
    return plot_text(truncate_start(text, 60))


def draw_bank(report: BankReport, path: Path) -> None:
    """Draw a bank's scores and signals into `path`, in the format of its ending."""
    figure = new_figure(11, 7.5)
    axes = figure.subplots(2, 2)
    _draw_means(axes[0][0], report)
    _draw_histories(axes[0][1], report)
    _draw_distribution(axes[1][0], report)
    _draw_signals(axes[1][1], report)
    stats = report.stats
    last = "" if stats.last_signal_at is None else f", to {format_time(stats.last_signal_at)} UTC"
    counts = f"{count_phrase(stats.facts, 'fact')}, {count_phrase(stats.signal_count, 'signal')}"
    figure.suptitle(f"Bank {_name_label(stats.bank)}, {counts}{last}")
    _save_figure(figure, path)


def _draw_means(axes: Any, report: BankReport) -> None:
    days = [date.fromisoformat(day.day) for day in report.days]
    axes.plot(days, [day.average_score for day in report.days], "o-", color="tab:blue")
    _set_score_scale(axes)
    _finish_bank_axes(axes, "Average score by day", days, times=True)


def _draw_histories(axes: Any, report: BankReport) -> None:
    times: list[datetime] = []
    for fact in report.histories:
        at = [clock.utc_time(each) for each in fact.at]
        axes.plot(at, fact.scores, ".-", label=_name_label(fact.fact_id))
        times += at
    _set_score_scale(axes)
    _finish_bank_axes(axes, "Scores of the facts most signalled lately", times, times=True)
    if times:
        axes.legend(fontsize=8)


def _draw_distribution(axes: Any, report: BankReport) -> None:
    counts = report.stats.distribution
    colors = ["tab:red" if band < len(counts) / 2 else "tab:blue" for band in range(len(counts))]
    axes.bar([(band + 0.5) / 10 for band in range(len(counts))], counts, width=0.09, color=colors)
    axes.set_xlabel("score")
    axes.locator_params(axis="y", integer=True)
    _finish_bank_axes(axes, "Facts by score", counts if any(counts) else [])


def _draw_signals(axes: Any, report: BankReport) -> None:
    days = [date.fromisoformat(day.day) for day in report.days]
    below = [0] * len(days)
    for kind in SIGNAL_TYPES:
        counts = [day.signal_breakdown[kind.name] for day in report.days]
        axes.bar(days, counts, bottom=below, color=kind.color, label=kind.name)
        below = [low + count for low, count in zip(below, counts, strict=True)]
    axes.locator_params(axis="y", integer=True)
    _finish_bank_axes(axes, "Signals by day", days, times=True)
    if days:
        axes.set_title("Signals by day", loc="left", pad=24)
        axes.legend(
            fontsize=8, ncols=min(len(SIGNAL_TYPES), 5), frameon=False, loc="lower left", bbox_to_anchor=(0, 1)
        )  # over no bar


def _set_score_scale(axes: Any) -> None:
    axes.set_ylim(0, 1)
    axes.axhline(0.5, color="lightgray", lw=1, zorder=0)


def _finish_bank_axes(axes: Any, title: str, shown: Sequence[Any], *, times: bool = False) -> None:
    axes.set_title(title, loc="left")
    if not shown:
        _say_nothing_counted(axes)
    elif times:
        locator, formatter = cast("Any", AutoDateLocator), cast("Any", ConciseDateFormatter)  # untyped
        ticks = locator(minticks=2, maxticks=6)
        axes.xaxis.set_major_locator(ticks)
        axes.xaxis.set_major_formatter(formatter(ticks))
        first, last = min(shown), max(shown)
        if first == last:  # matplotlib widens an axis of one point to four years
            axes.set_xlim(first - timedelta(days=1), last + timedelta(days=1))


_GRID: Final = 200  # points of each curve


def draw_calibration(found: CalibrationReport, path: Path) -> None:
    """Draw precision, recall and F1 over the pairs' cosines into `path`, in the format of its ending."""
    figure = new_figure(9, 7)
    axes = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    _draw_curves(axes[0], found)
    _draw_cosines(axes[1], found)
    figure.suptitle(f"{count_phrase(found.calibration.pairs, 'pair')}, {_model_label(found.model)}")
    _save_figure(figure, path)


def _draw_curves(axes: Any, found: CalibrationReport) -> None:
    low = min(0.0, *found.cosines)
    thresholds = [low + (1 - low) * step / _GRID for step in range(_GRID + 1)]
    points = [found.calibration.score_at(threshold) for threshold in thresholds]
    for name, color in (("precision", "tab:cyan"), ("recall", "tab:purple"), ("f1", "tab:green")):
        label = "F1" if name == "f1" else name
        axes.plot(thresholds, [getattr(point, name) for point in points], color=color, label=label)
    axes.axvline(found.chosen.threshold, color="black", lw=1, label=f"threshold {found.chosen.threshold:g}")
    axes.axvline(found.default.threshold, color="gray", lw=1, ls=":", label=f"default {found.default.threshold:g}")
    axes.set_ylim(0, 1.02)
    axes.legend(frameon=False)


def _draw_cosines(axes: Any, found: CalibrationReport) -> None:
    kinds = [
        [cosine for cosine, same in zip(found.cosines, found.same, strict=True) if same is kind]
        for kind in (True, False)
    ]
    axes.hist(kinds, bins=50, stacked=True, color=["tab:green", "lightgray"], label=["matching pairs", "other pairs"])
    axes.axvline(found.chosen.threshold, color="black", lw=1)
    axes.set_xlabel("cosine")
    axes.set_ylabel("pairs")
    axes.legend(frameon=False)
