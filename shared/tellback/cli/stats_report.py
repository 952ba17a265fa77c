"""Reports of `tellback stats` on a terminal: guidance and banks, each as tables or, with `--plot -`, as bars.

Names of tools, facts and banks come from outside; none is markup, and `table` escapes them for the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.text import Text

from tellback.cli.common import plain_text
from tellback.cli.report_table import table
from tellback.client.statistics import format_time
from tellback.sanitize import terminal_line
from tellback.wording import count_phrase

if TYPE_CHECKING:
    from tellback.client.statistics import BankReport, FactHistory, GuidanceStats
    from tellback.contracts.signals import BankDay, FactScore
    from tellback.guidance.summary import Summary, Totals

BAR: Final = 30  # characters of a full bar


def bar(whole: int, part: int, most: int, styles: tuple[str, str], *, longest: int = BAR) -> Text:
    """Return a bar of length `whole` relative to `most`, with `part` of it in the first style.

    Neither a bar nor a part above zero is rounded to nothing: one error in a thousand calls must stay visible.
    """
    cells = max(1, round(longest * whole / most)) if whole else 0
    begin = round(cells * part / whole) if whole else 0
    if cells > 1 and 0 < part < whole:
        begin = min(max(begin, 1), cells - 1)
    return Text.assemble(("█" * begin, styles[0]), ("▒" * (cells - begin), styles[1]))


def percent(rate: float | None) -> str:
    """Return a rate as a whole percentage, or an empty string for None."""
    return "" if rate is None else f"{rate:.0%}"


TOP: Final = 20  # rows of a table; --json has all


def print_guidance(stats: GuidanceStats, *, bars: bool) -> None:
    """Print all measures of guidance as tables, or with `bars` the main ones as bars; empty ones are left out."""
    console = Console()
    if stats.since is None and (bars or not stats.cooling):
        _print_nothing(stats, console)
        return
    console.print(_guidance_heading(stats))
    _print_parts(_guidance_charts(stats) if bars else _guidance_tables(stats), console)


def _guidance_charts(stats: GuidanceStats) -> Iterator[Group]:
    summary = stats.summary
    tools = [(tool.tool, tool.calls, tool.errors) for tool in summary.tools[:TOP]]
    if stats.by_day:
        yield _guidance_day_table(stats)
    if tools:
        yield _call_chart("Tool calls by tool", tools)
    if summary.suggestions:
        yield _suggestion_table(summary)


def _print_parts(parts: Iterable[Group], console: Console) -> None:
    for part in parts:
        console.print()
        console.print(part)


def _print_nothing(stats: GuidanceStats, console: Console) -> None:
    if stats.session is not None:
        text = f"Session {stats.session}: no tool calls in its history."
    else:
        text = (
            f"Team {stats.team}: no tool calls yet. Publish them with `prompt.observe(...)` or "
            "`prompt.tool_invoked(...)`; a worker counts them. Run `tellback doctor` to check that a worker is running."
        )
    console.print(plain_text(text))


def _guidance_heading(stats: GuidanceStats) -> Text:
    whose = f"Team {stats.team}" if stats.session is None else f"Session {stats.session}"
    since = "" if stats.since is None else f", {format_time(stats.since)} to {format_time(stats.until)} UTC"
    kept = "counters are kept for 35 days" if stats.session is None else "from its newest 1,000 history entries"
    details = plain_text(f" · {terminal_line(whose)}{since} · {kept}\n{_totals_line(stats.summary.totals)}")
    return Text.assemble(("Guidance", "bold"), details)


def _totals_line(totals: Totals) -> str:
    loops = ", ".join(f"{count:,} at {level}" for level, count in totals.loops.items() if count) or "none"
    return (
        f"{count_phrase(totals.calls, 'tool call')}, "
        f"{count_phrase(totals.errors, 'error')}{_share_text(totals.error_rate)} · "
        f"{count_phrase(totals.offered, 'suggestion')}, {totals.taken:,} taken{_share_text(totals.taken_rate)} · "
        f"loops: {loops} · repeated failures: {totals.repeated_failures:,} · feedback: {totals.fires:,}"
    )


def _guidance_tables(stats: GuidanceStats) -> Iterable[Group]:
    summary, delivery = stats.summary, stats.summary.delivery
    if stats.cooling:
        cooling = [(cool.tool, f"{cool.seconds_left:,.0f} s", f"{cool.refusals:,}") for cool in stats.cooling[:TOP]]
        yield table("Cooling down (for all agents of the team)", ("tool", "left", "refusals"), cooling)
    if summary.tools:
        yield _tool_table(summary)
    outcomes = _outcome_table(summary)
    if outcomes is not None:
        yield outcomes
    if summary.suggestions:
        yield _suggestion_table(summary)
    if summary.providers:
        yield _provider_table(summary)
    if delivery.same_call or delivery.late or delivery.timed or delivery.expired:
        fates = (delivery.same_call, delivery.late, delivery.timed, delivery.expired)
        same, *rest = (f"{count:,}" for count in fates)
        columns = ("same call", "", "later call", "by time alone", "expired")
        yield table("Feedback delivered with", columns, [(same, percent(delivery.same_call_rate), *rest)])
    if len(stats.by_day) > 1:
        yield _guidance_day_table(stats)


def _guidance_day_table(stats: GuidanceStats) -> Group:
    return _call_chart("Tool calls by day", [(day.day, day.totals.calls, day.totals.errors) for day in stats.by_day])


def _suggestion_table(summary: Summary) -> Group:
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


def _provider_table(summary: Summary) -> Group:
    counts = ("fires", "timed", "failures", "timeouts", "disabled")
    more = len(summary.providers) - TOP
    shown = sorted(summary.providers, key=lambda each: not each.failures)[:TOP]  # failing ones must make the cut
    return table(
        "Feedback providers" if more <= 0 else f"Feedback providers; --json has {more:,} more",
        ("provider", *counts),
        [(each.provider, *(f"{getattr(each, count):,}" for count in counts)) for each in shown],
    )


def _tool_table(summary: Summary) -> Group:
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


def _outcome_table(summary: Summary) -> Group | None:
    """Return the outcomes of observed calls by tool, or None if no host observes its calls."""
    rows = [
        (tool.tool, ", ".join(f"{code} {count:,}" for code, count in tool.codes.items()))
        for tool in summary.tools[:TOP]
        if tool.codes
    ]
    return table("Outcomes of observed calls", ("tool", "outcomes"), rows) if rows else None


def _call_chart(title: str, rows: Sequence[tuple[str, int, int]]) -> Group:
    """Return a bar for each name, with its calls and errors."""
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


def _share_text(rate: float | None) -> str:
    return "" if rate is None else f" ({rate:.0%})"


LEVELS: Final = "▁▂▃▄▅▆▇█"

POINTS: Final = 60  # newest scores of a fact in one line

FACT_BAR: Final = 10
"""Characters of a bar beside a fact; leaves room for a UUID and its signals by type in a line of 80."""

NEWEST_DAYS: Final = 14  # of the tables; the bars of --plot - show every day asked for


def print_bank(report: BankReport, *, bars: bool) -> None:
    """Print the figures of a bank as tables, or with `bars` its days, distribution and most signalled facts as bars."""
    console = Console()
    console.print(_bank_heading(report), soft_wrap=True)
    _print_parts(_bank_charts(report) if bars else _bank_tables(report), console)


def _bank_heading(report: BankReport) -> Text:
    stats = report.stats
    last = "never" if stats.last_signal_at is None else f"{format_time(stats.last_signal_at)} UTC"
    counts = ", ".join(f"{kind} {count:,}" for kind, count in stats.signal_breakdown.items())
    held = f", {stats.stored_facts:,} stored" if stats.stored_facts else ""
    details = plain_text(
        f" · {count_phrase(stats.facts, 'fact')}{held}, {count_phrase(stats.clusters, 'cluster')} · "
        f"{terminal_line(stats.model)}, {stats.dimension} dimensions, threshold {stats.threshold:g}\n"
        f"{count_phrase(stats.signal_count, 'signal')}: {counts} · last {last}\n"
        f"average score {stats.average_score:.3f} · last decay {report.decayed or 'never'}"
    )
    return Text.assemble((f"Bank {terminal_line(stats.bank)}", "bold"), details)


def _bank_tables(report: BankReport) -> Iterator[Group]:
    stats = report.stats
    if stats.facts:
        yield _score_distribution(report)
        if stats.most_useful:  # else somebody wrote the scores by hand, without the ranks that belong to them
            yield _fact_table("Most useful", stats.most_useful)
            yield _fact_table("Least useful", stats.least_useful)
    if report.days:
        yield _bank_day_table(report.days[-NEWEST_DAYS:])


def _bank_charts(report: BankReport) -> Iterator[Group]:
    if report.days:
        yield _bank_day_table(report.days)
    if report.stats.facts:
        yield _score_distribution(report)
    if report.histories:
        yield _history_table(report.histories)


def _score_distribution(report: BankReport) -> Group:
    counts = report.stats.distribution
    rows = [
        (
            f"{band / 10:.1f} to {(band + 1) / 10:.1f}",
            f"{count:,}",
            percent(count / report.stats.facts),
            bar(count, count if band >= len(counts) / 2 else 0, max(counts), ("green", "red")),
        )
        for band, count in enumerate(counts)
    ]
    return table("Facts by score", ("score", "facts", "", ""), rows)


def _fact_table(title: str, facts: list[FactScore]) -> Group:
    rows = [
        (
            fact.fact_id,
            f"{fact.usefulness_score:.3f}",
            _score_bar(fact.usefulness_score, longest=FACT_BAR),
            ", ".join(f"{kind} {count:,}" for kind, count in fact.signal_breakdown.items() if count),
        )
        for fact in facts
    ]
    return table(title, ("fact", "score", "", "by type"), rows)


def _bank_day_table(days: list[BankDay]) -> Group:
    rows = [
        (
            day.day,
            f"{sum(day.signal_breakdown.values()):,}",
            f"{day.facts:,}",
            f"{day.average_score:.3f}",
            _score_bar(day.average_score),
        )
        for day in days
    ]
    return table("Average score by day", ("day", "signals", "facts", "score", ""), rows)


def _history_table(facts: list[FactHistory]) -> Group:
    rows = [
        (fact.fact_id, f"{len(fact.scores):,}", f"{fact.scores[-1]:.3f}", Text(_sparkline(fact.scores), "green"))
        for fact in facts
    ]
    return table("Scores after each of the newest signals", ("fact", "signals", "score", ""), rows)


def _score_bar(score: float, *, longest: int = BAR) -> Text:
    """Return a bar for a score from 0 to 1, green from the neutral 0.5 up."""
    styles = ("green" if score >= 0.5 else "red", "bright_black")
    return bar(1_000, round(1_000 * score), 1_000, styles, longest=longest)


def _sparkline(scores: list[float]) -> str:
    """Return the newest scores as one line of blocks on the full scale from 0 to 1, so that facts compare."""
    return "".join(LEVELS[min(int(score * len(LEVELS)), len(LEVELS) - 1)] for score in scores[-POINTS:])
