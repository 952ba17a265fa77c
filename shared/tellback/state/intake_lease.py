"""The lease of a consumer on an intake stream, and what it reads under it. See docs/decisions/fences.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from tellback.errors import TellbackError
from tellback.names import Family
from tellback.state.intake_entry import IntakeEntry, RawEntry
from tellback.state.keys import Shard, stream_of
from tellback.state.script_calls import CommitParts


class Fenced(TellbackError):
    """The consumer's lease has expired or passed to another. Stop: the last script wrote nothing."""

    def __init__(self) -> None:
        super().__init__("the consumer's lease has passed on")


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to consume one stream. `fence` grows with each lease, and every commit checks it."""

    shard: Shard
    family: Family
    fence: int

    @property
    def stream(self) -> str:
        """The intake stream: KEYS[1] of a commit."""
        return stream_of(self.shard, self.family)

    @property
    def key(self) -> str:
        """The key of the lease itself."""
        return self.shard.key("lease", self.family)

    def commit_of(self, entries: Sequence[IntakeEntry]) -> CommitParts:
        """Return the key and arguments of every commit, for entries that it takes out of the stream."""
        ids = msgspec.json.encode([entry.id for entry in entries])
        return {"intake": self.stream, "fence": self.fence, "entries": ids}


class Taken(NamedTuple):
    """A stream that was leased: whether a dead consumer left entries, which come first, and new ones that were read."""

    lease: Lease
    pending: bool
    entries: list[RawEntry]


@dataclass(slots=True)
class Read:
    """New entries of several streams, by lease; leases that have passed on, and streams that were released.

    `notified` is the reply to XREAD with notifications that came meanwhile, for `Notifications.note_seen`.
    """

    entries: dict[Lease, list[RawEntry]] = field(default_factory=dict[Lease, list[RawEntry]])
    fenced: list[Lease] = field(default_factory=list[Lease])
    released: list[Lease] = field(default_factory=list[Lease])
    notified: Any = None


def committed(reply: Any) -> bool:
    """Return True if a commit took effect, False if its compare-and-set lost ('stale').

    Raises:
        Fenced: the lease has passed on.
    """
    if reply == b"fenced":
        raise Fenced
    return reply in (b"ok", b"released")
