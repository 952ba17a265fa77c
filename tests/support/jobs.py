"""Queued commands, put where the intake puts them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tellback.commands.record import record_without_run
from tellback.contracts.commands import CommandRecord, CommandSubmitted
from tellback.contracts.message import new_event_id
from tellback.names import Family
from tellback.state.audit import Author
from tellback.state.database import Database
from tellback.state.intake import Intake
from tellback.state.intake_lease import IntakeEntry
from tellback.state.job_claims import JobClaimant, JobLease
from tellback.state.job_keys import ANY_POOL
from tellback.state.job_submissions import enqueue, enqueue_call
from tellback.state.jobs import Jobs
from tellback.state.keys import Layout

AUTHOR = Author("alice@test", "not needed any more")


class CommandQueue:
    """Queues commands in the first shard."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        lease = Intake(database, layout).take_lease(layout.shard(0), Family.COMMANDS, 300)
        assert lease is not None
        self._lease = lease

    def put(self, session: str, command_id: str | None = None, refusal: str | None = None, **fields: object) -> str:
        submitted = submission(session, command_id, **fields)
        entry = IntakeEntry("1-1", submitted, 1)
        assert self._db.run(enqueue_call(self._lease, entry, submitted, refusal, 10_000)) == b"ok"
        return submitted.command_id

    def put_all(self, submissions: Sequence[CommandSubmitted], queue_max: int) -> None:
        enqueue(self._db, self._lease, [(IntakeEntry("1-1", each, 1), each) for each in submissions], queue_max)


def submission(session: str, command_id: str | None = None, **fields: object) -> CommandSubmitted:
    """A submission of `true`, with a new id unless one is given."""
    event_id = new_event_id()
    plain = {"type": "CommandSubmitted", "event_id": event_id, "command_id": command_id or event_id}
    return msgspec.convert(plain | {"session": session, "argv": ["true"]} | fields, CommandSubmitted)


def take(jobs: Jobs, pool: str = ANY_POOL, seconds: float = 60.0) -> JobLease | None:
    """Lease the next command of a pool, if there is one."""
    return jobs.lease(JobClaimant(pool, seconds=seconds, worker="w@test", host="h"))


def taken(jobs: Jobs, seconds: float = 60.0) -> JobLease:
    """Lease the next command; there must be one."""
    lease = take(jobs, seconds=seconds)
    assert lease is not None
    return lease


def ended(lease: JobLease, exit_code: int | None = 0) -> CommandRecord:
    """The record of a command that ended with `exit_code`, or that never ran."""
    record = record_without_run(lease.submitted, "not run at all")
    return record if exit_code is None else msgspec.structs.replace(record, exit_code=exit_code, error=None)
