"""Messages and values of the turns loop: the input of a turn's pipeline, answers, and the outcomes of sending.

Requirements T-4, T-9, T-13, T-36 and T-44.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, cast

import msgspec
from msgspec import Meta

from tellback.contracts.limits import (
    MAX_ATTACHMENT_BYTES,
    MAX_ATTACHMENTS,
    MAX_CODE_CHARS,
    MAX_ERROR_CHARS,
    MAX_FAILURES,
    MAX_FIELD_BYTES,
    MAX_KIND_CHARS,
    MAX_MESSAGES,
    MAX_REFERENCE_BYTES,
)
from tellback.contracts.message import Message
from tellback.errors import InvalidInput
from tellback.names import Family, turn_routing

AUTO_MODE: Final = "auto.mode"

VOICE: Final = "voice"

LoopLimit = Literal["tool_calls", "llm_calls", "time", "tokens"]
"""The limit that stopped a host's tool loop before it had an answer."""


Reference = Annotated[str, Meta(max_length=MAX_REFERENCE_BYTES)]
"""An id or a name of a host's; the client counts its bytes."""


class LlmResponse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The response of a model. A `text` that begins with 🔊 asks to be spoken; `voice` has other words to speak.

    `tool_calls` counts the calls that the model still requests, `limit` names the limit that stopped the tool loop, and
    `finish_reason` is the provider's own term.
    """

    text: Annotated[str, Meta(max_length=MAX_FIELD_BYTES)] | None = None
    voice: Annotated[str, Meta(max_length=MAX_FIELD_BYTES)] | None = None
    attachments: Annotated[tuple[str, ...], Meta(max_length=MAX_ATTACHMENTS)] = ()
    tool_calls: Annotated[int, Meta(ge=0)] = 0
    limit: LoopLimit | None = None
    finish_reason: Annotated[str, Meta(max_length=MAX_KIND_CHARS)] = ""

    @property
    def is_blank(self) -> bool:
        """True if there is nothing to read, hear or open."""
        return not ((self.text or "").strip() or (self.voice or "").strip() or self.attachments)


class LlmError(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reason why there is no answer. It overrides a response, even if it is empty. Never shown to a user."""

    code: Annotated[str, Meta(max_length=MAX_CODE_CHARS)] = ""
    message: Annotated[str, Meta(max_length=MAX_ERROR_CHARS)] = ""


class SystemFailure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A system that failed: its name, the error's type, one redacted line of its message. Never shown to a user."""

    system: Annotated[str, Meta(max_length=MAX_CODE_CHARS)]
    error: Annotated[str, Meta(max_length=MAX_CODE_CHARS)] = ""
    message: Annotated[str, Meta(max_length=MAX_ERROR_CHARS)] = ""


class TurnMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message of the conversation without its text: the speaker's role and the metadata.

    `metadata["auto.mode"]` of exactly true means that nobody waits for an answer; `metadata["voice"]` means that the
    message was spoken.
    """

    role: Annotated[str, Meta(max_length=MAX_KIND_CHARS)] = "user"
    metadata: dict[str, Any] = {}


HostMessage = TurnMessage | Mapping[str, Any]
"""A `TurnMessage`, or a host's own message: a mapping with `role` and perhaps `metadata`."""


def metadata_of(message: HostMessage) -> Mapping[str, Any]:
    """Return a message's metadata; empty if it has none, if that is not a mapping, or if it is not a message."""
    found: Any = message.metadata if isinstance(message, TurnMessage) else _field_of(message, "metadata")
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def role_of(message: HostMessage) -> str:
    """Return the speaker's role; empty if the message has none, or is not a message."""
    found: Any = message.role if isinstance(message, TurnMessage) else _field_of(message, "role")
    return found if isinstance(found, str) else ""


def _field_of(message: object, name: str) -> Any:
    """Return a field of a host's own message, which may be any object."""
    return cast("Mapping[str, Any]", message).get(name) if isinstance(message, Mapping) else None


MAX_LATE: Final = 604_800  # seconds: as long as a turn is kept

TurnState = Literal["open", "finishing", "auto", "responded", "fallback", "no_reply", "merged"]
"""`auto` is the turn of an auto-mode message: nobody waits for it, but it can still be answered or closed.
`merged` is a turn that another one covers: that one's answer is the answer to both."""

AnswerResult = Literal["accepted", "replaced", "late", "stale", "duplicate", "closed", "merged", "spooled"]
"""The result of an answer.

accepted: the turn's first answer. replaced: it replaced a fallback that no transport had claimed yet.
late: the fallback was sent already; the answer follows it. stale: the fallback was sent too long ago for a late answer;
only the history has it. duplicate: the turn has its answer already; no effect.
closed: the turn ended without a reply, by no_reply or by the failure of an auto-mode turn.
merged: another turn covers this one and owes the answer; no effect.
spooled: Redis is unavailable; the workers will apply the answer later.
"""

DeliveryKind = Literal["answer", "fallback", "late"]

Settlement = Literal["delivered", "retry", "ambiguous", "dead"]
"""The consequence of a transport's outcome for the outbox."""


class OutgoingResponse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A response for a transport to send: text, voice (the words to speak), attachments (references, never bytes).

    `reply_to` is the platform's id of the message to reply to. A late answer always has one: the user's message, unless
    the host gave another.
    """

    text: str | None = None
    voice: str | None = None
    attachments: tuple[str, ...] = ()
    reply_to: str | None = None

    @classmethod
    def text_only(cls, text: str) -> OutgoingResponse:
        """Return a response of plain text."""
        return cls(text=text)

    @property
    def is_blank(self) -> bool:
        """True if a user would see and hear nothing."""
        return not ((self.text or "").strip() or (self.voice or "").strip() or self.attachments)

    def check(self) -> None:
        """Check the limits of the outbox.

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
    """A transport's report on one delivery. Delivered means that text, voice or at least one attachment was sent.

    `attempted` is False if the platform accepted nothing but may later: it is down, not connected, or asks to wait.
    `ambiguous` means that the request went out and no reply came, so the user may or may not have the message.
    `permanent` means that no further attempt can succeed: the user blocked the bot, or the conversation is gone.
    `queued` means that nothing was sent yet: an outbox has the response. `retry_after` is the platform's time to wait
    in seconds; no attempt is made earlier.
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
        """True if anything reached the user."""
        return self.sent_text or self.sent_voice or self.sent_attachments > 0

    @property
    def settlement(self) -> Settlement:
        """The consequence: anything sent is delivered, or permanent is dead, or ambiguous, or retry."""
        # Partly sent counts as delivered: a retry would send the user the same text again.
        if self.delivered:
            return "delivered"
        if self.permanent:
            return "dead"
        return "ambiguous" if self.attempted and self.ambiguous else "retry"


class TurnOrigin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A host's knowledge of a turn, from which workers can recreate and answer a turn that Redis has lost.

    `opened_at` is in milliseconds since the epoch, server time. `auto` marks an auto-mode message.
    """

    message_id: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_REFERENCE_BYTES)]
    session: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_REFERENCE_BYTES)]
    opened_at: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
    language: Annotated[str, msgspec.Meta(max_length=MAX_REFERENCE_BYTES)] = ""
    auto: bool = False


class TurnFinished(Message, frozen=True, kw_only=True):
    """A host has an answer, or knows that there will be none, or leaves it to the pipeline to make one.

    Set `response` or `error_code`, or both: then the response tells the user about the failure. Or set neither, and
    give the pipeline `llm_response`, `llm_error`, `final_answer_ready` or `system_errors`. `messages` is the tail of
    the conversation. `late_within` is the time in seconds after a fallback in which the answer is still sent; None uses
    the workers' setting. Without an `origin`, an answer to a turn that Redis has lost becomes a dead letter.
    """

    family: ClassVar[Family] = Family.TURNS

    turn: Reference
    channel: Reference
    conversation: Reference
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
        """Refuse an event with no answer, or with two kinds of answer."""
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
