"""A bank's figures on a terminal: tables, and bars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.markup import escape
from rich.text import Text

from tellback.cli.charts import BAR, bar, percent, table, visible
from tellback.client.stats import moment

if TYPE_CHECKING:
    from tellback.client.bank_report import BankReport, FactHistory
    from tellback.contracts.signals import BankDay, FactScore

LEVELS: Final = "▁▂▃▄▅▆▇█"
POINTS: Final = 60
FACT_BAR: Final = 10
"""Characters of a bar beside a fact: a UUID and its signals by type have room in a line of 80."""
NEWEST_DAYS: Final = 14


def print_page(report: BankReport, console: Console | None = None) -> None:
    """Everything, in tables; what has no rows is left out."""
    _print(report, _tables(report), console)


def print_bars(report: BankReport, console: Console | None = None) -> None:
    """The plot: the mean by day, how the scores are spread, and how those of the most signalled facts moved."""
    _print(report, _charts(report), console)


def _print(report: BankReport, parts: Iterator[Group], console: Console | None) -> None:
    console = console or Console()
    console.print(_heading(report), highlight=False, soft_wrap=True)
    for part in parts:
        console.print()
        console.print(part)


def _heading(report: BankReport) -> str:
    stats = report.stats
    last = "never" if stats.last_signal_at is None else f"{moment(stats.last_signal_at)} UTC"
    counts = ", ".join(f"{kind} {count:,}" for kind, count in stats.signal_breakdown.items())
    held = f", {stats.held_facts:,} held" if stats.held_facts else ""
    return (
        f"[bold]Bank {escape(visible(stats.bank))}[/] · {stats.facts:,} facts{held}, {stats.contexts:,} contexts · "
        f"{escape(visible(stats.model))}, {stats.dimension} dimensions, threshold {stats.threshold:g}\n"
        f"{stats.signal_count:,} signals: {counts} · last {last}\n"
        f"average score {stats.average_score:.3f} · decay written for {report.decayed or 'no week yet'}"
    )


def _tables(report: BankReport) -> Iterator[Group]:
    stats = report.stats
    if stats.facts:
        yield _spread(report)
        yield _facts("Most useful", stats.most_useful)
        yield _facts("Least useful", stats.least_useful)
    if report.days:
        yield _days(report.days[-NEWEST_DAYS:])


def _charts(report: BankReport) -> Iterator[Group]:
    if report.days:
        yield _days(report.days)
    if report.stats.facts:
        yield _spread(report)
    if report.histories:
        yield _histories(report.histories)


def _spread(report: BankReport) -> Group:
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


def _facts(title: str, facts: list[FactScore]) -> Group:
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


def _days(days: list[BankDay]) -> Group:
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


def _histories(facts: list[FactHistory]) -> Group:
    rows = [
        (fact.fact_id, f"{len(fact.scores):,}", f"{fact.scores[-1]:.3f}", Text(_line(fact.scores), "green"))
        for fact in facts
    ]
    return table("Scores after each of the newest signals", ("fact", "signals", "score", ""), rows)


def _score_bar(score: float, *, longest: int = BAR) -> Text:
    """A bar for a score between 0 and 1, of which 0.5 is neutral."""
    styles = ("green" if score >= 0.5 else "red", "bright_black")
    return bar(1_000, round(1_000 * score), 1_000, styles, longest=longest)


def _line(scores: list[float]) -> str:
    """The latest scores as one line of blocks, the whole scale from 0 to 1."""
    return "".join(LEVELS[min(int(score * len(LEVELS)), len(LEVELS) - 1)] for score in scores[-POINTS:])
