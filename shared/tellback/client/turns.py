"""Turns as an agent host sees them.

Source: feedback-guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tellback.client.context import Context
from tellback.client.turn_checks import (
    check_code,
    check_language,
    check_metadata,
    check_name,
    check_response,
    check_seconds,
    check_text,
    milliseconds,
)
from tellback.contracts.message import MAX_FIELD_BYTES, new_event_id
from tellback.contracts.turns import Answered, OutgoingResponse, TurnFinished, TurnState
from tellback.errors import InvalidInput, NotFound, StateConflict, Unavailable
from tellback.redaction import redact_text
from tellback.state.turns import NewTurn, TurnRef, Turns, excerpt, turn_id
from tellback.turns.text import feedback_text

AUTO_MODE: Final = "auto.mode"


@dataclass(frozen=True, slots=True)
class Turn:
    """What one user message is owed: exactly one first answer.

    `duplicate` tells that this message had been opened before; the turn is the one that was opened then.
    """

    id: str
    channel: str
    conversation: str
    session: str
    language: str | None
    duplicate: bool
    _context: Context = field(repr=False, compare=False)

    @property
    def state(self) -> TurnState:
        """The state at this moment: open, finishing, auto, responded, fallback, or no_reply.

        Raises:
            NotFound: turns are kept for seven days.
            Unavailable: Redis is away.
        """
        found = self._turns.load([self.id])[0]
        if found is None:
            raise NotFound(f"turn {self.id}: no such turn; turns are kept for seven days")
        return found.state

    def respond(self, response: OutgoingResponse) -> Answered:
        """Give the answer. While Redis is away it is kept on this host's disk and applied later: `spooled`.

        Raises:
            InvalidInput: not an `OutgoingResponse`, a blank one, or one above the limits of the outbox.
            NotFound: turns are kept for seven days.
            SpoolFull: Redis is away and so is the room on disk.
        """
        response = check_response(response)
        shown = redact_text(response.text or response.voice or "")
        try:
            return self._turns.answer(self.ref, response, shown=shown)
        except Unavailable:
            return self._spool(response=response)

    def fail(self, *, code: str) -> Answered:
        """Say that there will be no answer: the user gets the generic feedback, in the turn's language.

        `code` is for operators and never reaches the user. Raises as `respond`.
        """
        code = check_code(code)
        response = OutgoingResponse.text_only(feedback_text(self.language, self._context.settings.fallback_language))
        try:
            return self._turns.answer(self.ref, response, code=code, shown=response.text or "")
        except Unavailable:
            return self._spool(error_code=code)

    def finish(self, response: OutgoingResponse | None = None, *, error_code: str | None = None) -> None:
        """Leave the answer, or the failure, to the workers: marked as on its way, then published like any fact.

        For the grace of `finish_grace` seconds no fallback overtakes it; after that the sweep answers if it was lost.

        Raises:
            InvalidInput: not exactly one of the two, or as `respond` and `fail`.
            NotFound: turns are kept for seven days.
            SpoolFull: Redis is away and so is the room on disk.
        """
        if (response is None) == (error_code is None):
            raise InvalidInput("finish: give exactly one of response and error_code")
        if response is not None:
            response = check_response(response)
        code = None if error_code is None else check_code(error_code)
        try:
            self._turns.mark_finishing(self.ref, milliseconds(self._context.settings.finish_grace))
        except Unavailable:
            self._spool(response=response, error_code=code)
        else:
            self._context.publisher.publish(self._fact(response, code))

    def progress(self) -> float:
        """Tell that work goes on: the user may wait `answer_within` again, up to `turn_limit` from the opening.

        Returns the seconds left; 0.0 where the turn is no longer open.

        Raises:
            NotFound: turns are kept for seven days.
            Unavailable: Redis is away; the deadline stands.
        """
        return self._turns.progress(self.ref) / 1000

    def no_reply(self, *, reason: str) -> None:
        """Close the turn without a reply, on purpose; `reason` is kept for operators.

        Raises:
            InvalidInput: no reason.
            NotFound: turns are kept for seven days.
            StateConflict: the user has an answer or a fallback already.
            Unavailable: Redis is away; the turn stays open.
        """
        closed, state = self._turns.close(self.ref, redact_text(check_text("reason", reason, MAX_FIELD_BYTES)))
        if not closed:
            raise StateConflict(f"turn {self.id} is {state}: it cannot be closed without a reply any more")

    @property
    def _turns(self) -> Turns:
        return Turns(self._context.database, self._context.layout)

    @property
    def ref(self) -> TurnRef:
        """Where the turn stands."""
        return TurnRef(self.id, self.channel, self.conversation, self.session)

    def _fact(self, response: OutgoingResponse | None, error_code: str | None) -> TurnFinished:
        return TurnFinished(
            event_id=new_event_id(),
            turn=self.id,
            channel=self.channel,
            conversation=self.conversation,
            response=response,
            error_code=error_code,
        )

    def _spool(self, response: OutgoingResponse | None = None, error_code: str | None = None) -> Literal["spooled"]:
        self._context.publisher.publish(self._fact(response, error_code))
        self._context.publisher.flush()  # on disk before the caller goes on: an answer must not die with the host
        return "spooled"


def open_turn(
    context: Context,
    *,
    channel: str,
    conversation: str,
    message_id: str,
    text: str,
    language: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    answer_within: float = 30.0,
    session: str | None = None,
) -> Turn:
    """Open the turn of a user's message, or find the one that this message opened before.

    A message id counts within its channel and conversation. `metadata["auto.mode"]` that is True, exactly, creates no
    obligation. `session` is where the history goes: else `metadata["session"]`, else the conversation.

    Raises:
        InvalidInput: an argument is wrong; the message names it.
        Unavailable: Redis is away: do not acknowledge the message to its platform.
    """
    metadata = check_metadata(metadata)
    for name, value in (("channel", channel), ("conversation", conversation), ("message_id", message_id)):
        check_name(name, value)
    session = check_name("session", metadata.get("session", conversation) if session is None else session)
    turn = turn_id(context.layout, channel, conversation, message_id)
    opened = Turns(context.database, context.layout).open(
        NewTurn(
            ref=TurnRef(turn, channel, conversation, session),
            message_id=message_id,
            text=excerpt(redact_text(check_text("text", text, None)), MAX_FIELD_BYTES),
            language=check_language(language),
            within_ms=milliseconds(check_seconds(answer_within, context.settings.turn_limit)),
            limit_ms=milliseconds(context.settings.turn_limit),
            auto=metadata.get(AUTO_MODE) is True,
        )
    )
    return Turn(turn, channel, conversation, opened.session, opened.language or None, not opened.new, context)
