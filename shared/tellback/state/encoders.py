"""What worker hosts say of their embedding models, so that one that does not load, or that a bank lacks, is seen."""

from __future__ import annotations

from typing import Literal

import msgspec

from tellback.state.database import Database
from tellback.state.keys import Layout, lifetime_ms


class EncoderState(msgspec.Struct, frozen=True, kw_only=True):
    """A model on a host: loaded, or failed for a `reason`; `at` is milliseconds since the epoch, server time.

    `refuses` says which bank has another model, so that its signals wait for a worker with that one.
    """

    host: str
    model: str
    state: Literal["loaded", "failed"]
    dimension: int = 0
    reason: str = ""
    refuses: str = ""
    at: int = 0


class Encoders:
    """The states of one team's worker hosts; they stand in its first shard for a day.

    A host has one for each model, since its workers need not have the same: none takes the place of another.
    """

    def __init__(self, database: Database, layout: Layout) -> None:
        """Take the Redis and the team."""
        self._db = database
        self._key = layout.shard(0).key("encoder")

    def say(self, state: EncoderState) -> None:
        """Tell the state of a model on a host; what was told more than a day ago goes."""
        known = msgspec.structs.replace(state, at=self._db.now_ms())
        before = known.at - lifetime_ms("encoder")
        told = self._db.command("HGETALL", self._key)
        old = [field for field, raw in zip(told[::2], told[1::2], strict=True) if _decoded(raw).at < before]
        self._db.pipeline(
            [
                *([("HDEL", self._key, *old)] if old else []),
                ("HSET", self._key, f"{known.host}\0{known.model}", msgspec.json.encode(known)),
                ("PEXPIRE", self._key, lifetime_ms("encoder")),
            ]
        )

    def all(self) -> list[EncoderState]:
        """What the hosts said within a day, by host and model."""
        states = map(_decoded, self._db.command("HVALS", self._key))
        return sorted(states, key=lambda state: (state.host, state.model))


def _decoded(raw: bytes) -> EncoderState:
    return msgspec.json.decode(raw, type=EncoderState)
