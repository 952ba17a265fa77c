"""Commands as an agent host sees them.

Source: runtime-feedback-loops.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from tellback import clock
from tellback.client.context import Context
from tellback.client.follow import follow as follow_output
from tellback.commands.checks import problem, unaddressable
from tellback.commands.gate import judge
from tellback.contracts.commands import CommandRecord, CommandSubmitted, OnLost, OutputPiece, Priority, Verdict
from tellback.contracts.message import new_event_id
from tellback.errors import InvalidInput, Timeout
from tellback.state.jobs import Jobs
from tellback.state.records import KEPT, Records

DEFAULT_TIMEOUT: Final = 30.0


@dataclass(frozen=True, slots=True)
class Job:
    """A submitted command."""

    submitted: CommandSubmitted
    _context: Context = field(repr=False, compare=False)

    @property
    def command_id(self) -> str:
        """The id under which its record is kept."""
        return self.submitted.command_id

    def wait(self, timeout: float | None = None) -> CommandRecord:
        """The record, as soon as there is one; without `timeout` (in seconds) that may be never.

        With `on_lost="retry"`: the record of the last attempt.

        Raises:
            Timeout: no record within `timeout`; the command goes on. Never a guess.
            NotFound: it ended long ago, and so many newer records of its session have replaced its own.
            Unavailable: Redis is away.
        """
        self._context.publisher.flush()
        end = clock.monotonic() + (math.inf if timeout is None else timeout)
        records, command_id = Records(self._context.database, self._context.layout), self.command_id
        while True:
            record = records.wait(self.submitted.session, command_id, end - clock.monotonic())
            if record is None:
                raise Timeout(f"command {command_id} has no record after {timeout:g} s; it may still run")
            again = None if record.may_advance else self._next_attempt(command_id)
            if again is None:
                return record
            command_id = again

    def follow(self, timeout: float | None = None) -> Iterator[OutputPiece]:
        """What the command prints while it runs, as it comes, redacted; ends when the record is there for `wait`.

        Of a command that was submitted with `follow=True`: whole lines, from its beginning, within a fraction of a
        second. Of any other, and where the end of the output could not be told, what the record keeps at the end
        (`OutputPiece.recorded`). With `on_lost="retry"`: of each attempt. Many may follow at once.

        Raises:
            Timeout: no record within `timeout` seconds; the command goes on.
            NotFound: it ended long ago, and so many newer records of its session have replaced its own.
            Unavailable: Redis is away for long; begin again later.
        """
        self._context.publisher.flush()
        return follow_output(self._context, self.submitted, self._next_attempt, timeout)

    def cancel(self) -> bool:
        """End it, queued or running, with a record that says so; False when it has its record already.

        Its worker is told at once; `wait` returns the record. A cancellation that overtakes the submission holds.

        Raises:
            Unavailable: Redis is away; whether the cancellation took effect is unknown, ask again.
        """
        self._context.publisher.flush()
        state, again = self._jobs.cancel(self.submitted)
        if again is not None:
            state, _ = self._jobs.cancel_attempt(self.submitted, again)
        return state != "done"

    def _next_attempt(self, command_id: str) -> str | None:
        if self.submitted.on_lost != "retry":
            return None
        return self._jobs.next_attempt(self.submitted, command_id)

    @property
    def _jobs(self) -> Jobs:
        return Jobs(self._context.database, self._context.layout)


def submit(
    context: Context,
    argv: Sequence[str],
    *,
    session: str,
    cwd: str | os.PathLike[str] | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    note: str | None = None,
    host: str | None = None,
    parent: str | None = None,
    inputs: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    secret_env: Sequence[str] = (),
    on_lost: OnLost = "record",
    priority: Priority = "normal",
    follow: bool = False,
) -> Job:
    """Hand a command to the workers. See `tellback.Tellback.submit`."""
    if isinstance(argv, str | bytes):
        raise InvalidInput(f"argv is {type(argv).__name__}; give a list of arguments (there is no shell)")
    event_id = new_event_id()
    try:
        fields = {
            "type": CommandSubmitted.__name__,
            "event_id": event_id,
            "command_id": event_id,
            "session": session,
            "argv": list(argv),
            "cwd": None if cwd is None else os.fspath(cwd),
            "timeout": timeout,
            "note": " ".join(note.split()) if isinstance(note, str) else note,
            "host": host,
            "parent": parent,
            "inputs": list(inputs),
            "env": dict(env or {}),
            "secret_env": list(secret_env),
            "on_lost": on_lost,
            "priority": priority,
            "follow": follow,
        }
        submitted = msgspec.convert(fields, CommandSubmitted)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise InvalidInput(str(error).replace("$.", "")) from error
    if reason := unaddressable(submitted) or problem(submitted):
        raise InvalidInput(reason)
    context.publisher.publish(submitted)
    return Job(submitted, context)


def records(context: Context, session: str, last: int = 20) -> list[CommandRecord]:
    """The newest records of a session, oldest first. See `tellback.Tellback.records`."""
    if not 1 <= last <= KEPT:
        raise InvalidInput(f"last is {last}; use 1 to {KEPT}, which is what a session keeps")
    return Records(context.database, context.layout).last(session, last)


def gate(context: Context, session: str, require: Sequence[Sequence[str]] = ()) -> Verdict:
    """Judge a session by its records. See `tellback.Tellback.gate`."""
    for argv in require:
        if isinstance(argv, str) or not argv:
            raise InvalidInput(f"require holds {argv!r}; give each command as a list of arguments")
    context.publisher.flush()
    kept, evicted = Records(context.database, context.layout).all(session)
    return judge(kept, require=require, evicted=evicted)
