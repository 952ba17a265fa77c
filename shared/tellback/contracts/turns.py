"""The turns loop: what a user is owed, what is sent, and what became of it.

Source: feedback-guarantee.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

import msgspec

from tellback.contracts.llm import MAX_FAILURES, LlmError, LlmResponse, SystemFailure, TurnMessage
from tellback.contracts.message import MAX_FIELD_BYTES, Message
from tellback.errors import InvalidInput
from tellback.names import Family, turn_routing

MAX_ATTACHMENTS: Final = 32
MAX_ATTACHMENT_BYTES: Final = 2048
MAX_REFERENCE_BYTES: Final = 512
MAX_MESSAGES: Final = 8
MAX_LATE: Final = 604_800  # seconds: as long as a turn is kept

TurnState = Literal["open", "finishing", "auto", "responded", "fallback", "no_reply", "merged"]
"""`auto` is a turn of an auto-mode message: nobody waits for it, and it may be answered or closed all the same.
`merged` is a turn that another one covers: what the user gets there is the answer to both."""

Answered = Literal["accepted", "replaced", "late", "stale", "duplicate", "closed", "merged", "spooled"]
"""What became of an answer.

accepted: the turn's first answer. replaced: it took the place of a fallback that no transport had taken yet.
late: the fallback was out; the answer follows it. stale: the fallback has been out for longer than late answers are
sent; only the history has it. duplicate: the turn has its answer; no effect.
closed: the turn ends without a reply, as no_reply or the failure of an auto-mode turn said.
merged: the turn is covered by another one, which owes the answer; no effect.
spooled: Redis is away; the workers will apply it.
"""

DeliveryKind = Literal["answer", "fallback", "late"]

Settlement = Literal["delivered", "retry", "ambiguous", "dead"]
"""What a transport's outcome means for the outbox."""


class OutgoingResponse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a transport sends: text, voice (the words to speak), attachments (references, never bytes).

    `reply_to` is the platform's id of the message that this is shown as a reply to. A late answer always has one: that
    of the user's message, where the host gave none.
    """

    text: str | None = None
    voice: str | None = None
    attachments: tuple[str, ...] = ()
    reply_to: str | None = None

    @classmethod
    def text_only(cls, text: str) -> OutgoingResponse:
        """A response of plain text."""
        return cls(text=text)

    @property
    def blank(self) -> bool:
        """Whether a user would see and hear nothing."""
        return not ((self.text or "").strip() or (self.voice or "").strip() or self.attachments)

    def check(self) -> None:
        """Refuse what an outbox cannot hold.

        Raises:
            InvalidInput: text or voice above 64 KB as UTF-8, more than 32 attachments, one above 2 KB, a `reply_to`
                that is empty or above 512 bytes.
        """
        for name, value in (("text", self.text), ("voice", self.voice)):
            if value is not None and _bytes(f"response.{name}", value) > MAX_FIELD_BYTES:
                raise InvalidInput(f"response.{name}: at most {MAX_FIELD_BYTES} bytes as UTF-8")
        if len(self.attachments) > MAX_ATTACHMENTS:
            raise InvalidInput(f"response.attachments: at most {MAX_ATTACHMENTS}")
        for index, reference in enumerate(self.attachments):
            name = f"response.attachments[{index}]"
            if not 0 < _bytes(name, reference) <= MAX_ATTACHMENT_BYTES:
                raise InvalidInput(f"{name}: a reference of 1 to {MAX_ATTACHMENT_BYTES} bytes")
        if self.reply_to is not None and not 0 < _bytes("response.reply_to", self.reply_to) <= MAX_REFERENCE_BYTES:
            raise InvalidInput(f"response.reply_to: a message's id of 1 to {MAX_REFERENCE_BYTES} bytes")


class RoutingOutcome(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a transport says of one delivery. Delivered means text, or voice, or at least one attachment was sent.

    `attempted` is False where the platform took nothing and may later: it is down, not connected, or says to wait.
    `ambiguous` says that the request went out and no reply came, so that nobody knows whether the user has the message.
    `permanent` says that no further attempt can succeed: the user has blocked the bot, the conversation is gone.
    `queued` says that nothing was sent yet: an outbox has the response. `retry_after` is in seconds, where the platform
    says when to try again; nothing is tried earlier.
    """

    attempted: bool
    sent_text: bool = False
    sent_voice: bool = False
    sent_attachments: int = 0
    error: str | None = None
    ambiguous: bool = False
    permanent: bool = False
    queued: bool = False
    retry_after: Annotated[float, msgspec.Meta(ge=0)] | None = None

    @property
    def delivered(self) -> bool:
        """Whether anything reached the user."""
        return self.attempted and (self.sent_text or self.sent_voice or self.sent_attachments > 0)

    @property
    def settlement(self) -> Settlement:
        """What follows: anything sent is delivered, else permanent is dead, else ambiguous, else it is tried again."""
        if self.delivered:
            return "delivered"
        if self.permanent:
            return "dead"
        return "ambiguous" if self.attempted and self.ambiguous else "retry"


class TurnOrigin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a host knows of a turn besides its place, so that one that Redis has lost can be made again and answered.

    `opened_at` is in milliseconds since the epoch, as the server said it. `auto`: the message was of auto mode.
    """

    message_id: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_REFERENCE_BYTES)]
    session: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_REFERENCE_BYTES)]
    opened_at: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
    language: Annotated[str, msgspec.Meta(max_length=MAX_REFERENCE_BYTES)] = ""
    auto: bool = False


class TurnFinished(Message, frozen=True, kw_only=True):
    """A host has an answer, or knows that there will be none, or leaves it to the pipeline to make one.

    One of `response` and `error_code` is set; or both, and then the response is what the user is told of a failure; or
    neither, and then one of those that the pipeline begins with: `llm_response`, `llm_error`, `final_answer_ready`,
    `system_errors`. `messages` is the tail of the conversation.
    `late_within`: seconds after a fallback in which the answer is still sent; None: as the workers are set. Without an
    `origin` an answer to a turn that Redis has lost goes to the dead letters.
    """

    family: ClassVar[Family] = Family.TURNS

    turn: str
    channel: str
    conversation: str
    response: OutgoingResponse | None = None
    error_code: str | None = None
    late_within: Annotated[float, msgspec.Meta(ge=0, le=MAX_LATE)] | None = None
    llm_response: LlmResponse | None = None
    llm_error: LlmError | None = None
    final_answer_ready: bool = False
    system_errors: Annotated[tuple[SystemFailure, ...], msgspec.Meta(max_length=MAX_FAILURES)] = ()
    messages: Annotated[tuple[TurnMessage, ...], msgspec.Meta(max_length=MAX_MESSAGES)] = ()
    origin: TurnOrigin | None = None

    def __post_init__(self) -> None:
        """Refuse a fact that says nothing, or two things at once."""
        made = self.llm_response is not None or self.llm_error is not None or self.final_answer_ready
        given = self.response is not None or self.error_code is not None
        if (given and made) or not (given or made or self.system_errors):
            raise InvalidInput(
                "response or error_code must be set, or, without them, what the pipeline makes an answer of: "
                "llm_response, llm_error, final_answer_ready or system_errors"
            )

    @property
    def routing(self) -> str:
        """The channel and the conversation."""
        return turn_routing(self.channel, self.conversation)


def _bytes(name: str, text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{name}: not valid Unicode text ({error.reason})") from error
