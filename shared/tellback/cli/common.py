"""What every command shares: a client, listings as tables or JSON, and errors as one line."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tellback.errors import ConfigurationError, InvalidInput, TellbackError

if TYPE_CHECKING:
    from tellback.client.connection import Tellback

BEGIN: Final = "Begin"
COMMANDS: Final = "Commands"
GUIDANCE: Final = "Guidance"
TURNS: Final = "Turns"
SIGNALS: Final = "Signals"
OPERATE: Final = "Operate"

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
UrlOption = Annotated[
    str | None,
    typer.Option("--redis-url", help="Redis of the state; default: TELLBACK_REDIS_URL, else a running `up`."),
]
TeamOption = Annotated[str | None, typer.Option("--team", help="The team; default: TELLBACK_TEAM.")]


@contextmanager
def client(url: str | None, team: str | None) -> Generator[Tellback, None, None]:
    """A client for one command; an error of ours ends the command with one line and its exit code."""
    from tellback.client.connection import connect

    with reported(), connect(url, team=team) as tb:
        yield tb


@contextmanager
def reported() -> Generator[None, None, None]:
    """Turn an error of ours into one line on standard error; exit code 2 for wrong input or settings, else 1."""
    try:
        yield
    except TellbackError as error:
        typer.echo(f"tellback: {error}", err=True)
        raise typer.Exit(2 if isinstance(error, (InvalidInput, ConfigurationError)) else 1) from error


def warn_of_models(tb: Tellback) -> None:
    """Say on standard error which worker hosts cannot apply signals, where any said so."""
    from tellback.client.model_state import model_state

    for line in model_state(tb.context).trouble:
        typer.echo(f"tellback: {line}", err=True)


def show(rows: Iterable[Any], *, as_json: bool, columns: Sequence[str], title: str, spare: Sequence[str] = ()) -> None:
    """Print rows (structs or mappings) as JSON lines, or as a table of `columns`, narrow ones without `spare` ones."""
    import msgspec

    plain: list[Mapping[str, Any]] = [msgspec.to_builtins(row) for row in rows]
    if as_json:
        for row in plain:
            print_json(row)
        return
    from tellback.cli.listing import harmless, show_table

    if plain:
        show_table(plain, columns, title=title, spare=spare)
    else:
        typer.echo(f"{harmless(title)}: none")


def print_json(value: Any) -> None:
    """One JSON line on standard output; what is not UTF-8 inside is replaced."""
    import json

    sys.stdout.write(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode() + "\n")
    sys.stdout.flush()
