"""What became of commands, counted by the scripts that store their records, and where they stand now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tellback.state.database import Database
from tellback.state.jobs import ANY_POOL
from tellback.state.keys import Layout

OUTCOMES: Final = ("succeeded", "failed", "no_exit", "refused", "cancelled", "abandoned", "lost", "superseded")
"""no_exit: it ran and has no exit code, as after a timeout. abandoned: no worker served its host. lost: its worker
died. superseded: a second record of one command, which is kept beside the first."""
POOLS: Final = 100
OTHER: Final = "other"
ANY: Final = "any"


@dataclass(frozen=True, slots=True)
class CommandsNow:
    """Commands at this moment; `silent` are those that run under a lease which has ended.

    `queued` is by pool: `any`, or a host. The 100 pools used last have names of their own, all others are `other`.
    """

    running: int
    silent: int
    queued: Mapping[str, int]


def commands_now(database: Database, layout: Layout) -> CommandsNow:
    """Asks each shard a bounded number of questions.

    Raises:
        Unavailable: Redis is away.
    """
    running = [shard.key("running") for shard in layout.all]
    now = database.now_ms()
    total = sum(database.pipeline([("ZCARD", key) for key in running]))
    silent = sum(database.pipeline([("ZCOUNT", key, "-inf", now) for key in running]))
    return CommandsNow(total, silent, _queued(database, layout))


def _queued(database: Database, layout: Layout) -> dict[str, int]:
    used: dict[str, float] = {}
    for flat in database.pipeline([("ZRANGE", shard.key("pools"), 0, -1, "WITHSCORES") for shard in layout.all]):
        for name, at in zip(flat[::2], flat[1::2], strict=True):
            used[name.decode()] = max(float(at), used.get(name.decode(), 0.0))
    pools = sorted(used, key=lambda pool: (pool != ANY_POOL, -used[pool], pool))
    counts = database.pipeline([("ZCARD", shard.key("jobs", pool)) for pool in pools for shard in layout.all])
    found = {ANY: 0}
    for index, pool in enumerate(pools):
        name = ANY if pool == ANY_POOL else pool if index < POOLS else OTHER
        found[name] = found.get(name, 0) + sum(counts[index * layout.shards : (index + 1) * layout.shards])
    return found


def records_by_outcome(database: Database, layout: Layout) -> dict[str, int]:
    """How many records the team's commands ended in, by outcome; these only grow.

    Raises:
        Unavailable: Redis is away.
    """
    totals: dict[str, int] = dict.fromkeys(OUTCOMES, 0)
    for counts in database.pipeline([("HMGET", shard.key("cmdstats"), *OUTCOMES) for shard in layout.all]):
        for outcome, count in zip(OUTCOMES, counts, strict=True):
            totals[outcome] += int(count or 0)
    return totals
