"""`tellback run` and `tellback submit`: commands that end in a record."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tellback.cli.common import COMMANDS, JsonOption, TeamOption, UrlOption, client, print_json, reported
from tellback.cli.following import follow_job, interrupted, print_output
from tellback.cli.records import visible
from tellback.errors import InvalidInput
from tellback.names import RECORD_FILE

if TYPE_CHECKING:
    from tellback.client.commands import Job
    from tellback.client.connection import Tellback
    from tellback.contracts.commands import CommandRecord

# What follows the program's name belongs to the command, so `tellback run pytest -q` needs no `--`.
_TAKES_ARGV = {"allow_interspersed_args": False}

ArgvArgument = Annotated[list[str], typer.Argument(help="The program and its arguments; there is no shell.")]
CwdOption = Annotated[str | None, typer.Option(help="Directory to run in.")]
TimeoutOption = Annotated[float, typer.Option(help="Seconds that the command may take.")]
NoteOption = Annotated[str | None, typer.Option(help="One line on what is expected, kept beside what happened.")]
ParentOption = Annotated[str | None, typer.Option(help="The command id of the attempt that this one retries.")]
OnLostOption = Annotated[
    Literal["record", "retry"], typer.Option(help="When its worker dies: record that, or try again as well.")
]
PriorityOption = Annotated[
    Literal["interactive", "normal", "batch"], typer.Option(help="What is more urgent runs first.")
]
FollowOption = Annotated[
    bool, typer.Option("--follow", help="Print the output while the command runs, with --json as JSON lines.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("run", rich_help_panel=COMMANDS, context_settings=_TAKES_ARGV)(run)
    app.command("submit", rich_help_panel=COMMANDS, context_settings=_TAKES_ARGV)(submit)


def run(
    argv: ArgvArgument,
    *,
    cwd: CwdOption = None,
    timeout: TimeoutOption = 30.0,
    note: NoteOption = None,
    parent: ParentOption = None,
    session: Annotated[str, typer.Option(help="Session that stands in the record.")] = "local",
    file: Annotated[
        Path, typer.Option(help="JSONL file that the record is appended to; by default in the present directory.")
    ] = Path(RECORD_FILE),
    keep: Annotated[bool, typer.Option("--keep/--no-keep", help="Append the record to the file.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Run a command here, append its record to a file, print it; no Redis is needed.

    Exits as the command does, with 1 on a null exit.
    """
    import signal

    from tellback.commands.local import run_here
    from tellback.commands.runner import Control
    from tellback.settings import load

    control = Control()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _frame: control.stop(f"stopped by {signal.Signals(received).name}"))
    with reported():
        settings = load()
        record = run_here(
            argv,
            session=session,
            host=settings.host_name,
            cwd=cwd,
            timeout=_positive(timeout),
            grace=settings.command_grace,
            note=note,
            parent=parent,
            control=control,
        )
    if keep:
        _append(record, file)
    _end(record, as_json=as_json)


def submit(
    argv: ArgvArgument,
    *,
    session: Annotated[str, typer.Option(help="Session that the record belongs to.")],
    cwd: CwdOption = None,
    timeout: TimeoutOption = 30.0,
    note: NoteOption = None,
    host: Annotated[str | None, typer.Option(help="Run on this host's workers.")] = None,
    parent: ParentOption = None,
    input_: Annotated[list[str] | None, typer.Option("--input", help="Id of a command whose output is used.")] = None,
    env: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for the command's environment.")] = None,
    secret_env: Annotated[list[str] | None, typer.Option(help="A variable that the worker's host fills in.")] = None,
    on_lost: OnLostOption = "record",
    priority: PriorityOption = "normal",
    follow: FollowOption = False,
    detach: Annotated[bool, typer.Option("--detach", help="Print the command's id and do not wait.")] = False,
    wait: Annotated[float | None, typer.Option(help="Seconds to wait for the record; default: no limit.")] = None,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Hand a command to the workers and wait for its record. Exits as the command does, 1 on a null exit.

    Interrupting it (Ctrl-C) ends the waiting or following with exit code 130; the command goes on.
    """
    _refuse_both(follow=follow, detach=detach)
    with client(redis_url, team) as tb:
        job = tb.submit(
            argv,
            session=session,
            cwd=cwd,
            timeout=timeout,
            note=note,
            host=host,
            parent=parent,
            inputs=input_ or (),
            env=_environment(env or []),
            secret_env=secret_env or (),
            on_lost=on_lost,
            priority=priority,
            follow=follow,
        )
        _hand_over(tb, job)
        if detach:
            _print_id(job.command_id, as_json=as_json)
            return
        if tb.spooled:
            raise typer.Exit(1)
        record = follow_job(job, wait, as_json=as_json) if follow else _wait(job, wait)
    _end(record, as_json=as_json, told=follow)


def _refuse_both(*, follow: bool, detach: bool) -> None:
    with reported():
        if follow and detach:
            raise InvalidInput("--follow and --detach exclude each other")


def _hand_over(tb: Tellback, job: Job) -> None:
    """See that it leaves this process; say so if that is to this host's disk."""
    tb.flush()
    if tb.spooled:
        typer.echo(
            f"tellback: Redis is away: command {job.command_id} waits on this host's disk and runs when Redis is back; "
            "do not submit it again",
            err=True,
        )


def _append(record: CommandRecord, path: Path) -> None:
    """Keep the record; where that fails, its reader must not take the file's last record for this one's."""
    from tellback.commands.recordfile import RecordFile

    try:
        RecordFile(path).append(record)
    except OSError as error:
        typer.echo(f"tellback: the record could not be appended to {path}: {error}", err=True)


def _wait(job: Job, seconds: float | None) -> CommandRecord:
    """The record; a terminal sees meanwhile that something goes on."""
    from rich.console import Console

    console = Console(stderr=True)
    try:
        if not console.is_terminal:
            return job.wait(timeout=seconds)
        with console.status(f"waiting for the record of {job.command_id}"):
            return job.wait(timeout=seconds)
    except KeyboardInterrupt:
        raise interrupted(job, "waiting") from None


def _end(record: CommandRecord, *, as_json: bool, told: bool = False) -> None:
    """Print the record, without the output if that has been `told`, and exit as its command did."""
    import msgspec

    if as_json:
        print_json(msgspec.to_builtins(record))
    else:
        for text, stream in ((record.stdout_tail, sys.stdout), (record.stderr_tail, sys.stderr)):
            if text and not told:
                print_output(f"{text}\n", stream)
        typer.echo(visible(_summary(record)), err=True)
    if record.exit_code is None:
        raise typer.Exit(1)
    raise typer.Exit(record.exit_code if record.exit_code >= 0 else 128 - record.exit_code)


def _summary(record: CommandRecord) -> str:
    """One line: the exit, the time, and what the record does not show."""
    end = f"✗ no exit code: {record.error}" if record.exit_code is None else f"✗ exit {record.exit_code}"
    if record.succeeded:
        end = "✓ exit 0"
    elif record.exit_code is not None and record.signal:
        end = f"✗ killed by {record.signal}"
    cut = [name for name in ("stdout", "stderr") if getattr(record.truncated, name)]
    hidden = [name for name in ("stdout", "stderr") if getattr(record.redacted, name)]
    parts = [end, f"{record.duration_ms / 1000:.2f} s", f"{record.output_bytes} bytes of output"]
    parts += [f"truncated: {', '.join(cut)}"] if cut else []
    parts += [f"redacted: {', '.join(hidden)}"] if hidden else []
    return " · ".join([*parts, record.command_id])


def _environment(pairs: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidInput("env: write NAME=VALUE")
        found[name] = value
    return found


def _positive(timeout: float) -> float:
    if not timeout > 0:
        raise InvalidInput(f"timeout is {timeout:g} s; use more than 0")
    return timeout


def _print_id(command_id: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"command_id": command_id})
    else:
        typer.echo(command_id)
