"""The location of a turn in Redis, and its stored fields as a typed view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import msgspec

from tellback.contracts.turns import TurnState
from tellback.state.keys import Shard


class TurnKeys(TypedDict):
    """The keys of every script on one turn."""

    turn: str
    out: str
    queue: str
    hist: str


@dataclass(frozen=True, slots=True)
class TurnRef:
    """The location of a turn: everything that its scripts need to build their keys."""

    id: str
    channel: str
    conversation: str
    session: str

    def keys(self, shard: Shard) -> TurnKeys:
        """Return the turn's keys."""
        return {
            "turn": shard.key("turn", self.id),
            "out": shard.key("out", self.channel),
            "queue": shard.key("outq", self.channel, self.conversation),
            "hist": shard.key("hist", self.session),
        }


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as stored. Times are milliseconds since the epoch, server time.

    `delivery` is the state of the first answer: waiting, sending (taken, or unknown), delivered, ambiguous, dead, or
    dropped because the outbox of its conversation was full. A late answer is also dropped if it was stale. `host` owes
    the answer. `covers` counts the turns merged into this one. `trace` is the trace context of its opening.
    """

    id: str
    state: TurnState
    channel: str
    conversation: str
    message_id: str
    session: str
    language: str = ""
    text: str = ""
    opened_at: int
    deadline: int | None = None
    closed_at: int | None = None
    delivery: str | None = None
    outcome: str | None = None
    late_at: int | None = None
    late_delivery: str | None = None
    late_outcome: str | None = None
    host: str = ""
    handed_at: int | None = None
    deferred_at: int | None = None
    merged_into: str | None = None
    covers: int = 0
    trace: str = ""

    @property
    def ref(self) -> TurnRef:
        """The location of this turn."""
        return TurnRef(self.id, self.channel, self.conversation, self.session)

    @property
    def is_open(self) -> bool:
        """True while the user waits for a first answer."""
        return self.state in {"open", "finishing"}


def view_of(names: Sequence[str], stored: tuple[Sequence[bytes | None], int]) -> TurnView | None:
    """Build the view from stored values, and convert its deadline from steady time to the server's clock."""
    # People compare a deadline with `opened_at`, a stamp of the server's clock; see lua/lib/steady.lua.
    values, ahead = stored
    fields = {name: value.decode() for name, value in zip(names, values, strict=True) if value is not None}
    if "deadline" in fields:
        fields["deadline"] = str(int(fields["deadline"]) + ahead)
    return msgspec.convert(fields, TurnView, strict=False) if fields else None
