"""Turns as an agent host sees them.

Source: feedback-guarantee.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tellback.client.context import Context
from tellback.client.turn_checks import (
    MAX_NAME_BYTES,
    check_code,
    check_flag,
    check_language,
    check_late,
    check_metadata,
    check_name,
    check_response,
    check_seconds,
    check_text,
    milliseconds,
)
from tellback.client.turn_results import Said, check_failures, check_llm_error, check_llm_response, check_messages
from tellback.client.turn_running import pipeline_of, run_turn
from tellback.contracts.llm import AUTO_MODE, MAX_CODE, AnyMessage, LlmError, LlmResponse, SystemFailure
from tellback.contracts.message import MAX_FIELD_BYTES
from tellback.contracts.turns import Answered, OutgoingResponse, TurnState
from tellback.errors import InvalidInput, NotFound, StateConflict, Unavailable
from tellback.names import Family
from tellback.redaction import redact_text
from tellback.state.turn_answers import Answer, excerpt
from tellback.state.turns import NewTurn, Origin, TurnRef, Turns, turn_id
from tellback.turns.pipeline.context import TurnAbout, TurnContext
from tellback.turns.pipeline.failures import note
from tellback.turns.pipeline.runner import TurnPipeline


@dataclass(frozen=True, slots=True)
class Turn:
    """What one user message is owed: exactly one first answer.

    `duplicate` tells that this message had been opened before, here or elsewhere; the turn is the one that was opened
    then. Any process of any host that has the turn may answer it: the first answer counts.
    """

    id: str
    channel: str
    conversation: str
    message_id: str
    session: str
    language: str | None
    duplicate: bool
    _opened_at: int = field(repr=False, compare=False)
    _auto: bool = field(repr=False, compare=False)
    _context: Context = field(repr=False, compare=False)

    @property
    def state(self) -> TurnState:
        """The state at this moment: open, finishing, auto, responded, fallback, no_reply, or merged.

        Raises:
            NotFound: turns are kept for seven days.
            Unavailable: Redis is away.
        """
        found = self._turns.load([self.id])[0]
        if found is None:
            raise NotFound(f"turn {self.id}: no such turn; turns are kept for seven days")
        return found.state

    def respond(self, response: OutgoingResponse, *, late_within: float | None = None) -> Answered:
        """Give the answer. While Redis is away it is kept on this host's disk and applied later: `spooled`.

        Where the user has had a fallback, the answer follows it, if that was at most `late_within` seconds ago (None:
        as `late_within` of the settings says, or `channel_late_within`). A turn that Redis lost in a failover is made
        again, and answered.

        Raises:
            InvalidInput: not an `OutgoingResponse`, a blank one, or one above the limits of the outbox.
            NotFound: turns are kept for seven days.
            SpoolFull: Redis is away and so is the room on disk.
        """
        response, late = check_response(response), check_late(late_within)
        shown = redact_text(response.text or response.voice or "")
        try:
            return self._answer(Answer(response, self._late_ms(late), shown=shown))
        except Unavailable:
            return self._spool(Said(response=response, late_within=late))

    def fail(self, *, code: str) -> Answered:
        """Say that there will be no answer: the user gets the generic feedback, in the turn's language.

        `code` is for operators and never reaches the user. Raises as `respond`.
        """
        code = check_code(code)
        return self._fail(OutgoingResponse.text_only(self._feedback()), code, Said(error_code=code))

    def finish(
        self,
        response: OutgoingResponse | None = None,
        *,
        error_code: str | None = None,
        late_within: float | None = None,
        llm_response: LlmResponse | None = None,
        llm_error: LlmError | None = None,
        final_answer_ready: bool = False,
        system_errors: Iterable[SystemFailure] = (),
        messages: Sequence[AnyMessage] = (),
    ) -> None:
        """Leave the answer, or the failure, to the workers: marked as on its way, then published like any fact.

        The model's response or error goes through the workers' pipeline, which makes an answer of it. An error wins,
        even one that says nothing. `messages` is the conversation, or its tail: who spoke last, and its metadata, are
        sent; no texts are.

        For the grace of `finish_grace` seconds no fallback overtakes it; after that the sweep answers if it was lost. A
        turn that Redis lost in a failover is made again.

        Raises:
            InvalidInput: not exactly one of response, error code, and the model's result; or as `respond` and `fail`.
            NotFound: turns are kept for seven days.
            SpoolFull: Redis is away and so is the room on disk.
        """
        if response is not None and error_code is not None:
            raise InvalidInput("response, error_code: exactly one of them; fail(code=...) chooses the words itself")
        said = Said(
            response=None if response is None else check_response(response),
            error_code=None if error_code is None else check_code(error_code),
            late_within=check_late(late_within),
            llm_response=None if llm_response is None else check_llm_response(llm_response),
            llm_error=None if llm_error is None else check_llm_error(llm_error),
            final_answer_ready=check_flag("final_answer_ready", final_answer_ready),
            system_errors=check_failures(system_errors),
            messages=check_messages(messages),
        )
        fact = said.fact(self.ref, self._origin)
        try:
            self._turns.mark_finishing(self.ref, self._origin.within_ms, self._origin)
        except Unavailable:
            self._spool(said)
        else:
            self._context.publisher.publish(fact)

    def run(self, context: TurnContext, *, pipeline: TurnPipeline | None = None) -> TurnContext:
        """Run the pipeline here, and put what it prepares into the outbox; the same context comes back.

        `pipeline` holds systems of yours; without one it is ours, as the settings say. Its `routing_outcome` is always
        set: `queued`, or what kept the response from the outbox. While Redis is away it is spooled, as `respond` does.

        Raises:
            ConfigurationError: a catalog or a language of the settings is not as it should be.
            InvalidInput: not a `TurnContext`.
        """
        about = TurnAbout(self.id, self.channel, self.conversation, self.language)
        return run_turn(pipeline or pipeline_of(self._context.settings), context, about, self._routed)

    def progress(self) -> float:
        """Tell that work goes on: the user may wait `answer_within` again, up to `turn_limit` from the opening.

        Returns the seconds left; 0.0 where the turn is no longer open.

        Raises:
            NotFound: turns are kept for seven days.
            Unavailable: Redis is away; the deadline stands.
        """
        return self._turns.progress(self.ref) / 1000

    def defer(self, *, seconds: float = 60.0) -> float:
        """Put the work off: the user is owed an answer `seconds` from now, at most `turn_limit` after the opening.

        The new deadline may be sooner or later than the old one. Nothing is said to the user; once the deadline has
        passed, the sweep answers. Returns the seconds left; 0.0 where the turn is no longer open.

        Raises:
            InvalidInput: not seconds above 0 and up to `turn_limit`.
            NotFound: turns are kept for seven days.
            Unavailable: Redis is away; whether the new deadline holds is unknown.
        """
        seconds = check_seconds("seconds", seconds, self._context.settings.turn_limit)
        return self._turns.defer(self.ref, milliseconds(seconds)) / 1000

    def hand_over(self, *, to: str) -> None:
        """Give the turn to another host, which finds it by `Tellback.handed_over`; or in any way of yours, by its id.

        The user is owed the same by the same deadline, and the sweep answers if the other host does not. The first
        answer counts all the same: one that this host gives after all is accepted, if the other has not been faster.

        Raises:
            InvalidInput: `to` is not text of 1 to 512 bytes.
            NotFound: turns are kept for seven days.
            StateConflict: the turn is not open.
            Unavailable: Redis is away; whether the turn was handed over is unknown.
        """
        handed, state = self._turns.hand_over(self.ref, check_name("to", to))
        if not handed:
            raise StateConflict(f"turn {self.id} is {state}: only an open turn can be handed over")

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

    @property
    def _origin(self) -> Origin:
        grace = milliseconds(self._context.settings.finish_grace)
        return Origin(self.message_id, self.language or "", self._opened_at, self._auto, grace)

    def _answer(self, given: Answer) -> Answered:
        return self._turns.answer(self.ref, given, self._origin)

    def _feedback(self) -> str:
        return self._context.settings.words.feedback(self.language, self.channel)

    def _fail(self, response: OutgoingResponse, code: str, said: Said) -> Answered:
        try:
            return self._answer(Answer(response, 0, code=code, shown=redact_text(response.text or "")))
        except Unavailable:
            return self._spool(said)

    def _routed(self, response: OutgoingResponse, code: str) -> Answered:
        if not code:
            return self.respond(response)
        response, code = check_response(response), note(code, MAX_CODE) or "unknown"
        return self._fail(response, code, Said(response=response, error_code=code))

    def _late_ms(self, late_within: float | None) -> int:
        return round((self._context.settings.late_of(self.channel) if late_within is None else late_within) * 1000)

    def _spool(self, said: Said) -> Literal["spooled"]:
        self._context.publisher.publish(said.fact(self.ref, self._origin))
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
    context.publisher.recover(Family.TURNS)  # answers that this host gave before it died
    opened = Turns(context.database, context.layout).open(
        NewTurn(
            ref=TurnRef(turn, channel, conversation, session),
            message_id=message_id,
            text=excerpt(redact_text(check_text("text", text, None)), MAX_FIELD_BYTES),
            language=check_language(language),
            within_ms=milliseconds(check_seconds("answer_within", answer_within, context.settings.turn_limit)),
            limit_ms=milliseconds(context.settings.turn_limit),
            auto=metadata.get(AUTO_MODE) is True,
            host=excerpt(context.settings.host_name, MAX_NAME_BYTES),
        )
    )
    return Turn(
        id=turn,
        channel=channel,
        conversation=conversation,
        message_id=message_id,
        session=opened.session,
        language=opened.language or None,
        duplicate=not opened.new,
        _opened_at=opened.opened_at,
        _auto=opened.state == "auto",
        _context=context,
    )
