"""Queued commands, put where the intake puts them."""

from __future__ import annotations

import msgspec

from tellback.commands.record import record_without_run
from tellback.contracts.commands import CommandRecord, CommandSubmitted
from tellback.contracts.message import new_event_id
from tellback.names import Family
from tellback.state.audit import Author
from tellback.state.database import Database
from tellback.state.intake import Intake, IntakeEntry
from tellback.state.jobs import JobLease, Jobs
from tellback.state.keys import Layout

AUTHOR = Author("alice@test", "not needed any more")


class Queue:
    """Queues commands in the first shard."""

    def __init__(self, database: Database, layout: Layout, jobs: Jobs) -> None:
        self._db, self._jobs, self._layout = database, jobs, layout
        lease = Intake(database, layout).take_lease(layout.shard(0), Family.COMMANDS, 300)
        assert lease is not None
        self._lease = lease

    def put(self, session: str, command_id: str | None = None, refusal: str | None = None, **fields: object) -> str:
        event_id = new_event_id()
        plain = {"type": "CommandSubmitted", "event_id": event_id, "command_id": command_id or event_id}
        submitted = msgspec.convert(plain | {"session": session, "argv": ["true"]} | fields, CommandSubmitted)
        assert (
            self._db.run(self._jobs.enqueue(self._lease, IntakeEntry("1-1", submitted, 1), submitted, refusal)) == b"ok"
        )
        return submitted.command_id


def ended(lease: JobLease, exit_code: int | None = 0) -> CommandRecord:
    """The record of a command that ended with `exit_code`, or that never ran."""
    record = record_without_run(lease.submitted, "not run at all")
    return record if exit_code is None else msgspec.structs.replace(record, exit_code=exit_code, error=None)
