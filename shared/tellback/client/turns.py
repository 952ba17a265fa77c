"""Turns as a host uses them: open one, move its deadline, share it with other hosts, and end it.

Every call is one script that checks the state again, so any number of hosts may race for a turn and it still has one
first answer (requirement T-7). Only `respond`, `fail`, `run` and `finish` work while Redis is away: what they would
store is an event too, which is spooled. That event has the turn's origin, from which a turn that Redis lost in a
failover is restored (requirement T-16). The table "How to end a turn" in docs/loops/turns.md says which call to use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from tellback.client.client_context import ClientContext
from tellback.client.turn_checks import (
    TurnEnding,
    check_code,
    check_failures,
    check_flag,
    check_language,
    check_late_within,
    check_llm_error,
    check_llm_response,
    check_messages,
    check_metadata,
    check_name,
    check_response,
    check_seconds,
    check_text,
    default_pipeline,
    run_turn,
)
from tellback.contracts.limits import MAX_CODE_CHARS, MAX_FIELD_BYTES, MAX_REFERENCE_BYTES
from tellback.contracts.turns import (
    AUTO_MODE,
    AnswerResult,
    HostMessage,
    LlmError,
    LlmResponse,
    OutgoingResponse,
    SystemFailure,
    TurnState,
)
from tellback.errors import InvalidInput, StateConflict, Unavailable
from tellback.messaging.publisher import CLOSED
from tellback.redaction import redact_text
from tellback.state.script_calls import to_milliseconds
from tellback.state.turn_view import LostTurnOrigin, TurnAnswer, TurnRef, TurnView, excerpt
from tellback.state.turns import MAX_MERGED, NewTurn, Turns, turn_id
from tellback.tracing import turn_span
from tellback.turns.pipeline.checks import error_line
from tellback.turns.pipeline.context import TurnAbout, TurnContext
from tellback.turns.pipeline.runner import TurnPipeline


@dataclass(frozen=True, slots=True)
class Turn:
    """A user's message that is owed exactly one first answer (requirement T-7). Get one from `tb.open_turn(...)`.

    Any process of any host may answer it; the first answer counts. `duplicate` is True if the message's turn had been
    opened before, here or on another host, and this is that turn.
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
    _context: ClientContext = field(repr=False, compare=False)
    _trace: str = field(default="", repr=False, compare=False)

    @property
    def state(self) -> TurnState:
        """The current state, read from Redis: open, finishing, auto, responded, fallback, no_reply or merged.

        Raises:
            NotFound: the turn does not exist any more. Turns are kept for seven days.
            Unavailable: Redis does not answer.
        """
        return self._store.load_one(self.id).state

    def respond(self, response: OutgoingResponse, *, late_within: float | None = None) -> AnswerResult:
        """Answer the turn now, and return what became of the answer. Requirements T-8, T-12, T-48 to T-50.

        The first answer is `accepted` and in the outbox when this returns; a further one is a `duplicate`. While Redis
        is away, the answer is `spooled` on this host's disk and applied later. If a transport has taken the fallback,
        the answer follows it as `late`, or is dropped as `stale` if the fallback is `late_within` seconds old. Without
        `late_within`, `TELLBACK_LATE_WITHIN` and `TELLBACK_CHANNEL_LATE_WITHIN` decide.

        Raises:
            InvalidInput: the response is not an `OutgoingResponse`, is blank, or is above the limits of the outbox.
            NotFound: the turn does not exist any more. Turns are kept for seven days.
            SpoolFull: Redis is unavailable and the spool is full.
        """
        response, late = check_response(response), check_late_within(late_within)
        shown = redact_text(response.text or response.voice or "")
        try:
            return self._store_answer(TurnAnswer(response, self._late_ms(late), excerpt=shown))
        except Unavailable as away:
            return self._spool_event(away, TurnEnding(response=response, late_within=late))

    def fail(self, *, code: str) -> AnswerResult:
        """Answer now that something went wrong, in the turn's language. Requirement T-10.

        Operators see `code`, 1 to 200 bytes; the user never does. An auto-mode turn is closed without a reply instead.
        A failure never replaces or follows a fallback, which says the same. Raises the errors of `respond`.
        """
        code = check_code(code)
        return self._store_failure(OutgoingResponse.text_only(self._fallback_text()), code, TurnEnding(error_code=code))

    def finish(
        self,
        response: OutgoingResponse | None = None,
        *,
        late_within: float | None = None,
        llm_response: LlmResponse | None = None,
        llm_error: LlmError | None = None,
        final_answer_ready: bool = False,
        system_errors: Iterable[SystemFailure] = (),
        messages: Sequence[HostMessage] = (),
    ) -> None:
        """Leave the answer to the workers, whose pipeline makes it from what you pass. Requirements T-13 and T-14.

        Pass a response, or the model's result: `llm_response` or `llm_error`, of which the error wins, even a blank
        one. A code of your own is `llm_error=LlmError(code=...)`. Pass the conversation or its end as `messages`: roles
        and metadata are sent, texts are not. The sweep sends no fallback for `TELLBACK_FINISH_GRACE` seconds.

        Raises:
            InvalidInput: there is not exactly one kind of result, or an argument is wrong as for `respond` and `fail`.
            NotFound: the turn does not exist any more. Turns are kept for seven days.
            SpoolFull: Redis is unavailable and the spool is full.
            StateConflict: this client is closed.
        """
        said = TurnEnding(
            response=None if response is None else check_response(response),
            late_within=check_late_within(late_within),
            llm_response=None if llm_response is None else check_llm_response(llm_response),
            llm_error=None if llm_error is None else check_llm_error(llm_error),
            final_answer_ready=check_flag("final_answer_ready", final_answer_ready),
            system_errors=check_failures(system_errors),
            messages=check_messages(messages),
        )
        event = said.to_event(self.ref, self._origin)  # first, since a refused event must leave the turn unmarked
        if self._context.publisher.closed:
            raise StateConflict(CLOSED)
        try:
            self._store.mark_finishing(self.ref, self._origin.within_ms, self._origin)
        except Unavailable as away:
            self._spool_event(away, said)
        else:
            self._context.publisher.publish(event)

    def run(self, context: TurnContext, *, pipeline: TurnPipeline | None = None) -> TurnContext:
        """Run the pipeline in this process, queue the response that it prepares, and return the same context.

        `pipeline` may have systems of your own; the default one is built in and follows the settings. The context's
        `routing_outcome` is always set: it is `queued`, also when the response was spooled, or it has the error that
        kept the response from the outbox, which is not raised. Requirement T-47.

        Raises:
            ConfigurationError: a catalog or a language of the settings is wrong.
            InvalidInput: `context` is not a `TurnContext`.
        """
        about = TurnAbout(self.id, self.channel, self.conversation, self.language)
        return run_turn(pipeline or default_pipeline(self._context.settings), context, about, self._store_routed)

    def progress(self) -> float:
        """Report that work continues: the user may wait `answer_within` seconds again from now. Requirement T-19.

        Return the seconds left, or 0.0 if the turn is not open. The deadline never moves back, nor beyond
        `TELLBACK_TURN_LIMIT` seconds after the opening.

        Raises:
            NotFound: the turn does not exist any more. Turns are kept for seven days.
            Unavailable: Redis does not answer. The deadline may or may not have moved; you can repeat the call.
        """
        return self._store.progress(self.ref) / 1000

    def defer(self, *, seconds: float = 60.0) -> float:
        """Set a new deadline `seconds` from now, for work that you put off. Requirement T-18.

        Return the seconds left, or 0.0 if the turn is not open. The new deadline may be sooner or later than the old
        one, at most `TELLBACK_TURN_LIMIT` seconds after the opening. The user gets no message about it.

        Raises:
            InvalidInput: `seconds` is not above 0 and up to `TELLBACK_TURN_LIMIT`.
            NotFound: the turn does not exist any more. Turns are kept for seven days.
            Unavailable: Redis does not answer. The deadline may or may not have moved; you can repeat the call.
        """
        seconds = check_seconds("seconds", seconds, self._context.settings.turn_limit)
        return self._store.defer(self.ref, to_milliseconds(seconds)) / 1000

    def hand_over(self, *, to: str) -> None:
        """Hand the turn over to another host, which finds it with `Tellback.handed_over`. Requirements T-51 and T-52.

        The deadline stays as it is, and the sweep sends a fallback if the other host never answers. The first answer
        still counts, whichever host gives it.

        Raises:
            InvalidInput: `to` is not text of 1 to 512 bytes.
            NotFound: the turn does not exist any more. Turns are kept for seven days.
            StateConflict: the turn is not open.
            Unavailable: Redis does not answer. The turn may or may not be handed over; you can repeat the call.
        """
        handed, state = self._store.hand_over(self.ref, check_name("to", to))
        if not handed:
            raise StateConflict(f"turn {self.id} is {state}: only an open turn can be handed over")

    def no_reply(self, *, reason: str) -> None:
        """Close the turn without a reply, on purpose. Requirement T-11.

        `reason` is redacted and kept in the history for operators. It has no effect to close such a turn again.

        Raises:
            InvalidInput: `reason` is empty or above 64 KB.
            NotFound: the turn does not exist any more. Turns are kept for seven days.
            StateConflict: the turn has an answer or a fallback, or is merged into another one.
            Unavailable: Redis does not answer. The turn may or may not be closed; you can repeat the call.
        """
        closed, state = self._store.close(self.ref, redact_text(check_text("reason", reason, MAX_FIELD_BYTES)))
        if not closed:
            raise StateConflict(f"turn {self.id} is {state}: it cannot be closed without a reply any more")

    @property
    def _store(self) -> Turns:
        return _turn_store(self._context)

    @property
    def ref(self) -> TurnRef:
        """The ids that locate the turn's keys in Redis."""
        return TurnRef(self.id, self.channel, self.conversation, self.session)

    @property
    def _origin(self) -> LostTurnOrigin:
        grace = to_milliseconds(self._context.settings.finish_grace)
        return LostTurnOrigin(self.message_id, self.language or "", self._opened_at, self._auto, grace)

    def _store_answer(self, given: TurnAnswer) -> AnswerResult:
        self._context.activity.send()  # what the outbox does with the answer needs visits too
        kind, tracing = "failure" if given.code else "answer", self._context.tracing
        with turn_span(tracing, "answer turn", self.ref, answer=kind, opened=self._trace):
            return self._store.answer(self.ref, given, self._origin)

    def _fallback_text(self) -> str:
        return self._context.settings.turn_texts.feedback(self.language, self.channel)

    def _store_failure(self, response: OutgoingResponse, code: str, said: TurnEnding) -> AnswerResult:
        try:
            # 0: a failure is never sent late, after the fallback has said the same.
            return self._store_answer(TurnAnswer(response, 0, code=code, excerpt=redact_text(response.text or "")))
        except Unavailable as away:
            return self._spool_event(away, said)

    def _store_routed(self, response: OutgoingResponse, code: str) -> AnswerResult:
        if not code:
            return self.respond(response)
        response, code = check_response(response), error_line(code, MAX_CODE_CHARS) or "unknown"
        return self._store_failure(response, code, TurnEnding(response=response, error_code=code))

    def _late_ms(self, late_within: float | None) -> int:
        seconds = self._context.settings.late_within_of(self.channel) if late_within is None else late_within
        return round(seconds * 1000)

    def _spool_event(self, away: Unavailable, said: TurnEnding) -> Literal["spooled"]:
        self._context.publisher.publish(said.to_event(self.ref, self._origin))
        self._context.publisher.spool(away)  # before this returns: a buffered answer would die with the host
        return "spooled"


def open_turn(
    context: ClientContext,
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
    """Open a turn for a user's message, or return the one that it has. See `tellback.Tellback.open_turn`."""
    metadata = check_metadata(metadata)
    for name, value in (("channel", channel), ("conversation", conversation), ("message_id", message_id)):
        check_name(name, value)
    session = check_name("session", metadata.get("session", conversation) if session is None else session)
    ref = TurnRef(turn_id(context.layout, channel, conversation, message_id), channel, conversation, session)
    context.prepare_turn()
    with turn_span(context.tracing, "open turn", ref) as trace:
        wanted = NewTurn(
            ref=ref,
            message_id=message_id,
            text=excerpt(redact_text(check_text("text", text, None)), MAX_FIELD_BYTES),
            language=check_language(language),
            deadline_ms=to_milliseconds(check_seconds("answer_within", answer_within, context.settings.turn_limit)),
            limit_ms=to_milliseconds(context.settings.turn_limit),
            auto=metadata.get(AUTO_MODE) is True,  # a truthy value, such as "false", must not silence a turn
            host=excerpt(context.settings.host_name, MAX_REFERENCE_BYTES),
            trace=trace,
        )
        opened = _turn_store(context).open(wanted)
    return Turn(
        id=ref.id,
        channel=channel,
        conversation=conversation,
        message_id=message_id,
        session=opened.session,
        language=opened.language or None,
        duplicate=not opened.new,
        _opened_at=opened.opened_at,
        _auto=opened.state == "auto",
        _context=context,
        _trace=trace,
    )


MAX_LISTED: Final = 100  # turns that were handed over to one host


def join_turn(context: ClientContext, turn_id: str) -> Turn:
    """Return the turn with this id. See `tellback.Tellback.turn`."""
    return _join_view(context, _turn_store(context).load_one(check_text("turn_id", turn_id, None)))


def list_handed_over(context: ClientContext, to: str | None) -> list[Turn]:
    """Return the open turns that are handed over to a host. See `tellback.Tellback.handed_over`."""
    host = check_name("to", context.settings.host_name if to is None else to)
    return [_join_view(context, turn) for turn in _turn_store(context).handed_over_to(host, MAX_LISTED)]


def merge_turns(context: ClientContext, turns: Iterable[Turn], *, into: Turn) -> None:
    """Merge turns of one conversation into one of them. See `tellback.Tellback.merge_turns`."""
    into = _check_turn("into", into)
    if isinstance(turns, str | bytes | Turn) or not isinstance(cast("object", turns), Iterable):
        raise InvalidInput(f"turns: a list of turns, not {type(turns).__name__}")
    covered = {turn.id: turn for turn in (_check_turn(f"turns[{index}]", turn) for index, turn in enumerate(turns))}
    if not 0 < len(covered) <= MAX_MERGED:
        raise InvalidInput(f"turns: 1 to {MAX_MERGED} turns, not {len(covered)}")
    for turn in covered.values():
        if turn.id == into.id:
            raise InvalidInput(f"turns: {turn.id} cannot be merged into itself")
        if (turn.channel, turn.conversation) != (into.channel, into.conversation):
            raise InvalidInput(
                f"turns: {turn.id} is of another conversation than {into.id}: an answer goes to one conversation, and "
                "the user of the other would hear nothing; answer each with respond(...)"
            )
    _turn_store(context).merge([turn.ref for turn in covered.values()], into.ref)


def _check_turn(name: str, turn: object) -> Turn:
    if not isinstance(turn, Turn):
        raise InvalidInput(f"{name}: a turn, not {type(turn).__name__}; tb.turn(id) gives one")
    return turn


def _join_view(context: ClientContext, found: TurnView) -> Turn:
    return Turn(
        id=found.id,
        channel=found.channel,
        conversation=found.conversation,
        message_id=found.message_id,
        session=found.session,
        language=found.language or None,
        duplicate=True,
        _opened_at=found.opened_at,
        _auto=found.state == "auto",
        _context=context,
        _trace=found.trace,
    )


def _turn_store(context: ClientContext) -> Turns:
    return Turns(context.database, context.layout, on_host=True)
