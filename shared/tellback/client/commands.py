"""Commands as a host uses them: submit one, wait for its record, follow its output, cancel it, and ask the gate.

A submission is an event, so it is spooled while Redis is away; everything else is a read or a decision and needs Redis.
`Job.wait` returns a record or raises, and never guesses (requirement C-7). Followed output is best effort: the worker
drops pieces rather than slow the command down, and the record stays the authority on how it ended.
"""

from __future__ import annotations

import math
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast, get_args

import msgspec

from tellback import clock
from tellback.backoff import Backoff, retry, sleep_between
from tellback.client.client_context import ClientContext
from tellback.client.guidance import check_session
from tellback.commands.checks import addressing_error, submission_error
from tellback.commands.gate import evaluate_gate
from tellback.commands.start_errors import command_error
from tellback.contracts.commands import (
    DEFAULT_TIMEOUT,
    CommandRecord,
    CommandSubmitted,
    OnLost,
    OutputPiece,
    Priority,
    Stream,
    Verdict,
)
from tellback.contracts.message import new_event_id
from tellback.errors import InvalidInput, Timeout
from tellback.state.audit import Author
from tellback.state.followed_output import FollowedOutputs, FollowedPiece
from tellback.state.jobs import Jobs
from tellback.state.records import BACKOFF, CAP, RETRY_SECONDS, Records

POLL_SECONDS: Final = 0.5  # one blocking read of output; a command that never prints shows only in its record
IDLE: Final = Backoff(first=0.01, longest=0.25)  # between two reads that do not block

_FollowReply = list[tuple[int, FollowedPiece]]


class _FollowedAttempt:
    """Reads the output of one attempt until it has a record."""

    def __init__(self, context: ClientContext, session: str, command_id: str, end: float) -> None:
        self._outputs = FollowedOutputs(context.database, context.layout)
        self._records = Records(context.database, context.layout)
        self._session = session
        self._command_id = command_id
        self._end = end
        self._number = 0  # of the last piece that was read
        self._at = 0  # bytes of output up to its end; a gap to the next piece is what the worker dropped
        self._ended = False  # the worker has published its last piece
        self._record: CommandRecord | None = None

    def steps(self, block: float) -> Generator[OutputPiece | float, None, CommandRecord]:
        """Yield pieces, and delays between polls, until there is a record, and return the record.

        Raises:
            Timeout: there is no record in time.
            NotFound: newer records of the session have replaced it.
            Unavailable: Redis has been away for `RETRY_SECONDS` seconds.
        """
        wait, delays = 0.0, IDLE.delays()
        while True:
            found = self._poll_with_retry(wait)
            for number, piece in found:
                yield from self._new_pieces(number, piece)
            if not found and self._record is not None:
                if not self._ended:
                    yield from self._final_pieces(self._record)
                return self._record
            left = self._end - clock.monotonic()
            if not found and left <= 0:
                raise Timeout(f"command {self._command_id} has no record in the time that was given; it may still run")
            wait = 0.0 if self._record else max(0.0, min(block, left))
            if found:
                delays = IDLE.delays()
            elif not wait:
                yield max(0.0, min(next(delays), left))

    def _poll_with_retry(self, wait: float) -> _FollowReply:
        """Poll once for `wait` seconds, and retry while Redis is away, so that its restart doesn't end the output."""
        away_until = clock.monotonic() + RETRY_SECONDS
        return retry(lambda: self._poll(wait), BACKOFF, end=min(self._end, away_until))

    def _poll(self, wait: float) -> _FollowReply:
        if self._ended:
            self._record = self._record or self._records.wait(self._session, self._command_id, wait)
            return []
        found = self._read_output(wait)
        if not found and self._record is None:
            self._record = self._records.wait(self._session, self._command_id, 0.0)
            if self._record is not None:
                # The worker publishes output before the record. What is not here now was dropped for good.
                return self._read_output(0.0)
        return found

    def _read_output(self, wait: float) -> _FollowReply:
        return self._outputs.read(self._session, self._command_id, self._number, wait)

    def _new_pieces(self, number: int, piece: FollowedPiece) -> Iterator[OutputPiece]:
        dropped = piece.at - self._at
        self._number, self._at, self._ended = number, piece.at + piece.raw, piece.end
        if piece.text or dropped:
            yield OutputPiece(command_id=self._command_id, stream=piece.stream, text=piece.text, dropped=dropped)

    def _final_pieces(self, record: CommandRecord) -> Iterator[OutputPiece]:
        tails: tuple[tuple[Stream, str], ...] = (("stdout", record.stdout_tail), ("stderr", record.stderr_tail))
        for stream, tail in tails:
            if tail:
                yield OutputPiece(command_id=self._command_id, stream=stream, text=f"{tail}\n", recorded=True)


@dataclass(frozen=True, slots=True)
class Job:
    """A submitted command: wait for its record, follow its output, or cancel it."""

    submitted: CommandSubmitted
    _context: ClientContext = field(repr=False, compare=False)

    @property
    def command_id(self) -> str:
        """The id of the command, and of its record."""
        return self.submitted.command_id

    def wait(self, timeout: float | None = None) -> CommandRecord:
        """Return the record as soon as there is one, for at most `timeout` seconds. Requirements C-7 and C-32.

        Without `timeout` this waits forever. With `on_lost="retry"` you get the record of the last attempt.

        Raises:
            InvalidInput: `timeout` is not a number.
            Timeout: there is no record within `timeout` seconds. The command continues, and you can wait again.
            NotFound: the command ended long ago, and newer records of its session have replaced its record.
            Unavailable: Redis has not answered for 30 seconds, or does not when the time is over.
        """
        limit = _check_timeout(timeout)
        self._context.publisher.flush()
        end = clock.monotonic() + limit
        records, command_id = Records(self._context.database, self._context.layout), self.command_id
        while True:
            record = records.wait(self.submitted.session, command_id, end - clock.monotonic())
            if record is None:
                raise Timeout(f"command {command_id} has no record after {limit:g} s; it may still run")
            again = None if record.may_advance else self._next_attempt(command_id)
            if again is None:
                return record
            command_id = again

    def follow(self, timeout: float | None = None) -> Iterator[OutputPiece]:
        """Yield the command's redacted output while it runs, until its record is there. Requirement C-66.

        For a command submitted with `follow=True` these are whole lines from the beginning, a fraction of a second
        after they are printed. For any other command, or if the end of the output can't be followed, you get the tails
        that the record keeps, marked `OutputPiece.recorded`. With `on_lost="retry"` each attempt is followed. Any
        number of readers may follow one command.

        Raises:
            InvalidInput: `timeout` is not a number.
            Timeout: there is no record within `timeout` seconds. The command continues.
            NotFound: the command ended long ago, and newer records of its session have replaced its record.
            Unavailable: Redis has not answered for 30 seconds. Start again later.
        """
        return sleep_between(self._poll_output(timeout, POLL_SECONDS))

    def _poll_output(self, timeout: float | None = None, block: float = 0.0) -> Iterator[OutputPiece | float]:
        limit = _check_timeout(timeout)
        self._context.publisher.flush()
        return self._follow_attempts(clock.monotonic() + limit, block)

    def _follow_attempts(self, end: float, block: float) -> Iterator[OutputPiece | float]:
        """Yield the output of all attempts, and the seconds until the next poll, for at most `block` seconds."""
        command_id: str | None = self.command_id
        while command_id is not None:
            attempt = _FollowedAttempt(self._context, self.submitted.session, command_id, end)
            record = yield from attempt.steps(block)
            command_id = None if record.may_advance else self._next_attempt(command_id)

    def cancel(self, *, reason: str = "", by: str = "") -> bool:
        """Cancel the command, queued or running; return False if it already has a record. Requirements C-21 to C-24.

        A worker stops the command at once; one that waits, even for its first worker, never starts. `wait` returns a
        record that, like the audit log, says who cancelled it and why; `by` is this process's user and host by default.

        Raises:
            InvalidInput: a text is too long.
            Unavailable: Redis does not answer. The command may or may not be cancelled; you can repeat the call.
        """
        self._context.flush()
        author = Author.of(by, reason)
        state, again = self._jobs.cancel(self.submitted, author)
        if again is not None:
            # The attempt that this host knows was lost, and a retry runs under another id.
            state, _ = self._jobs.cancel_attempt(self.submitted, again, author)
        return state != "done"

    def _next_attempt(self, command_id: str) -> str | None:
        if self.submitted.on_lost != "retry":
            return None
        return self._jobs.next_attempt(self.submitted, command_id)

    @property
    def _jobs(self) -> Jobs:
        return Jobs(self._context.database, self._context.layout)


def _check_timeout(timeout: object) -> float:
    """Return the seconds to wait, infinity for None. A deadline that is NaN would never come."""
    if timeout is None:
        return math.inf
    if not isinstance(timeout, int | float) or math.isnan(timeout):
        raise InvalidInput(f"timeout is {timeout!r}; use a number of seconds, or None for no limit")
    return timeout


def submit(
    context: ClientContext,
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
    """Submit a command to the workers. See `tellback.Tellback.submit`. Requirements C-1 and C-3."""
    _refuse_empty(cwd=cwd, parent=parent)
    _refuse_unknown("on_lost", on_lost, get_args(OnLost))
    _refuse_unknown("priority", priority, get_args(Priority))
    event_id = new_event_id()
    try:
        fields = {
            "type": CommandSubmitted.__name__,
            "event_id": event_id,
            "command_id": event_id,
            "session": session,
            "argv": _as_list("argv", argv, "give a list of arguments (there is no shell)"),
            "cwd": os.fspath(cwd) if isinstance(cwd, os.PathLike) else cwd,
            "timeout": timeout,
            "note": " ".join(note.split()) if isinstance(note, str) else note,
            "host": host,
            "parent": parent,
            "inputs": _as_list("inputs", inputs, "give a list of ids of commands"),
            "env": _as_dict("env", env),
            "secret_env": _as_list("secret_env", secret_env, "give a list of names of variables"),
            "on_lost": on_lost,
            "priority": priority,
            "follow": follow,
        }
        submitted = msgspec.convert(fields, CommandSubmitted)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise InvalidInput(str(error).replace("$.", "")) from error
    if reason := addressing_error(submitted) or submission_error(submitted):
        raise InvalidInput(reason)
    context.admission.ask("sessions", session)
    context.publisher.publish(submitted)
    return Job(submitted, context)


def _refuse_empty(**texts: object) -> None:
    """Refuse an empty text, as of a variable that is not set: a command would run elsewhere, or clear no failure."""
    for name, text in texts.items():
        if text == "":
            raise InvalidInput(f"{name} is empty; give a text, or leave it out")


def _refuse_unknown(name: str, word: object, known: tuple[str, ...]) -> None:
    if word not in known:
        raise InvalidInput(f"{name} is {word!r}; use one of {', '.join(known)}")


def _as_list(name: str, given: Any, advice: str) -> list[object]:
    """Return the items of a list. A string has items too: `list("ls")` would run the program `l` with `s`."""
    try:
        if not isinstance(given, str | bytes):
            return list(given)
    except TypeError:
        pass
    raise InvalidInput(f"{name} is {type(given).__name__}; {advice}")


def _as_dict(name: str, given: Any) -> dict[object, object]:
    try:
        return dict(given or {})
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} is {type(given).__name__}; give a mapping") from None


def records(context: ClientContext, session: str, last: int = 20) -> list[CommandRecord]:
    """Return the newest records of a session, oldest first. See `tellback.Tellback.records`."""
    given: Any = last
    if not isinstance(given, int) or not 1 <= given <= CAP:
        raise InvalidInput(f"last is {last!r}; use 1 to {CAP}, which is what a session keeps")
    return Records(context.database, context.layout).last(check_session(session), last)


def waive(context: ClientContext, session: str, command_id: str, reason: str, by: str = "") -> CommandRecord:
    """Waive a failed command and return its record. See `tellback.Tellback.waive`."""
    session, author = check_session(session), Author.of(by, reason)
    if not author.reason:
        raise InvalidInput("a waiver needs a reason: say why this failure does not count")
    context.flush()
    return Records(context.database, context.layout).waive(session, command_id, author)


def gate(context: ClientContext, session: str, require: Sequence[Sequence[str]] = ()) -> Verdict:
    """Check whether a session's records justify claiming success. See `tellback.Tellback.gate`."""
    session, given = check_session(session), cast("Any", require)
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise InvalidInput(f"require is {type(given).__name__}; give a list of commands, each a list of arguments")
    for argv in require:
        if reason := command_error(argv):
            raise InvalidInput(f"require holds {argv!r}: {reason}")
    # Flushed first: a submission still in this process's buffer would look to the gate like a command that never ran.
    context.flush()
    kept, evicted = Records(context.database, context.layout).all(session)
    return evaluate_gate(kept, require=require, evicted=evicted)
