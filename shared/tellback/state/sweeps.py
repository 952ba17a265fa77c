"""When a team's turns were last swept, which tells a worker whether beat is silent; and how late the sweep is."""

from __future__ import annotations

from tellback.state.database import Database
from tellback.state.keys import Layout, lifetime_ms


class Sweeps:
    """The sweeps of one team. Every method is one round trip, and raises `Unavailable` while Redis is away."""

    def __init__(self, database: Database, layout: Layout) -> None:
        """Take the Redis and the team's shards."""
        self._db = database
        self._layout = layout
        self._key = layout.shard(0).key("swept")

    def note(self, seconds: float) -> None:
        """Say that nothing overdue is left; nobody else need look for so long."""
        self._db.command("SET", self._key, 1, "PX", _ms(seconds))

    def claim(self, seconds: float) -> bool:
        """Take over the sweep, unless somebody has swept, or took it over, within the time that they said."""
        return self._db.command("SET", self._key, 1, "NX", "PX", _ms(seconds)) is not None

    def left(self) -> float:
        """Seconds for which nobody need look; 0.0: the sweep is due."""
        return max(0, int(self._db.command("PTTL", self._key))) / 1000

    def lag_ms(self) -> int:
        """How long the longest overdue turn has been so, in milliseconds; 0 where none is.

        It reads the head of each shard's due set: the cost depends neither on what is open nor on what is due.
        """
        commands = [("ZRANGE", shard.key("due"), 0, 0, "WITHSCORES") for shard in self._layout.all]
        (seconds, micros), *heads = self._db.pipeline([("TIME",), *commands])
        now = int(seconds) * 1000 + int(micros) // 1000
        return max([0, *(now - int(float(head[1])) for head in heads if head)])


def _ms(seconds: float) -> int:
    return max(1, min(round(seconds * 1000), lifetime_ms("swept")))
