"""An estimate of a team's memory in Redis, at a bounded cost: from the keys that indexes name, none searched for.

Redis counts no bytes for a prefix. Listing all keys takes as long as there are keys, and a random sample misses the
few large ones that matter. So the large ones (streams, queues, banks) are measured, each by a sample of its items, and
sessions by the newest, multiplied by the number of all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tellback.names import Family
from tellback.state.database import Command, Database
from tellback.state.keys import Layout, Shard, stream_of

BANKS: Final = 50  # of a shard, those signalled last
POOLS: Final = 50  # of a shard, those used last
SESSIONS: Final = 50  # of a shard, those active last

_SINGLE: Final = ("dead", "audit", "timers", "due", "turns", "running", "banks", "factbanks", "sessions")
_OF_A_BANK: Final = (
    *("factscore", "factrecent", "factabove", "factbelow", "clustervec", "clustertext", "clusterver", "clusterrecent"),
    "clusterstamps",
    *("siglog", "sigseen", "sigseen-old", "vec", "vec-old", "facttext", "factver", "factstamps", "factset", "factvec"),
)
_OF_A_SESSION: Final = ("hist", "records", "activity")


def team_memory(database: Database, layout: Layout) -> int:
    """Return an estimate of the bytes that a team's keys take in Redis.

    Raises:
        Unavailable: Redis is away.
        NotPermitted: this user may not measure keys.
    """
    return sum(_shard_bytes(database, shard) for shard in layout.all)


def _shard_bytes(database: Database, shard: Shard) -> int:
    banks, stored, pools, sessions, known = database.pipeline(
        [
            ("ZRANGE", shard.key("banks"), -BANKS, -1),
            ("ZRANGE", shard.key("factbanks"), -BANKS, -1),
            ("ZRANGE", shard.key("pools"), -POOLS, -1),
            ("ZRANGE", shard.key("sessions"), -SESSIONS, -1),
            ("ZCARD", shard.key("sessions")),
        ]
    )
    single = [stream_of(shard, family) for family in Family] + [shard.key(name) for name in _SINGLE]
    single += _keys_of(shard, ["jobs"], pools)
    single += _keys_of(shard, _OF_A_BANK, {*banks, *stored})
    of_sessions = _measure(database, _keys_of(shard, _OF_A_SESSION, sessions))
    return _measure(database, single) + of_sessions * int(known) // max(1, len(sessions))


def _keys_of(shard: Shard, families: Iterable[str], names: Iterable[bytes]) -> list[str]:
    return [shard.key(family, name.decode(errors="replace")) for family in families for name in names]


def _measure(database: Database, keys: Iterable[str]) -> int:
    wanted: list[Command] = [("MEMORY", "USAGE", key) for key in keys]
    return sum(size or 0 for size in database.pipeline(wanted))
