"""The daily counters of guidance: a hash in each shard, written by the scripts that commit and deliver.

`tellback.guidance.measures` names the counters. A bucket lives for 35 days from its first count, and statistics are
sums of whole days, exact and bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.readable import counts_of

DAYS: Final = 35
_NAMES: Final = (b"names:", b"name:")


@dataclass(frozen=True, slots=True)
class Day:
    """The counters of one day (UTC) over all shards; `since` is its first count, in milliseconds, server time."""

    day: date
    since: int
    counters: Mapping[str, int]


def read_stats(database: Database, layout: Layout, days: int = DAYS) -> list[Day]:
    """Return those of the last `days` days that have counts, oldest first, summed over the shards; one round trip.

    Tomorrow is read too. A count's day is that of its stream entry, and the ids of a stream stay where they are when
    the server's clock steps back over midnight.
    """
    now = database.now_ms()
    newest = _day(now)
    wanted = [newest - timedelta(days=ago) for ago in range(days - 1, -2, -1)]
    keys = [shard.key("guidestats", day.strftime("%Y%m%d")) for day in wanted for shard in layout.all]
    replies = iter(database.pipeline([("HGETALL", key) for key in keys]))
    found: list[Day] = []
    for day in wanted:
        since, counters = now, dict[str, int]()
        for _ in layout.all:
            flat = next(replies)
            pairs = zip(flat[::2], flat[1::2], strict=True)
            for name, value in counts_of(pair for pair in pairs if not pair[0].startswith(_NAMES)):
                if name == "since":
                    since = min(since, value)
                else:
                    counters[name] = counters.get(name, 0) + value
        if counters:
            found.append(Day(day, since, counters))
    return found


def _day(at_ms: int) -> date:
    return datetime.fromtimestamp(at_ms / 1000, UTC).date()
