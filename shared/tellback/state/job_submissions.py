"""Submitted commands on their way from the intake into the queue of their pool.

Each ends there or, if it cannot run or its queue is full, in a record.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tellback.commands.checks import submission_error
from tellback.commands.record import record_without_run
from tellback.contracts.commands import CommandSubmitted
from tellback.state.database import Database
from tellback.state.intake_lease import IntakeEntry, Lease, committed
from tellback.state.job_keys import PRIORITIES, command_keys, pool_of, stored_record
from tellback.state.script_calls import ScriptCall
from tellback.state.scripts import commands as scripts


def enqueue(
    database: Database, lease: Lease, submissions: Sequence[tuple[IntakeEntry, CommandSubmitted]], queue_max: int
) -> None:
    """Queue each command, or store the record of one that cannot run or finds `queue_max` in its queue (C-81).

    Raises:
        Fenced: another consumer has the lease.
    """
    calls = [
        enqueue_call(lease, entry, submitted, submission_error(submitted), queue_max)
        for entry, submitted in submissions
    ]
    replies = database.run_all(calls)
    # race: a command that leaves the queue now would have made room. It is refused all the same, with a record.
    refused = [
        enqueue_call(lease, entry, submitted, _queue_full_error(submitted, queue_max), queue_max)
        for (entry, submitted), reply in zip(submissions, replies, strict=True)
        if reply == b"full"
    ]
    for reply in (*replies, *database.run_all(refused)):
        committed(reply)


def _queue_full_error(submitted: CommandSubmitted, queue_max: int) -> str:
    """Return why a command is refused at the cap of its queue."""
    where = "that any host serves" if submitted.host is None else f"of host {submitted.host!r}"
    return (
        f"the queue {where} is full (TELLBACK_COMMAND_QUEUE_MAX is {queue_max}); submit the command again when others "
        "have run"
    )


def enqueue_call(
    lease: Lease, entry: IntakeEntry, submitted: CommandSubmitted, refusal: str | None, queue_max: int
) -> ScriptCall:
    """Build the call that applies a submission under the consumer's lease; a `refusal` is why it must not run."""
    shard, pool = lease.shard, pool_of(submitted)
    cancelled = stored_record(record_without_run(submitted, "cancelled before it started"))
    refused = stored_record(record_without_run(submitted, refusal)) if refusal else None
    return scripts.enqueue_job(
        **lease.commit_of([entry]),
        **command_keys(shard, submitted),
        jobs=shard.key("jobs", pool),
        command_id=submitted.command_id,
        session=submitted.session,
        pool=pool,
        priority=PRIORITIES[submitted.priority],
        spec="" if refused else msgspec.json.encode(submitted),
        refused=refused["record"] if refused else "",
        refused_history=refused["history"] if refused else "",
        cancelled=cancelled["record"],
        cancelled_history=cancelled["history"],
        on_lost=submitted.on_lost,
        queue_max=queue_max,
    )
