"""What guidance has counted, day by day: a hash in each shard, written by the scripts that commit and deliver.

`tellback.guidance.measures` names the counters. A bucket lives 35 days from its first count, so that what is read is
the sum of whole days, exact and bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final

from tellback.state.database import Database
from tellback.state.keys import Layout, Shard

DAYS: Final = 35
DAY_MS: Final = 86_400_000
_SERVICE: Final = (b"names:", b"name:", b"since")


@dataclass(frozen=True, slots=True)
class Day:
    """The counters of one day (UTC) over all shards; `since` is its first count, in milliseconds, server time."""

    day: date
    since: int
    counters: Mapping[str, int]


def bucket(shard: Shard, at_ms: int) -> str:
    """The key of the counters for this moment."""
    return _bucket(shard, at_ms // DAY_MS)


@lru_cache(maxsize=1024)
def _bucket(shard: Shard, days: int) -> str:
    """Built once a day: every commit asks for it."""
    return shard.key("guidestats", _day(days * DAY_MS).strftime("%Y%m%d"))


def read_stats(database: Database, layout: Layout, days: int = DAYS) -> list[Day]:
    """The newest `days` days that have counts, oldest first, each summed over the shards; one round trip."""
    now = database.now_ms()
    newest = _day(now)
    wanted = [newest - timedelta(days=ago) for ago in range(days - 1, -1, -1)]
    keys = [shard.key("guidestats", day.strftime("%Y%m%d")) for day in wanted for shard in layout.all]
    replies = iter(database.pipeline([("HGETALL", key) for key in keys]))
    found: list[Day] = []
    for day in wanted:
        since, counters = now, dict[str, int]()
        for _ in layout.all:
            flat = next(replies)
            for name, value in zip(flat[::2], flat[1::2], strict=True):
                if name == b"since":
                    since = min(since, int(value))
                elif not name.startswith(_SERVICE):
                    counter = name.decode()
                    counters[counter] = counters.get(counter, 0) + int(value)
        if counters:
            found.append(Day(day, since, counters))
    return found


def _day(at_ms: int) -> date:
    return datetime.fromtimestamp(at_ms / 1000, UTC).date()
