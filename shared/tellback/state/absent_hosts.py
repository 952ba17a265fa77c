"""Commands for a host that no worker serves: they get a record that says so, in bounded time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from tellback.commands.record import record_without_run
from tellback.contracts.commands import CommandSubmitted
from tellback.state.database import Database
from tellback.state.jobs import ANY_POOL, SWEEP_BATCH, queue_keys, queue_of, record_keys, stored_record
from tellback.state.keys import Layout, Shard, lifetime_ms
from tellback.state.presence import Presence
from tellback.state.script import Script

_abandon: Final = Script("abandon_job")


class AbsentHosts:
    """The queued commands of one team whose hosts nobody serves."""

    def __init__(self, database: Database, layout: Layout) -> None:
        """Take the Redis and the team's shards."""
        self._db = database
        self._layout = layout

    def abandon(self, patience: float) -> list[str]:
        """Record that they cannot be run, where a host has been away for `patience` seconds; returns their ids.

        A bounded number of each pool in one call.
        """
        served = {queue for worker in Presence(self._db, self._layout).workers() for queue in worker.queues}
        ids: list[str] = []
        for shard in self._layout.all:
            for pool in self._away(shard, served, patience):
                ids += self._abandon_pool(shard, pool, patience)
        return ids

    def _away(self, shard: Shard, served: Collection[str], patience: float) -> Iterable[str]:
        """Pools with queued commands whose host has been away for so long.

        Since when is kept for as long as sweeps ask, so that a worker that starts again is waited for.
        """
        now = self._db.now_ms()
        for name in self._db.command("ZRANGE", shard.key("pools"), 0, -1):
            pool = name.decode()
            key = shard.key("jobaway", pool)
            if pool == ANY_POOL or queue_of(pool) in served:
                self._db.command("DEL", key)
                continue
            life = lifetime_ms("jobaway")
            _, since, _ = self._db.pipeline([("SET", key, now, "NX", "PX", life), ("GET", key), ("PEXPIRE", key, life)])
            if since is not None and now - int(since) >= patience * 1000:
                yield pool

    def _abandon_pool(self, shard: Shard, pool: str, patience: float) -> Iterable[str]:
        for raw in self._db.command("ZRANGE", shard.key("jobs", pool), 0, SWEEP_BATCH - 1):
            member = raw.decode()
            command_id = member.partition(":")[2]
            spec = self._db.command("HGET", shard.key("job", command_id), "spec")
            if spec is None:  # leased or cancelled meanwhile
                continue
            submitted = msgspec.json.decode(spec, type=CommandSubmitted)
            error = f"never started: no worker of host {pool} has been at work for {patience:g} s"
            keys = [shard.key("job", command_id), *queue_keys(shard, pool), *record_keys(shard, submitted)]
            keys.append(shard.key("cmdstats"))
            args = [member, pool, *stored_record(record_without_run(submitted, error))]
            if self._db.run(_abandon.call(keys, args)):
                yield command_id
