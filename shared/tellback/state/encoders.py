"""What each worker host says of its embedding model, so that one that does not load is seen."""

from __future__ import annotations

from typing import Literal

import msgspec

from tellback.state.database import Database
from tellback.state.keys import Layout, lifetime_ms


class EncoderState(msgspec.Struct, frozen=True, kw_only=True):
    """A host's model: loaded, or failed for a `reason`; `at` is milliseconds since the epoch, server time."""

    host: str
    model: str
    state: Literal["loaded", "failed"]
    dimension: int = 0
    reason: str = ""
    at: int = 0


class Encoders:
    """The states of one team's worker hosts; they stand in its first shard for a day."""

    def __init__(self, database: Database, layout: Layout) -> None:
        """Take the Redis and the team."""
        self._db = database
        self._key = layout.shard(0).key("encoder")

    def say(self, state: EncoderState) -> None:
        """Tell a host's state."""
        known = msgspec.structs.replace(state, at=self._db.now_ms())
        self._db.pipeline(
            [
                ("HSET", self._key, known.host, msgspec.json.encode(known)),
                ("PEXPIRE", self._key, lifetime_ms("encoder")),
            ]
        )

    def all(self) -> list[EncoderState]:
        """What the hosts said within a day, by host."""
        states = [msgspec.json.decode(raw, type=EncoderState) for raw in self._db.command("HVALS", self._key)]
        return sorted(states, key=lambda state: state.host)
