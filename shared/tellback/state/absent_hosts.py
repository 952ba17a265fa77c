"""Abandon commands for a host that no worker serves: they get a record that says so, in bounded time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from redis import exceptions

from tellback.commands.record import record_without_run
from tellback.contracts.commands import CommandSubmitted
from tellback.log import get_logger
from tellback.state.database import Database, small_write
from tellback.state.job_keys import ANY_POOL, command_keys, queue_of, stored_record
from tellback.state.job_losses import read_submitted
from tellback.state.jobs import SWEEP_BATCH
from tellback.state.keys import Layout, Shard, lifetime_ms
from tellback.state.presence import Presence
from tellback.state.readable import names_of, read_each, readable, reply_of
from tellback.state.scripts import commands as scripts
from tellback.state.steady import due_now

_logger = get_logger("tellback.jobs")


class AbsentHosts:
    """The queued commands of one team whose hosts no worker serves."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        self._layout = layout

    def abandon(self, wait_seconds: float) -> dict[str, list[str]]:
        """Abandon commands whose host has been absent for `wait_seconds`; return their ids by host.

        One call abandons a bounded number in each pool.
        """
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
            except exceptions.ResponseError as error:  # the session's records have another type: the others go on
                _logger.error("job.not_recorded", command_id=command_id, reason=str(error))  # noqa: TRY400 - its text says all
                continue
            if was_abandoned:
                yield command_id


def _submitted(queued: tuple[str, Any, Any]) -> tuple[str, CommandSubmitted]:
    member, session, spec = queued
    return member, read_submitted(member.partition(":")[2], reply_of(session), reply_of(spec))[0]
