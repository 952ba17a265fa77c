"""`tellback dead`: list, show, replay and drop dead letters."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from tellback.cli.common import (
    LISTED,
    OPERATE,
    JsonOption,
    TeamOption,
    UrlOption,
    echo,
    existing_team,
    given_id,
    given_text,
    listed_team,
    print_json,
    show_rows,
)
from tellback.cli.steering import ByOption, WhyOption
from tellback.errors import InvalidInput, NotFound, StateConflict

if TYPE_CHECKING:
    from tellback.state.dead_letters import DeadLetters

IdArgument = Annotated[
    str, typer.Argument(parser=given_id, metavar="letter_id", help="Id of the dead letter, from `tellback dead list`.")
]


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(help="Inspect, replay or drop entries that could not be applied.", no_args_is_help=True)
    for command in (list_, show_, replay, drop):
        group.command(command.__name__.rstrip("_"))(command)
    app.add_typer(group, name="dead", rich_help_panel=OPERATE)


def list_(
    limit: Annotated[int, typer.Option(help="Maximum number of dead letters.", min=1, max=10_000)] = LISTED,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """List the newest dead letters."""
    with listed_team(redis_url, team) as tb:
        letters = tb.dead.newest(limit)
        show_rows(
            letters,
            as_json=as_json,
            columns=("id", "at", "family", "bytes", "reason"),
            title="Dead letters",
            limit=limit,
        )


def show_(letter_id: IdArgument, redis_url: UrlOption = None, team: TeamOption = None) -> None:
    """Show one dead letter with its raw entry, as JSON."""
    with existing_team(redis_url, team) as tb:
        print_json(tb.dead.get(letter_id))


def replay(
    letter_id: Annotated[
        str | None,
        typer.Argument(parser=given_id, metavar="letter_id", help="Id of the dead letter, from `tellback dead list`."),
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Replay all dead letters, in order within a stream.")] = False,
    reason: Annotated[
        str | None,
        typer.Option(parser=given_text, metavar="TEXT", help="With --all: only those whose reason contains TEXT."),
    ] = None,
    why: WhyOption = "",
    by: ByOption = "",
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Put one dead letter, or all of them, back into the intake, for example after you upgrade the workers."""
    with existing_team(redis_url, team) as tb:
        if (letter_id is None) != every or (reason is not None and not every):
            raise InvalidInput("give the id of one dead letter, or --all, optionally with --reason TEXT")
        if letter_id is not None:
            echo(f"replayed as {tb.dead.replay(letter_id, by=by, reason=why)}")
            return
        replayed, refused = _replay_all(tb.dead, reason or "", by=by, why=why)
        echo(f"replayed: {replayed}")
        if refused:
            why_not = "truncated, of an unknown family, or for a stream that takes none now"
            echo(f"tellback: not replayed, because they are {why_not}: {refused}", err=True)


def _replay_all(dead: DeadLetters, reason: str, *, by: str, why: str) -> tuple[int, int]:
    """Return the numbers of letters that were replayed, and of those that can't be."""
    replayed = refused = 0
    for letter in dead.all_now():
        if reason in letter.reason:
            with suppress(NotFound):  # another process replayed or dropped it after we listed it
                try:
                    dead.replay(letter.id, by=by, reason=why)
                    replayed += 1
                except StateConflict:
                    refused += 1
    return replayed, refused


def drop(
    letter_id: IdArgument,
    *,
    why: WhyOption = "",
    by: ByOption = "",
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Delete a dead letter permanently."""
    with existing_team(redis_url, team) as tb:
        tb.dead.drop(letter_id, by=by, reason=why)
    echo(f"dropped {letter_id}")
