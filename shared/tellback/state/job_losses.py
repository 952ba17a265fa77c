"""Lost commands: a running command whose lease has expired, its next attempt, and the call that records both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from tellback.commands.record import CommandAttempt
from tellback.contracts.commands import CommandRecord, CommandSubmitted
from tellback.state.job_keys import PRIORITIES, pool_of, queue_keys, record_keys, stored_record
from tellback.state.keys import Shard
from tellback.state.script_calls import ScriptCall
from tellback.state.scripts import commands as scripts

MAX_ATTEMPTS: Final = 3  # in all, including the first


@dataclass(frozen=True, slots=True)
class Lost:
    """A running command whose lease has expired."""

    shard: Shard
    submitted: CommandSubmitted
    attempt: CommandAttempt
    cwd: str | None

    @property
    def again(self) -> CommandSubmitted | None:
        """The next attempt: the same command under an id of its own, linked to this one."""
        submitted, number = self.submitted, self.attempt.number
        if submitted.on_lost != "retry" or number >= MAX_ATTEMPTS:
            return None
        next_id = f"{first_id(submitted, number)}.{number + 1}"
        return msgspec.structs.replace(submitted, command_id=next_id, parent=submitted.command_id)


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
        **queue_keys(shard, pool),
        **record_keys(shard, submitted),
        **stored_record(record),
        job=shard.key("job", submitted.command_id),
        running=shard.key("running"),
        stop=shard.key("stop", submitted.command_id),
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
