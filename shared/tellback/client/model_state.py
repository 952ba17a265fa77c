"""Whether signals can be applied: which worker hosts' model fails, and how many batches wait."""

from __future__ import annotations

from typing import Final

import msgspec

from tellback.client.context import Context
from tellback.names import Family
from tellback.state.encoders import Encoders, EncoderState
from tellback.state.keys import stream_of

RECENT_MS: Final = 300_000
"""Who has signals and cannot apply them says so twice a minute: what was said longer ago is of the past."""


class ModelState(msgspec.Struct, frozen=True, kw_only=True):
    """What worker hosts said of their embedding models within a day, and the batches that no worker has applied.

    `at` is when that was asked, milliseconds since the epoch, server time.
    """

    hosts: list[EncoderState]
    waiting: int
    at: int

    @property
    def trouble(self) -> list[str]:
        """A line for each model that fails, and for each that a bank lacks while batches wait."""
        lately = [host for host in self.hosts if self.at - host.at < RECENT_MS]
        failed = [
            f"the embedding model of {host.host} fails ({host.reason}); {self.waiting} batches of signals wait, and "
            "none is lost: see `tellback doctor`"
            for host in lately
            if host.state == "failed"
        ]
        refused = [
            f"{self.waiting} batches of signals wait, some of them for a worker with another model than that of "
            f"{host.host}: {host.refuses}"
            for host in lately
            if host.refuses and self.waiting
        ]
        return [*failed, *refused]


def model_state(context: Context) -> ModelState:
    """The state of a team's models now.

    Raises:
        Unavailable: Redis is away.
    """
    streams = [("XLEN", stream_of(shard, Family.SIGNALS)) for shard in context.layout.all]
    return ModelState(
        hosts=Encoders(context.database, context.layout).all(),
        waiting=sum(context.database.pipeline(streams)),
        at=context.database.now_ms(),
    )
