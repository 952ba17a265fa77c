"""`tellback stats`: the measures of guidance or of a bank, as tables, bars, a picture or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tellback.cli.common import (
    OPERATE,
    OneJsonOption,
    TeamOption,
    UrlOption,
    listed_team,
    plot_path,
    print_json,
    report_errors,
    reporting_plot_errors,
    text_option,
    warn_of_models,
)
from tellback.errors import InvalidInput

if TYPE_CHECKING:
    from tellback.client.connection import Tellback
    from tellback.client.statistics import BankReport, GuidanceStats

GUIDANCE_DAYS: Final = 35  # counters of guidance expire after them, so more days would show nothing
BANK_DAYS: Final = 90


SessionOption = Annotated[
    str | None,
    text_option("Show only this session, from its newest 1,000 history entries.", "--session", "-s"),
]
BankOption = Annotated[
    str | None, typer.Option("--bank", "-b", help="Show this bank's signals and scores instead of guidance.")
]
DaysOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=400,
        help="Number of days (UTC), including today. Guidance: 35 at most. Banks: days with signals; default 90.",
    ),
]
PlotOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Draw a plot to FILE.png, .svg or .pdf (needs the extra `plot`), or as bars in the terminal with -.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=OPERATE)(stats)


def stats(
    *,
    session: SessionOption = None,
    bank: BankOption = None,
    days: DaysOption = None,
    plot: PlotOption = None,
    as_json: OneJsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Show statistics of guidance: tools, suggestions offered and taken, loops, providers, delivery, cool-downs.

    With --bank, show a bank's average score by day, the distribution of scores, the most and least useful facts, and
    how scores changed.

    Guidance counters are kept by day for 35 days. They are exact: an event that is delivered twice counts once, even if
    a worker crashes. A suggestion counts as taken if one of the next three calls uses its tool, with its arguments if
    it named any. A loop is the 3rd, 5th or 8th identical call; a repeated failure is a failed call that is repeated and
    fails again.
    """
    with report_errors():
        picture = plot_path(plot)
        _check_options(session, bank, days)
    with listed_team(redis_url, team) as tb:
        if session is None:
            warn_of_models(tb)
        if bank is not None:
            found: GuidanceStats | BankReport = _bank_report(tb, bank, days or BANK_DAYS)
        else:
            found = _guidance_stats(tb, session, days or GUIDANCE_DAYS)
        if picture is not None:
            _draw_stats(found, picture)
        if as_json:
            print_json(found)
        elif picture is None:
            _print_stats(found, bars=plot is not None)


def _check_options(session: str | None, bank: str | None, days: int | None) -> None:
    if session is not None and bank is not None:
        raise InvalidInput("use either --session or --bank, not both")
    if bank is None and days is not None and days > GUIDANCE_DAYS:
        raise InvalidInput(f"--days {days}: guidance counters are kept for {GUIDANCE_DAYS} days")


def _guidance_stats(tb: Tellback, session: str | None, days: int) -> GuidanceStats:
    from tellback.client.statistics import session_stats, team_stats

    return team_stats(tb.context, days) if session is None else session_stats(tb.context, session)


def _bank_report(tb: Tellback, bank: str, days: int) -> BankReport:
    from tellback.client.statistics import bank_report

    return bank_report(tb.context, tb.bank(bank).name, days)


def _draw_stats(found: GuidanceStats | BankReport, picture: Path) -> None:
    from tellback.client.statistics import GuidanceStats

    with reporting_plot_errors(picture):
        from tellback.cli.plots import draw_bank, draw_guidance

        if isinstance(found, GuidanceStats):
            draw_guidance(found, picture)
        else:
            draw_bank(found, picture)


def _print_stats(found: GuidanceStats | BankReport, *, bars: bool) -> None:
    from tellback.cli import stats_report
    from tellback.client.statistics import GuidanceStats

    if isinstance(found, GuidanceStats):
        stats_report.print_guidance(found, bars=bars)
    else:
        stats_report.print_bank(found, bars=bars)
