"""`tellback dead`: what could not be processed."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from tellback.cli.common import OPERATE, JsonOption, TeamOption, UrlOption, client, print_json, show
from tellback.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from tellback.state.dead import DeadLetters

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


def replay(
    letter_id: Annotated[str | None, typer.Argument(help="The letter's id, as `dead list` shows it.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All letters, those of a stream in their order.")] = False,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="With --all: those whose reason has it.")] = None,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Put a dead letter back into its stream, or all of them, say after an upgrade of the workers."""
    with client(redis_url, team) as tb:
        if (letter_id is None) != every or (reason is not None and not every):
            raise InvalidInput("name one letter by its id, or give --all, perhaps with --reason TEXT")
        if letter_id is not None:
            typer.echo(f"back in the intake as {tb.dead.replay(letter_id)}")
            return
        replayed, cut = _replay_all(tb.dead, reason or "")
        typer.echo(f"back in the intake: {replayed}")
        if cut:
            typer.echo(f"tellback: left where they are, since they were cut: {cut}", err=True)


def _replay_all(dead: DeadLetters, reason: str) -> tuple[int, int]:
    """How many went back, and how many cannot."""
    replayed = cut = 0
    for letter in dead.oldest():
        if reason not in letter.reason:
            continue
        if not letter.whole:
            cut += 1
            continue
        with suppress(NotFound):  # somebody else has taken it
            dead.replay(letter.id)
            replayed += 1
    return replayed, cut


def drop(letter_id: IdArgument, redis_url: UrlOption = None, team: TeamOption = None) -> None:
    """Delete a dead letter for good."""
    with client(redis_url, team) as tb:
        tb.dead.drop(letter_id)
    typer.echo(f"dropped {letter_id}")
