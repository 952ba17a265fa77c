"""Messages and values of the commands loop: a submitted command, its output, and the record that it always ends in.

Requirements C-26, C-27 and C-1.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

import msgspec
from msgspec import Meta

from tellback.contracts.message import Message
from tellback.names import Family

OnLost = Literal["record", "retry"]
Priority = Literal["interactive", "normal", "batch"]
Stream = Literal["stdout", "stderr"]

DEFAULT_TIMEOUT: Final = 30.0  # seconds; a host whose policy allows less applies that instead of refusing the command


class CommandSubmitted(Message, frozen=True, kw_only=True):
    """A host submitted a command. `argv` is exact: there is never a shell.

    With `follow`, its output can be read while it runs.
    """

    family: ClassVar[Family] = Family.COMMANDS

    command_id: str
    session: str
    argv: list[str]
    cwd: str | None = None
    timeout: float = DEFAULT_TIMEOUT
    note: str | None = None
    host: str | None = None
    parent: str | None = None
    inputs: list[str] = []
    env: dict[str, str] = {}
    secret_env: list[str] = []
    on_lost: OnLost = "record"
    priority: Priority = "normal"
    follow: bool = False

    @property
    def routing(self) -> str:
        """The session."""
        return self.session


class StreamFlags(msgspec.Struct, frozen=True, kw_only=True):
    """One flag for each output stream."""

    stdout: bool = False
    stderr: bool = False


class Waiver(msgspec.Struct, frozen=True, kw_only=True):
    """A person's word that a failure does not count: who gave it, why, and when (ISO 8601, the server's time)."""

    by: str
    reason: str
    at: str


class CommandRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one command: what happened, without judgement."""

    # The descriptions make the table of the documentation. A new field needs a default, since records that were stored
    # before it lack the field.
    command_id: Annotated[str, Meta(description="this command")]
    session: Annotated[str, Meta(description="whose it is")]
    command: Annotated[list[str], Meta(description="the exact argv, redacted")]
    parent_command_id: Annotated[str | None, Meta(description="the attempt that this one retries")] = None
    input_command_ids: Annotated[list[str], Meta(description="commands whose output it used")] = []
    cwd: Annotated[str | None, Meta(description="where it ran, symbolic links resolved; null if it did not run")] = None
    host: Annotated[str | None, Meta(description="the host where it ran")] = None
    worker: Annotated[str | None, Meta(description="the worker that ran it; null without workers")] = None
    attempt: Annotated[int, Meta(description="the number of the attempt, from 1")] = 1
    stdout_tail: Annotated[str, Meta(description="the first 5 and the last 30 lines of standard output")] = ""
    stderr_tail: Annotated[str, Meta(description="the same of standard error")] = ""
    exit_code: Annotated[
        int | None, Meta(description="the exit code; negative if a signal ended it, null if `error` says why")
    ] = None
    signal: Annotated[str | None, Meta(description="the signal that ended it, such as `SIGKILL`")] = None
    duration_ms: Annotated[int, Meta(description="wall time from start to end, in milliseconds")] = 0
    started_at: Annotated[
        str | None, Meta(description="server time of the start, ISO 8601 in UTC; null if nothing was started")
    ] = None
    agent_note: Annotated[str | None, Meta(description="one line on what was expected")] = None
    error: Annotated[str | None, Meta(description="why there is no exit code")] = None
    truncated: Annotated[StreamFlags, Meta(description="the streams of which a tail leaves something out")] = (
        StreamFlags()
    )
    redacted: Annotated[StreamFlags, Meta(description="the streams of which a line was replaced by a marker")] = (
        StreamFlags()
    )
    output_bytes: Annotated[int, Meta(description="the bytes of both streams, before truncation")] = 0
    waiver: Annotated[Waiver | None, Meta(description="who said that this failure does not count, why, and when")] = (
        None
    )

    # Derived from `exit_code` and not stored: a record keeps what happened, and no judgement that could contradict it.
    @property
    def may_advance(self) -> bool:
        """True if the command has an exit code at all: no exit, no progress."""
        return self.exit_code is not None

    @property
    def succeeded(self) -> bool:
        """True if the exit code is 0."""
        return self.exit_code == 0


class OutputPiece(msgspec.Struct, frozen=True, kw_only=True):
    """Output of a followed command: whole lines of one stream, each redacted and truncated as in the record.

    `dropped` counts the bytes of either stream that are missing just before this piece: they came faster than they
    could be published, or were read too late. A `recorded` piece comes from the record, because the output could not be
    followed to its end. Each attempt of a retried command has its own `command_id`.
    """

    command_id: str
    stream: Stream
    text: str
    dropped: int = 0
    recorded: bool = False


class Verdict(msgspec.Struct, frozen=True):
    """The gate's decision; `reasons` name the commands that are missing, failed or were skipped."""

    passed: bool
    reasons: list[str]
