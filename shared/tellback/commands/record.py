"""From what was asked and what came of it to the one record that is kept, with nothing in it that may not be shown."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tellback.contracts.commands import CommandRecord, CommandSubmitted, StreamFlags
from tellback.redaction import Redactor

if TYPE_CHECKING:
    from tellback.commands.runner import Outcome  # a client that only submits does not load the runner

HISTORY_CHARS: Final = 2_048  # of each text in a session's history


class Attempt(NamedTuple):
    """Who ran a command, and the how manieth attempt at it that was."""

    number: int = 1
    host: str | None = None
    worker: str | None = None


FIRST: Final = Attempt()


def record_of(
    submitted: CommandSubmitted,
    outcome: Outcome,
    *,
    redactor: Redactor,
    cwd: str,
    attempt: Attempt = FIRST,
) -> CommandRecord:
    """The record of a command that was tried, in the directory `cwd`."""
    return CommandRecord(
        **_asked(submitted, redactor, cwd, attempt),
        stdout_tail=outcome.stdout.text,
        stderr_tail=outcome.stderr.text,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        duration_ms=outcome.duration_ms,
        started_at=iso(outcome.started_at) if outcome.started_at else None,
        error=None if outcome.error is None else redactor.text(readable(outcome.error)),
        truncated=StreamFlags(stdout=outcome.stdout.truncated, stderr=outcome.stderr.truncated),
        redacted=StreamFlags(stdout=outcome.stdout.redacted, stderr=outcome.stderr.redacted),
        output_bytes=outcome.stdout.size + outcome.stderr.size,
    )


def record_without_run(
    submitted: CommandSubmitted, error: str, attempt: Attempt = FIRST, *, cwd: str | None = None
) -> CommandRecord:
    """The record of a command of which nobody knows an exit: refused, cancelled, or lost with its worker.

    `cwd` is where it ran, if it did and that is known; where it was asked to run says nothing of that.
    """
    redactor = Redactor()
    return CommandRecord(**_asked(submitted, redactor, cwd, attempt), error=redactor.text(readable(error)))


def history_entry(record: CommandRecord) -> dict[str, Any]:
    """What a session's history keeps of a record, less `kind` and `at`."""
    return {
        "command_id": record.command_id,
        "parent_command_id": record.parent_command_id,
        "command": _beginning(record.command),
        "exit_code": record.exit_code,
        "error": record.error and record.error[:HISTORY_CHARS],
        "duration_ms": record.duration_ms,
        "worker": record.worker,
        "stdout_tail": record.stdout_tail[-HISTORY_CHARS:],
        "stderr_tail": record.stderr_tail[-HISTORY_CHARS:],
        "agent_note": record.agent_note,
    }


def _beginning(argv: list[str]) -> list[str]:
    """As many arguments as have room in a history entry, the last of them cut."""
    kept: list[str] = []
    room = HISTORY_CHARS
    for argument in argv:
        if room <= 0:
            break
        kept.append(argument[:room])
        room -= len(argument) + 1
    return kept


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC, to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def readable(text: str) -> str:
    """`text` with whatever is not Unicode (bytes of a file name) replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _asked(submitted: CommandSubmitted, redactor: Redactor, cwd: str | None, attempt: Attempt) -> dict[str, Any]:
    return {
        "command_id": submitted.command_id,
        "session": submitted.session,
        "command": redactor.argv(readable(argument) for argument in submitted.argv),
        "parent_command_id": submitted.parent,
        "input_command_ids": list(submitted.inputs),
        "cwd": None if cwd is None else redactor.text(readable(cwd)),
        "agent_note": None if submitted.note is None else redactor.text(submitted.note),
        "attempt": attempt.number,
        "host": attempt.host,
        "worker": attempt.worker,
    }
