"""`tellback stats`: what guidance has measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tellback.cli.common import OPERATE, TeamOption, UrlOption, client, print_json
from tellback.cli.pictures import drawing, picture_file

if TYPE_CHECKING:
    from tellback.client.stats import GuidanceStats


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=OPERATE)(stats)


def stats(
    *,
    session: Annotated[
        str | None,
        typer.Option("--session", "-s", help="Only this session, as far as its newest 1,000 history entries tell."),
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=35, help="How many days (UTC) to add up, today included.")] = 35,
    plot: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Draw it: into FILE.png, .svg or .pdf (extra `plot`), or with - as bars in the terminal.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """What guidance has measured: tools, suggestions offered and taken, loops, providers, delivery, cool-downs.

    Counters are kept by day for 35 days. Each is exact: an event that comes twice counts once, whichever worker dies.
    A suggestion is taken when one of the next three calls is of its tool, with its arguments where it named some. A
    loop is a call made for the 3rd, 5th or 8th time; a repeated failure is a failed call made again that fails again.
    """
    from tellback.client.stats import session_stats, team_stats

    with client(redis_url, team) as tb:
        picture = picture_file(plot)
        found = team_stats(tb.context, days) if session is None else session_stats(tb.context, session)
        if picture is not None:
            _draw(found, picture)
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(found))
    elif picture is None:
        from tellback.cli.stats_page import print_bars, print_page

        (print_page if plot is None else print_bars)(found)


def _draw(found: GuidanceStats, path: Path) -> None:
    with drawing(path):
        from tellback.cli.stats_plot import draw

        draw(found, path)
