"""The pools of commands, the keys of a command, and the stored form of a record."""

from __future__ import annotations

from typing import Final, TypedDict

import msgspec

from tellback.commands.record import history_entry
from tellback.commands.start_errors import CANCELLED, REFUSED_BY_POLICY
from tellback.contracts.commands import CommandRecord, CommandSubmitted
from tellback.names import Family, host_queue
from tellback.state.keys import Shard

ANY_POOL: Final = "*"  # no host has this name
PRIORITIES: Final = {"interactive": 0, "normal": 1, "batch": 2}


def pool_of(submitted: CommandSubmitted) -> str:
    """Return the pool that runs a command: its host's, or any."""
    return submitted.host or ANY_POOL


def queue_of(pool: str) -> str:
    """Return the Celery queue that carries a pool's wake-ups."""
    return Family.COMMANDS.value if pool == ANY_POOL else host_queue(pool)


class CommandKeys(TypedDict):
    """The keys of a command, and of its session's records."""

    job: str
    records: str


class StoredRecord(TypedDict):
    """A record and its history entry in the form that the scripts expect: the entry without its first brace.

    The script puts the server's time before the entry's other fields.
    """

    record: bytes
    history: bytes


def stored_record(record: CommandRecord) -> StoredRecord:
    """Return the stored form of a record."""
    return {"record": msgspec.json.encode(record), "history": msgspec.json.encode(history_entry(record))[1:]}


def outcome_of(record: CommandRecord) -> str:
    """Return the counter of a worker's record: by its exit code, or else by who did not let it end."""
    if record.exit_code is not None:
        return "failed" if record.exit_code else "succeeded"
    error = record.error or ""
    if error.startswith(REFUSED_BY_POLICY):
        return "refused"
    return "cancelled" if error.startswith(CANCELLED) else "no_exit"


def command_keys(shard: Shard, submitted: CommandSubmitted) -> CommandKeys:
    """Return the keys of a command."""
    return {"job": shard.key("job", submitted.command_id), "records": shard.key("records", submitted.session)}
