"""Whether signals can be applied: which worker hosts' model fails, and how many batches wait."""

from __future__ import annotations

import msgspec

from tellback.client.context import Context
from tellback.names import Family
from tellback.state.encoders import Encoders, EncoderState
from tellback.state.keys import stream_of


class ModelState(msgspec.Struct, frozen=True, kw_only=True):
    """What worker hosts said of their embedding model within a day, and the batches that no worker has applied."""

    hosts: list[EncoderState]
    waiting: int

    @property
    def trouble(self) -> list[str]:
        """A line for each host whose model fails."""
        return [
            f"the embedding model of {host.host} fails ({host.reason}); {self.waiting} batches of signals wait, and "
            "none is lost: see `tellback doctor`"
            for host in self.hosts
            if host.state == "failed"
        ]


def model_state(context: Context) -> ModelState:
    """The state of a team's models now.

    Raises:
        Unavailable: Redis is away.
    """
    streams = [("XLEN", stream_of(shard, Family.SIGNALS)) for shard in context.layout.all]
    return ModelState(
        hosts=Encoders(context.database, context.layout).all(), waiting=sum(context.database.pipeline(streams))
    )
