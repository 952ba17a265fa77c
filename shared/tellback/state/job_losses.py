"""Lost commands: a running command whose lease has expired, its next attempt, and the call that records both.

A newer release may have queued a command whose message this one cannot read. While the workers are upgraded, one of
that release records its loss and tries it again. If none does within an hour, or somebody changed the message by hand,
the command ends with a record built from what is known of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from tellback.commands.record import CommandAttempt
from tellback.contracts.commands import CommandRecord, CommandSubmitted
from tellback.log import get_logger
from tellback.state.job_keys import PRIORITIES, command_keys, pool_of, stored_record
from tellback.state.keys import Shard
from tellback.state.readable import UNREADABLE
from tellback.state.script_calls import ScriptCall
from tellback.state.scripts import commands as scripts

MAX_ATTEMPTS: Final = 3  # in all, including the first
UNREADABLE_SECONDS: Final = 3_600.0  # for how long a release that can read the command may record its loss
STORED_FIELDS: Final = ("spec", "attempt", "worker", "host", "cwd", "session")
"""The fields of a command's key that `read_lost` needs, in this order."""

_logger = get_logger("tellback.jobs")


@dataclass(frozen=True, slots=True)
class Lost:
    """A running command whose lease has expired. If it is not `is_readable`, `submitted` is a stand-in."""

    shard: Shard
    submitted: CommandSubmitted
    attempt: CommandAttempt
    cwd: str | None
    is_readable: bool = True

    @property
    def error(self) -> str:
        """The reason for the record."""
        if not self.is_readable:
            return (
                f"lost: the message of this command cannot be read; worker {self.attempt.worker} had leased it, and "
                "whether it ran is not known"
            )
        return f"lost: the lease of worker {self.attempt.worker} ran out; whether the command ended is not known"

    @property
    def again(self) -> CommandSubmitted | None:
        """The next attempt: the same command under an id of its own, linked to this one."""
        submitted, number = self.submitted, self.attempt.number
        if submitted.on_lost != "retry" or number >= MAX_ATTEMPTS:
            return None
        next_id = f"{first_id(submitted, number)}.{number + 1}"
        return msgspec.structs.replace(submitted, command_id=next_id, parent=submitted.command_id)


class _KnownFields(msgspec.Struct, frozen=True):
    """The part of an unreadable message that its record may still show."""

    argv: list[str] = []
    parent: str | None = None


def read_lost(shard: Shard, command_id: str, stored: Sequence[bytes | None]) -> Lost:
    """Decode the `STORED_FIELDS` of an overdue command, with a stand-in for a message that cannot be read.

    Raises one of the errors `UNREADABLE` if not even its session or its attempt can be read.
    """
    spec, attempt, worker, host, cwd, session = stored
    submitted, is_readable = read_submitted(command_id, session, spec)
    made = CommandAttempt(int(attempt or b""), text_or_none(host), text_or_none(worker))
    return Lost(shard, submitted, made, text_or_none(cwd), is_readable)


def read_submitted(command_id: str, session: bytes | None, spec: bytes | None) -> tuple[CommandSubmitted, bool]:
    """Decode a command's message; return a stand-in and False if it cannot be read.

    Raises one of the errors `UNREADABLE` if its session is not known either.
    """
    try:
        return msgspec.json.decode(spec or b"", type=CommandSubmitted), True
    except UNREADABLE as error:
        report_unreadable(error, command_id=command_id)
        return _stand_in(command_id, session, spec), False


def report_unreadable(error: Exception, **fields: str) -> None:
    """Log a command that cannot be read; a traceback would say no more than the error."""
    _logger.error("job.unreadable", **fields, reason=str(error))


def _stand_in(command_id: str, session: bytes | None, spec: bytes | None) -> CommandSubmitted:
    """Build a message that stands for an unreadable one in a record: it is not tried again.

    Raises:
        ValueError: the session is not known, so there is no place for a record.
    """
    if not session:
        raise ValueError("neither the command's message nor its session can be read")
    known = _KnownFields()
    with suppress(*UNREADABLE):
        known = msgspec.json.decode(spec or b"", type=_KnownFields)
    return CommandSubmitted(
        event_id=command_id, command_id=command_id, session=session.decode(), argv=known.argv, parent=known.parent
    )


def first_id(submitted: CommandSubmitted, attempt: int) -> str:
    """Return the id of the command's first attempt, the prefix of the ids of all others."""
    return submitted.command_id.removesuffix(f".{attempt}") if attempt > 1 else submitted.command_id


def losing(lost: Lost, record: CommandRecord, watch: float = 0.0, token: str = "") -> ScriptCall:
    """Build the call that stores the record of a loss and queues the next attempt.

    See `Jobs.mark_lost` for `watch`. With the `token` of its lease a worker gives up a lease that has not expired.
    """
    shard, submitted, again = lost.shard, lost.submitted, lost.again
    next_id = again.command_id if again else ""
    pool = pool_of(submitted)
    return scripts.mark_job_lost(
        **command_keys(shard, submitted),
        **stored_record(record),
        jobs=shard.key("jobs", pool),
        next_job=shard.key("job", next_id),
        command_id=submitted.command_id,
        next_id=next_id,
        session=submitted.session,
        pool=pool,
        priority=PRIORITIES[submitted.priority],
        spec=msgspec.json.encode(again),
        attempt=lost.attempt.number + 1,
        grace_ms=round(watch * 1000),
        token=token,
        on_lost=submitted.on_lost,
    )


def text_or_none(value: bytes | None) -> str | None:
    """Return a stored field as text; None if it is not there."""
    return value.decode() if value is not None else None
