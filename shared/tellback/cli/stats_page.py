"""The measures of guidance on a terminal: tables, and bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.markup import escape

from tellback.cli.charts import bar, percent, table
from tellback.client.stats import moment

if TYPE_CHECKING:
    from tellback.client.stats import GuidanceStats
    from tellback.guidance.summary import Summary, Totals

TOP: Final = 20


def print_page(stats: GuidanceStats, console: Console | None = None) -> None:
    """Everything, in tables; what has no rows is left out."""
    console = console or Console()
    if stats.since is None and not stats.cooling:
        _print_nothing(stats, console)
        return
    console.print(_heading(stats), highlight=False)
    for part in _tables(stats):
        console.print()
        console.print(part)


def print_bars(stats: GuidanceStats, console: Console | None = None) -> None:
    """The plot: calls and errors by day and by tool, and how much of each kind of suggestion was taken."""
    console = console or Console()
    if stats.since is None:
        _print_nothing(stats, console)
        return
    console.print(_heading(stats), highlight=False)
    summary = stats.summary
    tools = [(tool.tool, tool.calls, tool.errors) for tool in summary.tools[:TOP]]
    for chart in (
        _days(stats) if stats.by_day else None,
        _chart("Tool calls by tool", tools) if tools else None,
        _suggestions(summary) if summary.suggestions else None,
    ):
        if chart is not None:
            console.print()
            console.print(chart)


def _print_nothing(stats: GuidanceStats, console: Console) -> None:
    if stats.session is not None:
        text = f"Session {stats.session}: its history holds no tool calls."
    else:
        text = (
            f"Team {stats.team}: guidance has counted nothing yet. It counts what `prompt.observe(...)` and "
            "`prompt.tool_invoked(...)` publish, once a worker has taken it: `tellback doctor` tells whether one runs."
        )
    console.print(text, markup=False, highlight=False)


def _heading(stats: GuidanceStats) -> str:
    whose = f"Team {stats.team}" if stats.session is None else f"Session {stats.session}"
    since = "" if stats.since is None else f", {moment(stats.since)} to {moment(stats.until)} UTC"
    kept = "counters are kept 35 days" if stats.session is None else "from its newest 1,000 history entries"
    return f"[bold]Guidance[/] · {escape(whose)}{since} · {kept}\n{_totals(stats.summary.totals)}"


def _totals(totals: Totals) -> str:
    loops = ", ".join(f"{count:,} at {level}" for level, count in totals.loops.items() if count) or "none"
    return (
        f"{totals.calls:,} tool calls, {totals.errors:,} errors{_share(totals.error_rate)} · "
        f"{totals.offered:,} suggestions, {totals.taken:,} taken{_share(totals.taken_rate)} · "
        f"loops: {loops} · repeated failures: {totals.repeated_failures:,} · feedback: {totals.fires:,}"
    )


def _tables(stats: GuidanceStats) -> Iterable[Group]:
    summary, delivery = stats.summary, stats.summary.delivery
    if stats.cooling:
        cooling = [(cool.tool, f"{cool.seconds_left:,.0f} s", f"{cool.refusals:,}") for cool in stats.cooling[:TOP]]
        yield table("Cooling down, for every agent of the team", ("tool", "left", "refusals"), cooling)
    if summary.tools:
        yield _tools(summary)
    outcomes = _outcomes(summary)
    if outcomes is not None:
        yield outcomes
    if summary.suggestions:
        yield _suggestions(summary)
    if summary.providers:
        yield _providers(summary)
    if delivery.same_call or delivery.late or delivery.timed or delivery.expired:
        fates = (delivery.same_call, delivery.late, delivery.timed, delivery.expired)
        same, *rest = (f"{count:,}" for count in fates)
        columns = ("same call", "", "later call", "by time alone", "expired")
        yield table("Feedback delivered with", columns, [(same, percent(delivery.same_call_rate), *rest)])
    if len(stats.by_day) > 1:
        yield _days(stats)


def _days(stats: GuidanceStats) -> Group:
    return _chart("Tool calls by day", [(day.day, day.totals.calls, day.totals.errors) for day in stats.by_day])


def _suggestions(summary: Summary) -> Group:
    most = max(kind.offered for kind in summary.suggestions)
    return table(
        "Suggestions",
        ("suggestion", "offered", "taken", "", ""),
        [
            (
                kind.kind,
                f"{kind.offered:,}",
                f"{kind.taken:,}",
                percent(kind.taken_rate),
                bar(kind.offered, kind.taken, most, ("green", "bright_black")),
            )
            for kind in summary.suggestions[:TOP]
        ],
    )


def _providers(summary: Summary) -> Group:
    counts = ("fires", "timed", "failures", "timeouts", "disabled")
    more = len(summary.providers) - TOP
    shown = sorted(summary.providers, key=lambda each: not each.failures)[:TOP]  # what fails is not to be overlooked
    return table(
        "Feedback providers" if more <= 0 else f"Feedback providers; --json has {more:,} more",
        ("provider", *counts),
        [(each.provider, *(f"{getattr(each, count):,}" for count in counts)) for each in shown],
    )


def _tools(summary: Summary) -> Group:
    more = len(summary.tools) - TOP
    return table(
        "Tools" if more <= 0 else f"Tools, the {TOP} most used; --json has {more:,} more",
        ("tool", "calls", "errors", "", "offered", "taken", "", "loops", "failed again"),
        [
            (
                tool.tool,
                f"{tool.calls:,}",
                f"{tool.errors:,}",
                percent(tool.error_rate),
                f"{tool.offered:,}",
                f"{tool.taken:,}",
                percent(tool.taken_rate),
                f"{tool.loops:,}",
                f"{tool.repeated_failures:,}",
            )
            for tool in summary.tools[:TOP]
        ],
    )


def _outcomes(summary: Summary) -> Group | None:
    """What observed calls came to; none if no host has its calls observed."""
    rows = [
        (tool.tool, ", ".join(f"{code} {count:,}" for code, count in tool.codes.items()))
        for tool in summary.tools[:TOP]
        if tool.codes
    ]
    return table("Outcomes of observed calls", ("tool", "outcomes"), rows) if rows else None


def _chart(title: str, rows: Sequence[tuple[str, int, int]]) -> Group:
    """A bar for each name with its calls and the errors among them."""
    most = max(calls for _, calls, _ in rows)
    cells = [
        (
            name,
            f"{calls:,}",
            f"{errors:,}",
            percent(errors / calls if calls else None),
            bar(calls, calls - errors, most, ("green", "red")),
        )
        for name, calls, errors in rows
    ]
    return table(title, ("", "calls", "errors", "", ""), cells)


def _share(rate: float | None) -> str:
    return "" if rate is None else f" ({rate:.0%})"
