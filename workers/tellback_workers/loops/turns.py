"""The turns loop: it runs the turns' pipeline for each `TurnFinished` and commits what the user receives.

TurnFinished ─▶ TurnContext ─▶ the pipeline's systems ─▶ one script: state, outbox, history, acknowledgement
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import structlog

from tellback.contracts.codec import encode
from tellback.contracts.limits import MAX_CODE_CHARS, MAX_FAILURES, MAX_REFERENCE_BYTES
from tellback.contracts.turns import (
    AUTO_MODE,
    LlmError,
    OutgoingResponse,
    RoutingOutcome,
    SystemFailure,
    TurnFinished,
    TurnMessage,
    TurnOrigin,
)
from tellback.errors import InvalidInput
from tellback.redaction import redact_text
from tellback.state.intake_lease import IntakeEntry, Lease, RawEntry
from tellback.state.keys import Layout
from tellback.state.turn_view import LostTurnOrigin, RoutingReport, TurnAnswer, TurnView
from tellback.state.turns import Turns, turn_id
from tellback.turns.pipeline.checks import clean_error, clean_failures, error_line
from tellback.turns.pipeline.context import TurnAbout, TurnContext
from tellback_workers.isolation import CUSTOM_SHARE, SystemTimeLimit, pipeline_of
from tellback_workers.runtime import Runtime

NO_ANSWER: Final = "auto.nothing_to_say"
CRASHED_SYSTEM: Final = SystemFailure(
    system="custom systems",
    error="NotRun",
    message="a worker died, failed or was stopped while it processed this turn: only built-in systems ran",
)

_logger = structlog.get_logger("tellback.turns")


class TurnsLoop:
    """Applies the finished turns of one team."""

    def __init__(self, runtime: Runtime, team: str) -> None:
        self._layout = runtime.layout(team)
        self._turns = Turns(runtime.database, self._layout)
        self._dead = runtime.dead(team)
        self._settings = runtime.settings
        self._pipeline = pipeline_of(runtime.settings, custom=True)
        self._built_in = pipeline_of(runtime.settings, custom=False)

    def ready(self) -> None:
        """Return at once: this loop needs only Redis."""

    def apply(self, lease: Lease, entries: Sequence[IntakeEntry]) -> None:
        """Apply each answer in order; one that has no turn, or cannot be sent, becomes a dead letter.

        Raises:
            Fenced: another consumer has the lease.
        """
        finished = [(entry, entry.message) for entry in entries if isinstance(entry.message, TurnFinished)]
        turns = self._load([event.turn for _, event in finished])
        settings = self._settings
        guard = SystemTimeLimit(timeout=settings.system_timeout, budget=settings.consumer_lease * CUSTOM_SHARE)
        for entry, event in finished:
            problem = self._apply(lease, entry, event, turns.get(event.turn), guard)
            if problem:
                _logger.warning("turn.answer_refused", turn=event.turn, reason=problem)
                self._dead.add(lease, RawEntry(entry.id, encode(event), entry.deliveries), problem)

    def _load(self, ids: list[str]) -> dict[str, TurnView]:
        valid = [turn for turn in dict.fromkeys(ids) if self._turns.is_turn_id(turn)]
        return {turn.id: turn for turn in self._turns.load(valid) if turn is not None}

    def _apply(
        self, lease: Lease, entry: IntakeEntry, finished: TurnFinished, turn: TurnView | None, guard: SystemTimeLimit
    ) -> str | None:
        """Apply one event; return why it cannot be applied, or None."""
        origin = finished.origin
        if turn is None:
            if origin is None:
                return "no such turn: it was never opened, or its seven days are over"
            problem = restore_problem(finished, origin, self._layout)
            if problem:
                return problem
            turn = restored_turn(finished, origin)
        # A mistaken event must not answer another user's turn.
        if (turn.channel, turn.conversation) != (finished.channel, finished.conversation):
            return "the turn belongs to another conversation"
        try:
            context = pipeline_context(finished, turn)
        except InvalidInput as error:
            return str(error)
        if entry.deliveries > 1:
            self._without_custom(context)
        else:
            self._pipeline.run(context, _accept_for_outbox, guard=guard)
        late = self._settings.late_within_of(finished.channel) if finished.late_within is None else finished.late_within
        given = answer_of(context, turn, late)
        # An origin that does not match is ignored, because the turn exists and need not be restored.
        known = None if origin is None or restore_problem(finished, origin, self._layout) else self._origin(origin)
        routed = routed_of(context, finished)
        if not self._turns.apply_finished(lease, entry, turn.ref, given, routed=routed, origin=known):
            return "no such turn: its seven days are over"
        return None

    def _origin(self, origin: TurnOrigin) -> LostTurnOrigin:
        grace = round(self._settings.finish_grace * 1000)
        return LostTurnOrigin(origin.message_id, origin.language, origin.opened_at, origin.auto, grace)

    def _without_custom(self, context: TurnContext) -> None:
        """Run built-in systems only, because a custom system may have killed the worker at the first delivery."""
        if self._pipeline.names != self._built_in.names:
            context.system_errors.append(CRASHED_SYSTEM)
        self._built_in.run(context, _accept_for_outbox)


def _accept_for_outbox(response: OutgoingResponse) -> RoutingOutcome:
    """Report the response as queued; the script that acknowledges the entry puts it into the outbox."""
    del response
    return RoutingOutcome(attempted=False, queued=True)


def restore_problem(finished: TurnFinished, origin: TurnOrigin, layout: Layout) -> str | None:
    """Return why an event's turn cannot be restored from its origin, or None."""
    # A turn's id is derived from its message's, so a wrong origin cannot restore somebody else's turn.
    for name, value in (("session", origin.session), ("message_id", origin.message_id)):
        if len(value.encode()) > MAX_REFERENCE_BYTES:
            return f"origin.{name}: at most {MAX_REFERENCE_BYTES} bytes as UTF-8"
    if turn_id(layout, finished.channel, finished.conversation, origin.message_id) != finished.turn:
        return "no such turn: its id is not that of the message which origin names"
    return None


def restored_turn(finished: TurnFinished, origin: TurnOrigin) -> TurnView:
    """Restore a turn that Redis has lost, from what its event says of it."""
    return TurnView(
        id=finished.turn,
        state="auto" if origin.auto else "open",
        channel=finished.channel,
        conversation=finished.conversation,
        message_id=origin.message_id,
        session=origin.session,
        language=origin.language,
        opened_at=origin.opened_at,
    )


def pipeline_context(finished: TurnFinished, turn: TurnView) -> TurnContext:
    """Build the context with which the pipeline's systems begin.

    Raises:
        InvalidInput: the response exceeds the limits of the outbox.
    """
    response, error = finished.response, finished.llm_error
    if response is not None:
        response.check()
    if finished.error_code is not None:
        error = LlmError(code=finished.error_code)
    blank = response is not None and response.is_blank
    auto = TurnMessage(metadata={AUTO_MODE: True} if turn.state == "auto" else {})
    return TurnContext(
        messages=finished.messages or (auto,),
        llm_response=finished.llm_response,
        llm_error=None if error is None else clean_error(error),
        system_errors=list(clean_failures(finished.system_errors)),
        outgoing_response=None if blank else response,
        final_answer_ready=finished.final_answer_ready or blank,
        turn=TurnAbout(turn.id, turn.channel, turn.conversation, turn.language or None),
    )


def answer_of(context: TurnContext, turn: TurnView, late_within: float) -> TurnAnswer:
    """Build the answer to store; if nobody waits and the pipeline prepared nothing, close the turn without a reply."""
    response, code = context.outgoing_response, error_line(context.failure_code, MAX_CODE_CHARS)
    if response is not None and context.llm_error is not None:
        code = code or context.llm_error.code or "unknown"
    if response is None and turn.state == "auto":
        response, code = OutgoingResponse(), NO_ANSWER
    shown = "" if response is None else redact_text(response.text or response.voice or "")
    return TurnAnswer(response, round(late_within * 1000), code=code, excerpt=shown)


def routed_of(context: TurnContext, finished: TurnFinished) -> RoutingReport | None:
    """Build the pipeline's entry in the history, or None if a host's own answer passed through unchanged."""
    if finished.response is not None and finished.response is context.outgoing_response and not context.system_errors:
        return None
    failures = [
        ": ".join(filter(None, msgspec.structs.astuple(each))) for each in clean_failures(context.system_errors)
    ]
    return RoutingReport(
        outcome=context.routing_outcome or RoutingOutcome(attempted=False, error="no system routed it"),
        code=error_line(context.failure_code, MAX_CODE_CHARS),
        errors=tuple(failures[-MAX_FAILURES:]),
    )
