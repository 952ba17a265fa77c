"""`tellback gate`: check the records of commands in Redis, or of a host's file, before success is claimed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tellback.cli.common import (
    COMMANDS,
    JsonOption,
    TeamOption,
    UrlOption,
    echo,
    existing_team,
    place_options,
    print_json,
    report_errors,
)
from tellback.cli.records import OR_FILE, print_line, readable_file, require_session
from tellback.errors import InvalidInput

if TYPE_CHECKING:
    from tellback.contracts.commands import Verdict

SessionArgument = Annotated[
    str | None, typer.Argument(help="Session name. Optional with --file, which then reads every session.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("gate", rich_help_panel=COMMANDS)(gate)


def gate(
    session: SessionArgument = None,
    *,
    require: Annotated[
        list[str] | None,
        typer.Option(help='Command that must have run, quoted as in a shell: "pytest -q". Repeatable.'),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="Check a host's feedback_record.jsonl and its rotated files instead of Redis.")
    ] = None,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Check whether the recorded runs justify claiming success. Exits 0 if so, or 1 with the reasons."""
    with report_errors():
        required = [_parse_argv(command) for command in require or ()]
    waive = ""  # a host's file has no waivers
    if file is not None:
        from tellback.commands.gate import evaluate_gate
        from tellback.commands.record import RecordFile

        with readable_file(file):
            loaded = RecordFile(file).load(rotated=True, session=session)
        if not loaded.records and not file.exists():
            echo(f"tellback: {file} does not exist", err=True)
        verdict = evaluate_gate(loaded.records, require=required, evicted=loaded.dropped, unreadable=loaded.unreadable)
    else:
        with existing_team(redis_url, team) as tb:
            verdict = tb.gate(require_session(session, OR_FILE), required)
            options = place_options(tb.context.settings)
        waive = f", or say why it does not count: tellback waive ID --why TEXT{options}"
    _print_verdict(verdict, waive, as_json=as_json)
    raise typer.Exit(0 if verdict.passed else 1)


def _print_verdict(verdict: Verdict, waive: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"passed": verdict.passed, "reasons": verdict.reasons})
        return
    for line in ("passed" if verdict.passed else "refused", *(f"- {reason}" for reason in verdict.reasons)):
        print_line(line)
    if any("no linked retry" in reason for reason in verdict.reasons):
        echo(f"To clear a failure, fix its cause and run the same command again with --parent ID{waive}.", err=True)


def _parse_argv(command: str) -> list[str]:
    import shlex

    try:
        argv = shlex.split(command)
    except ValueError as error:
        raise InvalidInput(f"--require {command!r}: {error}") from error
    if not argv:
        raise InvalidInput("--require: the command is empty")
    return argv
