"""`tellback dead`: what could not be processed."""

from __future__ import annotations

from typing import Annotated

import typer

from tellback.cli.common import OPERATE, JsonOption, TeamOption, UrlOption, client, print_json, show

IdArgument = Annotated[str, typer.Argument(help="The letter's id, as `dead list` shows it.")]


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Dead letters: what could not be processed, and why.", no_args_is_help=True)
    for command in (list_, show_, replay, drop):
        group.command(command.__name__.rstrip("_"))(command)
    app.add_typer(group, name="dead", rich_help_panel=OPERATE)


def list_(
    limit: Annotated[int, typer.Option(help="Newest letters to list.", min=1)] = 100,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """The newest dead letters."""
    with client(redis_url, team) as tb:
        letters = tb.dead.newest(limit)
    show(letters, as_json=as_json, columns=("id", "at", "family", "bytes", "reason"), title="Dead letters")


def show_(letter_id: IdArgument, redis_url: UrlOption = None, team: TeamOption = None) -> None:
    """One dead letter, with its raw entry, as JSON."""
    import msgspec

    with client(redis_url, team) as tb:
        print_json(msgspec.to_builtins(tb.dead.get(letter_id)))


def replay(letter_id: IdArgument, redis_url: UrlOption = None, team: TeamOption = None) -> None:
    """Put a dead letter back into its stream, say after an upgrade of the workers."""
    with client(redis_url, team) as tb:
        typer.echo(f"back in the intake as {tb.dead.replay(letter_id)}")


def drop(letter_id: IdArgument, redis_url: UrlOption = None, team: TeamOption = None) -> None:
    """Delete a dead letter for good."""
    with client(redis_url, team) as tb:
        tb.dead.drop(letter_id)
    typer.echo(f"dropped {letter_id}")
