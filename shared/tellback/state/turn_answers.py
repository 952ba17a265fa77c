"""A host's answer to a turn, and the origin of a turn that Redis lost, in the form that the scripts expect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypedDict

import msgspec

from tellback.contracts.turns import OutgoingResponse, RoutingOutcome
from tellback.state.turn_view import TurnRef
from tellback.truncation import truncate_bytes

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
