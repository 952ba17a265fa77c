"""Events of a team that wait in its intake, and how long the oldest has waited."""

from __future__ import annotations

from typing import NamedTuple

from tellback.names import Family
from tellback.state.database import Database
from tellback.state.keys import Layout, stream_of


class Backlog(NamedTuple):
    """The waiting events of one family: all, those of the longest stream, and when the oldest came (ms, or None)."""

    events: int
    longest: int
    since: int | None

    def age(self, now_ms: int) -> float:
        """Return how long the oldest has waited, in seconds; 0 if none waits."""
        return 0.0 if self.since is None else max(0, now_ms - self.since) / 1000


def read_backlog(database: Database, layout: Layout, family: Family) -> Backlog:
    """Return what waits in a family's streams, those entries included that a consumer has read and not applied."""
    streams = [stream_of(shard, family) for shard in layout.all]
    lengths: list[int] = database.pipeline([("XLEN", stream) for stream in streams])
    oldest = database.pipeline([("XRANGE", stream, "-", "+", "COUNT", 1) for stream in streams])
    since = min((int(entry[0][0].partition(b"-")[0]) for entry in oldest if entry), default=None)
    return Backlog(sum(lengths), max(lengths), since)
