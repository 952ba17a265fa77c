"""Commands that end without a run: those whose lease has expired, and those for a host that no worker serves.

A lost command may have a next attempt, and one call records both.

A newer release may have queued a command whose message this one cannot read. While the workers are upgraded, one of
that release records its loss and tries it again. If none does within an hour, or somebody changed the message by hand,
the command ends with a record built from what is known of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from redis import exceptions

from tellback.commands.record import CommandAttempt, record_without_run
from tellback.contracts.commands import CommandRecord, CommandSubmitted
from tellback.contracts.message import new_event_id
from tellback.log import get_logger
from tellback.state.database import Database, small_write
from tellback.state.job_keys import ANY_POOL, PRIORITIES, command_keys, pool_of, queue_of, stored_record
from tellback.state.keys import FLEET, Layout, Shard, lifetime_ms
from tellback.state.presence import Presence
from tellback.state.readable import UNREADABLE, names_of, read_each, readable, reply_of
from tellback.state.script_calls import ScriptCall
from tellback.state.scripts import commands as scripts
from tellback.state.steady import due_now

SWEEP_BATCH: Final = 100  # commands of one place in one sweep
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


def loss_call(lost: Lost, record: CommandRecord, watch: float = 0.0, token: str = "") -> ScriptCall:
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
        call=token or new_event_id(),
        on_lost=submitted.on_lost,
    )


def text_or_none(value: bytes | None) -> str | None:
    """Return a stored field as text; None if it is not there."""
    return value.decode() if value is not None else None


class AbsentHosts:
    """The queued commands of one team whose hosts no worker serves."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        self._layout = layout

    def abandon(self, wait_seconds: float) -> dict[str, list[str]]:
        """Abandon commands whose host has been absent for `wait_seconds`; return their ids by host.

        One call abandons a bounded number in each pool.
        """
        if not self._db.answering([FLEET]):  # the node that knows the workers is away
            return {}
        workers, unreadable = Presence(self._db, self._layout.team).roll()
        if unreadable:  # an unreadable worker may serve any host: abandon nothing
            return {}
        served = {queue for worker in workers for queue in worker.queues}
        ids: dict[str, list[str]] = {}
        shards = self._layout.all
        for shard, now in zip(shards, due_now(self._db, shards), strict=True):
            for pool, since in self._absent_pools(shard, served, wait_seconds, now):
                for command_id in self._abandon_pool(shard, pool, since, wait_seconds):
                    ids.setdefault(pool, []).append(command_id)
        return ids

    def _absent_pools(
        self, shard: Shard, consumed: Collection[str], wait_seconds: float, now: int
    ) -> Iterable[tuple[str, int]]:
        """Yield pools with queued commands whose host has been absent for `wait_seconds`, and since when.

        The start of an absence is stored while sweeps continue and commands wait; a worker that comes back in time ends
        it.
        """
        for pool in names_of("pool", self._db.command("ZRANGE", shard.key("pools"), 0, -1)):
            key = shard.key("jobabsent", pool)
            if pool == ANY_POOL or queue_of(pool) in consumed:
                # race: for a host that leaves at this moment, the wait starts with the next sweep
                self._db.command("DEL", key)
                continue
            life = lifetime_ms("jobabsent")
            # race: the start is set once; if the host comes back, the script sees that this start is gone
            note = small_write("SET", key, now, "NX", "GET", "PX", life)
            # race: as above; an existing start stays as it is
            stored, _ = self._db.run_all([note], [("PEXPIRE", key, life)])
            since = int(stored or now)
            if now - since >= wait_seconds * 1000:
                yield pool, since

    def _abandon_pool(self, shard: Shard, pool: str, since: int, wait_seconds: float) -> Iterable[str]:
        members = names_of("command", self._db.command("ZRANGE", shard.key("jobs", pool), 0, SWEEP_BATCH - 1))
        ids = [member.partition(":")[2] for member in members]
        keys = [shard.key("job", command_id) for command_id in ids]
        stored = read_each(self._db, [("HGET", key, field) for key in keys for field in ("session", "spec")])
        found = zip(members, stored[::2], stored[1::2], strict=True)
        queued = [(member, session, spec) for member, session, spec in found if spec is not None]
        # Without a spec it was leased or cancelled meanwhile.
        for member, submitted in readable("queued command", queued, _submitted):
            command_id = submitted.command_id
            error = f"never started: no worker of host {pool} has been at work for {wait_seconds:g} s"
            abandoned = scripts.abandon_job(
                **command_keys(shard, submitted),
                **stored_record(record_without_run(submitted, error)),
                jobs=shard.key("jobs", pool),
                member=member,
                pool=pool,
                since=since,
            )
            try:
                was_abandoned = self._db.run(abandoned)
            except exceptions.ResponseError as error:  # a key has another type: the others go on
                _logger.error("job.not_recorded", command_id=command_id, reason=str(error))  # noqa: TRY400 - its text says all
                continue
            if was_abandoned:
                yield command_id


def _submitted(queued: tuple[str, Any, Any]) -> tuple[str, CommandSubmitted]:
    member, session, spec = queued
    return member, read_submitted(member.partition(":")[2], reply_of(session), reply_of(spec))[0]
