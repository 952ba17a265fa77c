"""The commands loop: what a host submits, and the record that every command ends in.

Source: runtime-feedback-loops.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from tellback.contracts.message import Message
from tellback.names import Family

OnLost = Literal["record", "retry"]
Priority = Literal["interactive", "normal", "batch"]
Stream = Literal["stdout", "stderr"]


class CommandSubmitted(Message, frozen=True, kw_only=True):
    """A host asks for one command. `argv` is exact: there is never a shell.

    With `follow` its output can be followed while it runs.
    """

    family: ClassVar[Family] = Family.COMMANDS

    command_id: str
    session: str
    argv: list[str]
    cwd: str | None = None
    timeout: float = 30.0
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


class CommandRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What one command did: facts only. A null `exit_code` always comes with an `error`; a negative one is a signal's.

    `started_at` is ISO 8601 in UTC, null where nothing was started; `duration_ms` is wall time; `output_bytes` counts
    what both streams wrote before truncation; `cwd` is where it ran, symbolic links resolved, null where
    it did not run.
    """

    command_id: str
    session: str
    command: list[str]
    parent_command_id: str | None = None
    input_command_ids: list[str] = []
    cwd: str | None = None
    host: str | None = None
    worker: str | None = None
    attempt: int = 1
    stdout_tail: str = ""
    stderr_tail: str = ""
    exit_code: int | None = None
    signal: str | None = None
    duration_ms: int = 0
    started_at: str | None = None
    agent_note: str | None = None
    error: str | None = None
    truncated: StreamFlags = StreamFlags()
    redacted: StreamFlags = StreamFlags()
    output_bytes: int = 0

    @property
    def may_advance(self) -> bool:
        """Whether the command told an exit code at all: no exit, no progress."""
        return self.exit_code is not None

    @property
    def succeeded(self) -> bool:
        """Whether the exit code is 0."""
        return self.exit_code == 0


class OutputPiece(msgspec.Struct, frozen=True, kw_only=True):
    """Output of a command that is followed: whole lines of one stream, each redacted and cut as the record shows it.

    `dropped` bytes of output just before it, of either stream, are not shown: they came faster than they could be told,
    or were read too late. A piece that is `recorded` is what the record keeps of a stream, as the output itself could
    not be followed to its end. Of a command that is tried again each attempt has its own `command_id`.
    """

    command_id: str
    stream: Stream
    text: str
    dropped: int = 0
    recorded: bool = False


class Verdict(msgspec.Struct, frozen=True):
    """What the verification gate says: `reasons` name what is missing, failed or was passed over."""

    passed: bool
    reasons: list[str]
