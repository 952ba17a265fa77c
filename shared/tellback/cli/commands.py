"""`tellback run` and `tellback submit`: run a command here or on the workers, and print its record.

Both exit with the command's own exit code, or with 1 if there was none, so that a shell's `&&` never continues after
a command whose outcome is unknown. With --follow, `submit` prints each output stream to its counterpart here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TextIO

import typer

from tellback.cli import INTERRUPTED
from tellback.cli.common import (
    COMMANDS,
    JsonOption,
    TeamOption,
    UrlOption,
    client,
    echo,
    place_options,
    print_json,
    report_errors,
    report_unwritten,
    text_option,
)
from tellback.errors import InvalidInput, Unavailable
from tellback.names import RECORD_FILE, Family
from tellback.quoting import quote_value
from tellback.sanitize import terminal_line, terminal_output

if TYPE_CHECKING:
    from tellback.client.commands import Job
    from tellback.client.connection import Tellback
    from tellback.contracts.commands import CommandRecord, OutputPiece


SERVED_POLL: Final = 0.2  # seconds between two looks for a worker


def print_job_output(job: Job, tb: Tellback, seconds: float | None, *, as_json: bool) -> CommandRecord:
    """Print a job's output as it arrives, and return its record."""
    import math

    from tellback import clock

    end = clock.monotonic() + (math.inf if seconds is None else seconds)
    printing = _PiecePrinter(job.command_id, as_json=as_json)
    try:
        for piece in job.follow(timeout=seconds):
            printing.print_piece(piece)
        return job.wait(timeout=None if seconds is None else max(0.0, end - clock.monotonic()))
    except KeyboardInterrupt:
        raise interrupt_exit(job, tb, "following") from None


def interrupt_exit(job: Job, tb: Tellback, what: str) -> typer.Exit:
    """Tell the user that the command keeps running, and return the exception that ends this one."""
    submitted = job.submitted
    echo(
        f"tellback: stopped {what}. Command {job.command_id} keeps running for up to {submitted.timeout:g} s; "
        f"see its record with `tellback records {submitted.session}{place_options(tb.context.settings)}`",
        err=True,
    )
    return typer.Exit(INTERRUPTED)


def print_sanitized(text: str, stream: TextIO) -> None:
    """Print a command's output; on a terminal, with escapes for control characters, since output is untrusted."""
    if stream.isatty():
        text = terminal_output(text)
    stream.buffer.write(text.encode("utf-8", "replace"))
    stream.flush()


class _PiecePrinter:
    """Prints pieces of output, with notes about retries and gaps on standard error."""

    def __init__(self, command_id: str, *, as_json: bool) -> None:
        self._attempt = command_id
        self._as_json = as_json
        self._live = False
        self._recorded = False

    def print_piece(self, piece: OutputPiece) -> None:

        if self._as_json:
            print_json(piece)
            return
        if piece.command_id != self._attempt:
            self._attempt, self._recorded = piece.command_id, False
            self._print_note(f"the command was lost and is running again as {piece.command_id}")
        if piece.dropped:
            self._print_note(f"{piece.dropped} bytes of output were dropped")
        if piece.recorded and self._live and not self._recorded:
            self._print_note("live output ended early; the record has:")
        self._live, self._recorded = self._live or not piece.recorded, piece.recorded
        print_sanitized(piece.text, sys.stderr if piece.stream == "stderr" else sys.stdout)

    def _print_note(self, text: str) -> None:
        echo(f"tellback: {text}", err=True)


# Options after the program's name belong to the command, so `tellback run pytest -q` needs no `--`.
_TAKES_ARGV: Final = {"allow_interspersed_args": False}

ArgvArgument = Annotated[list[str], typer.Argument(help="Program and its arguments. No shell is involved.")]

CwdOption = Annotated[
    str | None,
    text_option("Working directory. Default: this one. `submit` resolves a relative one on the worker's host."),
]

TimeoutOption = Annotated[float, typer.Option(help="Time limit of the command, in seconds.")]

NoteOption = Annotated[str | None, typer.Option(help="What you expect, in one line; kept in the record.")]

ParentOption = Annotated[str | None, text_option("Id of the command that this one retries.")]

OnLostOption = Annotated[
    Literal["record", "retry"], typer.Option(help="If the worker dies: record the loss, or also retry the command.")
]

PriorityOption = Annotated[
    Literal["interactive", "normal", "batch"], typer.Option(help="Priority; more urgent commands run first.")
]

FollowOption = Annotated[
    bool, typer.Option("--follow", help="Print the output while the command runs; with --json, as JSON lines.")
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
    session: Annotated[str, text_option("Session of the record.")] = "local",
    file: Annotated[Path, typer.Option(help="JSONL file to append the record to.")] = Path(RECORD_FILE),
    keep: Annotated[bool, typer.Option("--keep/--no-keep", help="Append the record to the file.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Run a command on this host, append its record to a file, and print it. Needs no Redis.

    Exits with the command's exit code; exits 1 if there was no exit code.
    """
    import signal

    from tellback.commands.control import CommandControl
    from tellback.commands.local import run_locally
    from tellback.settings import load

    control = CommandControl()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(
            number, lambda received, _frame: control.request_stop(f"stopped by {signal.Signals(received).name}")
        )
    with report_errors():
        settings = load()
        record = run_locally(
            argv,
            session=session,
            host=settings.host_name,
            cwd=cwd,
            timeout=_positive_timeout(timeout),
            grace=settings.command_grace,
            note=note,
            parent=parent,
            control=control,
        )
    if keep:
        _append_record(record, file)
    _print_and_exit(record, as_json=as_json)


def submit(
    argv: ArgvArgument,
    *,
    session: Annotated[str, typer.Option(help="Session of the record.")],
    cwd: CwdOption = None,
    timeout: TimeoutOption = 30.0,
    note: NoteOption = None,
    host: Annotated[str | None, typer.Option(help="Run on a worker of this host.")] = None,
    parent: ParentOption = None,
    input_: Annotated[list[str] | None, typer.Option("--input", help="Id of a command whose output this uses.")] = None,
    env: Annotated[list[str] | None, typer.Option(help="Environment variable, as NAME=VALUE.")] = None,
    secret_env: Annotated[list[str] | None, typer.Option(help="Variable to copy from the worker's host.")] = None,
    on_lost: OnLostOption = "record",
    priority: PriorityOption = "normal",
    follow: FollowOption = False,
    detach: Annotated[bool, typer.Option("--detach", help="Print the command's id and exit without waiting.")] = False,
    wait: Annotated[float | None, typer.Option(help="Seconds to wait for the record. Default: no limit.")] = None,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Submit a command to the workers and wait for its record.

    It runs in this directory, unless the worker's host forbids that. Exits as the command did; exits 1 if there was no
    exit code. Ctrl-C exits 130, but the command keeps running.
    """
    variables = _check_options(env or [], wait, follow=follow, detach=detach)
    with client(redis_url, team) as tb:
        job = tb.submit(
            argv,
            session=session,
            cwd=_caller_directory(host, tb) if cwd is None else cwd,
            timeout=timeout,
            note=note,
            host=host,
            parent=parent,
            inputs=input_ or (),
            env=variables,
            secret_env=secret_env or (),
            on_lost=on_lost,
            priority=priority,
            follow=follow,
        )
        _publish(tb, job)
        if detach:
            _print_id(job.command_id, as_json=as_json)
            return
        _check_served(tb, job, wait)
        record = print_job_output(job, tb, wait, as_json=as_json) if follow else _wait_for_record(job, tb, wait)
    _print_and_exit(record, as_json=as_json, output_shown=follow)


def _caller_directory(host: str | None, tb: Tellback) -> str | None:
    """Return the present directory, or None for a command that another host must run: paths differ there."""
    if host is not None and host != tb.context.settings.host_name:
        return None
    return str(Path.cwd())


def _check_served(tb: Tellback, job: Job, wait: float | None) -> None:
    """Wait until a worker serves the team's commands, for `host_wait` seconds at most.

    Raises:
        Unavailable: none did; the command stays in Redis.
    """
    from tellback import clock
    from tellback.state.presence import Presence

    if tb.spooled:  # `_publish` has said so
        raise typer.Exit(1)
    longest = tb.context.settings.host_wait
    end = clock.monotonic() + (longest if wait is None else min(longest, wait))
    presence = Presence(tb.context.database, tb.context.layout.team)
    while True:
        try:
            workers, unreadable = presence.roll()
        except Unavailable:  # of a cluster, perhaps only the node that knows the workers: the record comes all the same
            return
        if unreadable or any(queue.startswith(Family.COMMANDS) for worker in workers for queue in worker.queues):
            return
        if clock.monotonic() >= end:
            break
        clock.sleep(SERVED_POLL)
    if wait is None or longest <= wait:
        name, options = tb.context.layout.team, place_options(tb.context.settings)
        raise Unavailable(
            f"no worker has served commands of team {name} for {longest:g} s. Command {job.command_id} stays in Redis "
            f"and runs when one starts; `tellback cancel {job.command_id}{options}` takes it back"
        )


def _check_options(env: list[str], wait: float | None, *, follow: bool, detach: bool) -> dict[str, str]:
    """Check what needs no client, which would create the team, and return the variables."""
    with report_errors():
        if wait is not None and not wait >= 0:
            raise InvalidInput(f"--wait {wait:g}: use a number of seconds from 0")
        if detach and (follow or wait is not None):
            raise InvalidInput("--detach waits for nothing: leave out --follow and --wait")
        return _parse_env(env)


def _publish(tb: Tellback, job: Job) -> None:
    """Send the command, and warn the user if it went to the spool."""
    tb.flush()
    if why := tb.context.publisher.refusal:
        kept = f"Command {job.command_id} is saved on this host's disk and runs when Redis takes it"
        echo(f"tellback: {why}. {kept}; don't submit it again", err=True)


def _append_record(record: CommandRecord, path: Path) -> None:
    """Append the record, and warn if that fails: an agent would take the file's last record for this command's."""
    from tellback.commands.record import RecordFile

    try:
        RecordFile(path).append(record)
    except OSError as error:
        echo(f"tellback: can't append the record to {path}: {error.strerror or error}", err=True)


def _wait_for_record(job: Job, tb: Tellback, seconds: float | None) -> CommandRecord:
    """Return the record; show a spinner meanwhile if standard error is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    try:
        if not console.is_terminal:
            return job.wait(timeout=seconds)
        with console.status(f"waiting for command {job.command_id}"):
            return job.wait(timeout=seconds)
    except KeyboardInterrupt:
        raise interrupt_exit(job, tb, "waiting") from None


def _print_and_exit(record: CommandRecord, *, as_json: bool, output_shown: bool = False) -> None:
    """Print the record (without its output if `output_shown` is set) and exit with the command's exit code."""
    code = 1 if record.exit_code is None else record.exit_code
    try:
        _print_record(record, as_json=as_json, output_shown=output_shown)
    except OSError as error:
        if code == 0 or not report_unwritten(error):  # a success that nobody could read is an error
            raise
    # A negative code is a signal's number; shells report such an end as 128 plus the number.
    raise typer.Exit(code if code >= 0 else 128 - code)


def _print_record(record: CommandRecord, *, as_json: bool, output_shown: bool) -> None:
    if as_json:
        print_json(record)
    else:
        for text, stream in ((record.stdout_tail, sys.stdout), (record.stderr_tail, sys.stderr)):
            if text and not output_shown:
                print_sanitized(f"{text}\n", stream)
        echo(terminal_line(_record_summary(record)), err=True)
    if record.exit_code is None and len(record.command) == 1 and len(record.command[0].split()) > 1:  # a line in quotes
        echo("tellback: there is no shell: give the program and each argument as a word of its own", err=True)


def _record_summary(record: CommandRecord) -> str:
    """Return one line with the exit, the time, and the streams that the record truncates or redacts."""
    why = quote_value(record.error or "no reason given")
    end = f"✗ no exit code: {why}" if record.exit_code is None else f"✗ exit {record.exit_code}"
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


def _parse_env(pairs: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidInput(f"--env {name}: use NAME=VALUE")
        found[name] = value
    return found


def _positive_timeout(timeout: float) -> float:
    if not timeout > 0:
        raise InvalidInput(f"--timeout {timeout:g}: use a number of seconds above 0")
    return timeout


def _print_id(command_id: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"command_id": command_id})
    else:
        echo(command_id)
