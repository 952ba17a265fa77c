"""`tellback watch`: follow the records of commands in a full-screen terminal view."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tellback.cli.common import COMMANDS, TeamOption, UrlOption, existing_team, report_errors
from tellback.errors import ConfigurationError, InvalidInput

if TYPE_CHECKING:
    from tellback.tui.sources import RecordSource

STDIN: Final = "-"
SLOW_SECONDS: Final = 10.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("watch", rich_help_panel=COMMANDS)(watch)


def watch(
    session: Annotated[
        str | None,
        typer.Argument(help="Session name, or `-` to read JSON lines from standard input. Optional with --file."),
    ] = None,
    *,
    file: Annotated[Path | None, typer.Option(help="Watch a host's feedback_record.jsonl instead of Redis.")] = None,
    slow: Annotated[
        float, typer.Option(min=0, help="Mark commands that take at least this many seconds as slow.")
    ] = SLOW_SECONDS,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Watch the records of commands as they arrive: failures, retries, expectations and output. Needs a terminal."""
    with report_errors():
        _require_textual()
        if file is not None and session == STDIN:
            raise InvalidInput("use either --file or standard input (`-`), not both")
        keyboard = _reopen_keyboard() if session == STDIN else None
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise InvalidInput("`tellback watch` needs a terminal; use `tellback records` to print records")
    if keyboard is not None:
        from tellback.tui.sources import LineSource

        _run_app(LineSource(keyboard), slow)
    elif file is not None:
        from tellback.tui.sources import FileSource

        _run_app(FileSource(file, session), slow)
    else:
        from tellback.tui.sources import SessionSource

        with existing_team(redis_url, team) as tb:
            if not session:
                raise InvalidInput("name a session, or use --file, or `-` for standard input")
            _run_app(SessionSource(tb.context.database, tb.context.layout, session), slow)


def _run_app(source: RecordSource, slow: float) -> None:
    from tellback.tui.app import WatchApp

    app = WatchApp(source, slow=slow)
    with report_errors():
        app.run()
        if app.error is not None:
            raise app.error
    if app.return_code:
        raise typer.Exit(app.return_code)


def _require_textual() -> None:
    from importlib.util import find_spec

    if find_spec("textual") is None:
        raise ConfigurationError("`tellback watch` requires Textual: pip install 'tellback[tui]'")


def _reopen_keyboard() -> int:
    """Return a copy of standard input for the lines, and replace it by the terminal: Textual reads keys from fd 0."""
    if sys.stdin.isatty():
        raise InvalidInput("pipe JSON lines in: tellback records SESSION --all --json | tellback watch -")
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError as error:
        raise InvalidInput("`tellback watch` needs a terminal for its keys, and can't open /dev/tty") from error
    lines = os.dup(0)
    os.dup2(terminal, 0)
    os.close(terminal)
    return lines
