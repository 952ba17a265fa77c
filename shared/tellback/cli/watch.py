"""`tellback watch`: the records of commands, in a terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tellback.cli.common import COMMANDS, TeamOption, UrlOption, client, reported
from tellback.errors import ConfigurationError, InvalidInput

if TYPE_CHECKING:
    from tellback.tui.sources import Source

STDIN: Final = "-"
SLOW_SECONDS: Final = 10.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("watch", rich_help_panel=COMMANDS)(watch)


def watch(
    session: Annotated[
        str | None,
        typer.Argument(help="The session; `-` for JSON lines on standard input; with --file, all of it by default."),
    ] = None,
    *,
    file: Annotated[
        Path | None, typer.Option(help="Watch this feedback_record.jsonl of a host; no Redis is needed.")
    ] = None,
    slow: Annotated[float, typer.Option(min=0, help="Seconds from which a command is marked as slow.")] = SLOW_SECONDS,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """The records of commands as they come: failures, null exits, retries, expectations, output. Needs a terminal."""
    with reported():
        _need_textual()
        if file is not None and session == STDIN:
            raise InvalidInput("take records either from --file or from standard input")
        keyboard = _keyboard_beside_lines() if session == STDIN else None
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise InvalidInput("watch needs a terminal; `tellback records` prints")
    if keyboard is not None:
        from tellback.tui.sources import LineSource

        _show(LineSource(keyboard), slow)
    elif file is not None:
        from tellback.tui.sources import FileSource

        _show(FileSource(file, session), slow)
    else:
        from tellback.tui.sources import SessionSource

        with client(redis_url, team) as tb:
            if not session:
                raise InvalidInput("name a session, give --file, or `-` for standard input")
            _show(SessionSource(tb.context.database, tb.context.layout, session), slow)


def _show(source: Source, slow: float) -> None:
    from tellback.tui.app import WatchApp

    app = WatchApp(source, slow=slow)
    with reported():
        app.run()
        if app.error is not None:
            raise app.error
    if app.return_code:
        raise typer.Exit(app.return_code)


def _need_textual() -> None:
    from importlib.util import find_spec

    if find_spec("textual") is None:
        raise ConfigurationError("watch needs Textual: pip install 'tellback[tui]'")


def _keyboard_beside_lines() -> int:
    """Take standard input aside as the lines' descriptor, and put the terminal's keyboard in its place."""
    if sys.stdin.isatty():
        raise InvalidInput("give JSON lines on standard input: tellback records S --all --json | tellback watch -")
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError as error:
        raise InvalidInput("watch needs a terminal for its keys, and there is none (/dev/tty)") from error
    lines = os.dup(0)
    os.dup2(terminal, 0)
    os.close(terminal)
    return lines
