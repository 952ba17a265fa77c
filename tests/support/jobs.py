"""Queued commands, put where the intake puts them."""

from __future__ import annotations

import msgspec

from tellback.contracts.commands import CommandSubmitted
from tellback.contracts.message import new_event_id
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.intake import Entry, Intake
from tellback.state.jobs import Jobs
from tellback.state.keys import Layout


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
        assert self._db.run(self._jobs.enqueue(self._lease, Entry("1-1", submitted, 1), submitted, refusal)) == b"ok"
        return submitted.command_id
