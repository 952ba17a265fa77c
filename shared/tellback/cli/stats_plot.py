"""The measures of guidance as a picture."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from matplotlib.figure import Figure

from tellback.client.stats import moment

if TYPE_CHECKING:
    from tellback.client.stats import GuidanceStats

GOOD: Final = "tab:blue"
BAD: Final = "tab:red"
PALE: Final = "lightgray"
TOP: Final = 12


def draw(stats: GuidanceStats, path: Path) -> None:
    """Write it into `path`; the ending says the format."""
    figure = Figure(figsize=(11, 7.5), layout="constrained")  # no display is needed
    axes: Any = figure.subplots(2, 2)  # matplotlib's types leave its keywords unknown
    _days(axes[0][0], stats)
    _day_rates(axes[0][1], stats)
    _tools(axes[1][0], stats)
    _kinds(axes[1][1], stats)
    whose = f"team {stats.team}" if stats.session is None else f"session {stats.session}"
    since = "nothing counted yet" if stats.since is None else f"{moment(stats.since)} to {moment(stats.until)} UTC"
    title = cast("Any", figure.suptitle)  # pyright: ignore[reportUnknownMemberType]  # as above
    title(f"Guidance, {plain(whose)}, {since}")
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write a picture, with the folders that lead to it."""
    savefig = cast("Any", figure.savefig)  # pyright: ignore[reportUnknownMemberType]  # matplotlib's are untyped in part
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name in a script that the font has not: boxes do
        savefig(path, dpi=120)


def _days(axes: Any, stats: GuidanceStats) -> None:
    days = [day.day[5:] for day in stats.by_day]
    errors = [day.totals.errors for day in stats.by_day]
    well = [day.totals.calls - day.totals.errors for day in stats.by_day]
    axes.bar(days, well, color=GOOD, label="other calls")
    axes.bar(days, errors, bottom=well, color=BAD, label="errors")
    axes.tick_params(axis="x", rotation=45)
    _finish(axes, "Tool calls by day", days)


def _day_rates(axes: Any, stats: GuidanceStats) -> None:
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
    _finish(axes, "Rates by day", days)


def _tools(axes: Any, stats: GuidanceStats) -> None:
    tools = stats.summary.tools[:TOP]
    names = [plain(tool.tool) for tool in tools]
    places = range(len(tools))
    axes.barh(places, [tool.calls - tool.errors for tool in tools], color=GOOD, label="other calls")
    left = [tool.calls - tool.errors for tool in tools]
    axes.barh(places, [tool.errors for tool in tools], left=left, color=BAD, label="errors")
    _rows(axes, "Tool calls by tool", names)


def _kinds(axes: Any, stats: GuidanceStats) -> None:
    kinds = stats.summary.suggestions[:TOP]
    places = range(len(kinds))
    axes.barh(places, [kind.taken for kind in kinds], color=GOOD, label="taken")
    left = [kind.taken for kind in kinds]
    axes.barh(places, [kind.offered - kind.taken for kind in kinds], left=left, color=PALE, label="not taken")
    _rows(axes, "Suggestions by kind", [plain(kind.kind) for kind in kinds])


def _rows(axes: Any, title: str, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.locator_params(axis="x", nbins=6, integer=True)
    _finish(axes, title, names)


def _finish(axes: Any, title: str, names: Sequence[str]) -> None:
    axes.set_title(title, loc="left", pad=24)
    if not names:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "nothing counted", ha="center", va="center", transform=axes.transAxes)
        return
    axes.legend(fontsize=8, ncols=3, frameon=False, loc="lower left", bbox_to_anchor=(0, 1))  # above, over no bar


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else float("nan")


def plain(text: str) -> str:
    """Without what matplotlib would take for mathematics, and short."""
    text = "".join(sign if sign.isprintable() else "�" for sign in text).replace("$", r"\$")
    return text if len(text) <= 28 else f"{text[:27]}…"
