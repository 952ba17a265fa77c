"""Limits that an operator sets a team: scripts that let something in check them, so a host gets a clear error at once.

The limits of a team are divided evenly among its shards, and stand in each, because a script stays in one. A host that
writes keys of its team by itself passes them by, as it passes by the bounds of the streams. Requirement A-122.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tellback.errors import InvalidInput
from tellback.state.database import Database
from tellback.state.keys import Layout

SUSPENDED: Final = "the team is suspended: an operator resumes it by `tellback teams resume`"
TOO_MANY_OPEN: Final = (
    "{most} turns are open in this shard, as many as an operator allows the team: answer some, or raise the limit by "
    "`tellback teams limit`"
)
BURST_SECONDS: Final = 10
"""Seconds of the rate that a team may publish at once."""


class TeamLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one team; 0 is none."""

    events_per_second: float = 0
    """Events of all families that its hosts may publish. More are spooled on their disks."""
    intake_bytes: int = 0
    """Bytes that the streams of one family may hold; a host's own setting counts if it is lower."""
    open_turns: int = 0
    """Turns that may be open at once. More are refused."""
    suspended: bool = False
    """Nothing new is accepted; what is in is applied, and open turns get their answers."""

    def check(self) -> None:
        """Check the values.

        Raises:
            InvalidInput: one is negative.
        """
        for name in ("events_per_second", "intake_bytes", "open_turns"):
            if getattr(self, name) < 0:
                raise InvalidInput(f"{name} is {getattr(self, name):g}; use 0 for no limit, or more")


class LimitStore:
    """The limits of one team in Redis."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        self._layout = layout

    def read(self) -> TeamLimits:
        """Return the limits; a team without any has none."""
        raw = self._db.command("HGET", self._layout.shard(0).key("limits"), "team")
        return TeamLimits() if raw is None else msgspec.json.decode(raw, type=TeamLimits)

    def write(self, limits: TeamLimits) -> None:
        """Replace the limits; they hold from the next call of each host.

        Raises:
            InvalidInput: a value is negative.
        """
        limits.check()
        shards = self._layout.shards
        fields: dict[str, float | str | bytes] = {"team": msgspec.json.encode(limits)}
        if limits.suspended:
            fields["suspended"] = 1
        if limits.events_per_second:
            fields["rate"] = limits.events_per_second / shards
            # At least 1: a bucket that never holds a whole event would let none pass.
            fields["burst"] = max(1.0, BURST_SECONDS * limits.events_per_second / shards)
        if limits.intake_bytes:
            fields["bytes"] = max(1, limits.intake_bytes // shards)
        if limits.open_turns:
            fields["turns"] = -(-limits.open_turns // shards)
        flat = [part for field in fields.items() for part in field]
        for shard in self._layout.all:
            key = shard.key("limits")
            # unconditional: an operator's word; a shard that is missed has the old limits until the call is repeated
            self._db.pipeline([("DEL", key), ("HSET", key, *flat)])
