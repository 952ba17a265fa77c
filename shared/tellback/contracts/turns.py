"""The turns loop: what a user is owed, what is sent, and what became of it.

Source: feedback-guarantee.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from tellback.contracts.message import Message
from tellback.names import Family, turn_routing

TurnState = Literal["open", "finishing", "responded", "fallback", "no_reply", "merged"]


class OutgoingResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What a transport sends: text, voice (the words to speak), attachments (references, never bytes)."""

    text: str | None = None
    voice: str | None = None
    attachments: tuple[str, ...] = ()

    @classmethod
    def text_only(cls, text: str) -> OutgoingResponse:
        """A response of plain text."""
        return cls(text=text)


class RoutingOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a transport says of one delivery. Delivered means text, or voice, or at least one attachment was sent."""

    attempted: bool
    sent_text: bool = False
    sent_voice: bool = False
    sent_attachments: int = 0
    error: str | None = None

    @property
    def delivered(self) -> bool:
        """Whether anything reached the user."""
        return self.attempted and (self.sent_text or self.sent_voice or self.sent_attachments > 0)


class TurnFinished(Message, frozen=True, kw_only=True):
    """A host has an answer, or knows that there will be none: exactly one of `response` and `error_code` is set."""

    family: ClassVar[Family] = Family.TURNS

    turn: str
    channel: str
    conversation: str
    response: OutgoingResponse | None = None
    error_code: str | None = None

    @property
    def routing(self) -> str:
        """The channel and the conversation."""
        return turn_routing(self.channel, self.conversation)
