"""A turn in Redis: where it is, what is stored of it as a typed view, and what scripts get of it and of its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

import msgspec

from tellback.contracts.turns import OutgoingResponse, RoutingOutcome, TurnState
from tellback.state.keys import Shard
from tellback.truncation import truncate_bytes


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


EXCERPT_BYTES: Final = 2048


class AnswerArgs(TypedDict):
    """The arguments of the scripts that apply an answer."""

    response: bytes
    code: str
    excerpt: str
    late_ms: int


@dataclass(frozen=True, slots=True)
class TurnAnswer:
    """A host's answer: the response, the `code` of a failure, and `excerpt`, the redacted text for the history.

    `late_ms` is how long after a fallback it is still sent. Without a response the turn stays owed.
    """

    response: OutgoingResponse | None
    late_ms: int
    code: str = ""
    excerpt: str = ""

    @property
    def args(self) -> AnswerArgs:
        """The arguments of the scripts that apply an answer."""
        response = b"" if self.response is None else msgspec.json.encode(self.response)
        return {"response": response, "code": self.code, "excerpt": excerpt(self.excerpt), "late_ms": self.late_ms}


class RoutingReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a pipeline, for the history: its outcome, what failed, and why the response is no answer."""

    outcome: RoutingOutcome
    code: str = ""
    errors: tuple[str, ...] = ()


class LostTurnArgs(TypedDict):
    """The arguments of the scripts that restore a turn; without an id there is nothing to restore."""

    lost_id: str
    lost_channel: str
    lost_conversation: str
    lost_session: str
    lost_message_id: str
    lost_language: str
    lost_opened_at: int
    lost_state: str
    lost_within_ms: int


@dataclass(frozen=True, slots=True)
class LostTurnOrigin:
    """The data from which a host can recreate a turn that Redis lost; `opened_at` is in milliseconds, server time.

    `within_ms` is the time to answer of a turn that is recreated without an answer.
    """

    message_id: str
    language: str
    opened_at: int
    auto: bool
    within_ms: int = 30_000

    def args(self, ref: TurnRef) -> LostTurnArgs:
        """Return the arguments of `lua/lib/restore.lua`."""
        return {
            "lost_id": ref.id,
            "lost_channel": ref.channel,
            "lost_conversation": ref.conversation,
            "lost_session": ref.session,
            "lost_message_id": self.message_id,
            "lost_language": self.language,
            "lost_opened_at": self.opened_at,
            "lost_state": "auto" if self.auto else "open",
            "lost_within_ms": self.within_ms,
        }


def origin_args(ref: TurnRef, origin: LostTurnOrigin | None) -> LostTurnArgs:
    """Return the arguments for an origin; without one, those that restore nothing."""
    if origin is not None:
        return origin.args(ref)
    nothing = LostTurnOrigin(message_id="", language="", opened_at=0, auto=False)
    return nothing.args(TurnRef(id="", channel="", conversation="", session=""))


def excerpt(text: str, limit: int = EXCERPT_BYTES) -> str:
    """Truncate `text` to `limit` bytes of UTF-8, at a whole character."""
    return truncate_bytes(text, limit, "…")
