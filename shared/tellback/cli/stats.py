"""`tellback stats`: what guidance has measured, or what the signals of a bank add up to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tellback.cli.common import OPERATE, TeamOption, UrlOption, client, print_json, warn_of_models
from tellback.cli.pictures import drawing, picture_file
from tellback.errors import InvalidInput

if TYPE_CHECKING:
    from tellback.client.bank_report import BankReport
    from tellback.client.connection import Tellback
    from tellback.client.stats import GuidanceStats

GUIDANCE_DAYS: Final = 35
BANK_DAYS: Final = 90


SessionOption = Annotated[
    str | None,
    typer.Option("--session", "-s", help="Only this session, as far as its newest 1,000 history entries tell."),
]
BankOption = Annotated[
    str | None, typer.Option("--bank", "-b", help="What the signals of this bank add up to, instead of guidance.")
]
DaysOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=400,
        help="How many days (UTC), today included: of guidance 35 at most; of a bank those with signals, else 90.",
    ),
]
PlotOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Draw it: into FILE.png, .svg or .pdf (extra `plot`), or with - as bars in the terminal.",
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
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """What guidance has measured: tools, suggestions offered and taken, loops, providers, delivery, cool-downs.

    With --bank, what the signals of a bank add up to: its average score by day, how the scores of its facts are spread,
    the most and the least useful facts, and how scores moved.

    Counters are kept by day for 35 days. Each is exact: an event that comes twice counts once, whichever worker dies.
    A suggestion is taken when one of the next three calls is of its tool, with its arguments where it named some. A
    loop is a call made for the 3rd, 5th or 8th time; a repeated failure is a failed call made again that fails again.
    """
    with client(redis_url, team) as tb:
        picture = picture_file(plot)
        _check(session, bank, days)
        if session is None:
            warn_of_models(tb)
        if bank is not None:
            found: GuidanceStats | BankReport = _bank(tb, bank, days or BANK_DAYS, picture)
        else:
            found = _guidance(tb, session, days or GUIDANCE_DAYS, picture)
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(found))
    elif picture is None:
        _print(found, bars=plot is not None)


def _check(session: str | None, bank: str | None, days: int | None) -> None:
    if session is not None and bank is not None:
        raise InvalidInput("--session and --bank: use one of them")
    if bank is None and days is not None and days > GUIDANCE_DAYS:
        raise InvalidInput(f"--days {days}: counters of guidance are kept {GUIDANCE_DAYS} days")


def _guidance(tb: Tellback, session: str | None, days: int, picture: Path | None) -> GuidanceStats:
    from tellback.client.stats import session_stats, team_stats

    found = team_stats(tb.context, days) if session is None else session_stats(tb.context, session)
    if picture is not None:
        with drawing(picture):
            from tellback.cli.stats_plot import draw

            draw(found, picture)
    return found


def _bank(tb: Tellback, bank: str, days: int, picture: Path | None) -> BankReport:
    from tellback.client.bank_report import bank_report

    found = bank_report(tb.context, tb.bank(bank).name, days)
    if picture is not None:
        with drawing(picture):
            from tellback.cli.bank_plot import draw

            draw(found, picture)
    return found


def _print(found: GuidanceStats | BankReport, *, bars: bool) -> None:
    from tellback.cli import bank_page, stats_page
    from tellback.client.stats import GuidanceStats

    if isinstance(found, GuidanceStats):
        (stats_page.print_bars if bars else stats_page.print_page)(found)
    else:
        (bank_page.print_bars if bars else bank_page.print_page)(found)
