"""Confirmation that replicas, or the disk, have a write, so that a failover or a power loss cannot take it away.

The write's own connection is not needed: a later write to the same server, whose reply shows that this server has the
first one, stands behind it in the replication stream, and WAIT counts the replicas that have read as far. If a failover
lost the first write, that reply tells; WAIT alone, on a new connection, would confirm what is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Self

from tellback.errors import Unavailable
from tellback.settings import Settings
from tellback.state.script_calls import Command
from tellback.state.unavailable import as_raised

NOT_CONFIRMED: Final = (
    "Redis has the write, but {wanted} did not confirm it in {seconds:g} s: a failover now could lose it. Try again; "
    "`TELLBACK_WAIT_REPLICAS` and `TELLBACK_WAIT_AOF` ask for this"
)

NO_DISK: Final = (
    "Redis has the write, but cannot confirm that it is on disk ({error}): turn on its append-only file, use Redis 7.2 "
    "or newer, or leave out TELLBACK_WAIT_AOF"
)


class Confirmation(NamedTuple):
    """The number of replicas that must have a write, whether on disk too, and how long to wait for them."""

    replicas: int
    aof: bool
    seconds: float

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """Return what the settings ask for; None by default."""
        wanted = settings.wait_replicas or settings.wait_aof
        return cls(settings.wait_replicas, settings.wait_aof, settings.wait_timeout) if wanted else None

    def commands(self, writes: Sequence[Command]) -> list[Command]:
        """Return the writes, each with the command that waits for its replicas."""
        ms = max(1, round(1000 * self.seconds / max(1, len(writes))))
        wait: Command = ("WAITAOF", 1, self.replicas, ms) if self.aof else ("WAIT", self.replicas, ms)
        return [part for write in writes for part in (write, wait)]

    def check(self, replies: Sequence[Any], url: str) -> None:
        """Check the replies of `commands`, errors among them, of the Redis at this URL.

        Raises:
            Unavailable: a write was refused, or not confirmed in time, or cannot be confirmed from disk.
        """
        for reply in replies:
            if isinstance(reply, Exception):
                if self.aof and "WAITAOF" in str(reply):  # before Redis 7.2, or without an append-only file
                    raise Unavailable(NO_DISK.format(error=str(reply).partition(", with args")[0].rstrip(".")))
                raise as_raised(reply, url)
        if not all(map(self._is_met, replies[1::2])):
            raise Unavailable(self.failure)

    def _is_met(self, reply: Any) -> bool:
        local, replicas = reply if self.aof else (1, reply)
        return int(local) >= 1 and int(replicas) >= self.replicas

    @property
    def failure(self) -> str:
        """The message for a write that was not confirmed."""
        named = "its disk" if not self.replicas else f"{self.replicas} replica{'s' if self.replicas > 1 else ''}"
        return NOT_CONFIRMED.format(wanted=named, seconds=self.seconds)
