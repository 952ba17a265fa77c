"""The turns loop in the workers: makes of each `TurnFinished` what the user receives, and applies it.

TurnFinished ─▶ TurnContext ─▶ the pipeline's systems ─▶ one script: state, outbox, history, and out of the intake
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import structlog

from tellback.contracts.codec import encode
from tellback.contracts.llm import AUTO_MODE, MAX_CODE, MAX_FAILURES, LlmError, SystemFailure, TurnMessage
from tellback.contracts.turns import MAX_REFERENCE_BYTES, OutgoingResponse, RoutingOutcome, TurnFinished, TurnOrigin
from tellback.errors import InvalidInput
from tellback.redaction import redact_text
from tellback.state.intake import Entry, Lease, RawEntry
from tellback.state.keys import Layout
from tellback.state.turn_answers import Answer, Routed
from tellback.state.turns import Origin, Turns, TurnView, turn_id
from tellback.turns.pipeline.context import TurnAbout, TurnContext
from tellback.turns.pipeline.failures import cleaned_error, cleaned_failures, note
from tellback_workers.runtime import Runtime
from tellback_workers.turn_systems import SystemGuard, pipeline_of

SILENT: Final = "auto.nothing_to_say"
CUSTOM_SHARE: Final = 0.25  # of a lease, for the custom systems of one batch
DIED: Final = SystemFailure(
    system="custom systems",
    error="NotRun",
    message="a worker died, failed or was stopped while it processed this turn: only built-in systems ran",
)

_log = structlog.get_logger("tellback.turns")


class TurnsLoop:
    """Applies the turns of one team."""

    def __init__(self, runtime: Runtime, team: str) -> None:
        """Take the process's connections and the team."""
        self._layout = runtime.layout(team)
        self._turns = Turns(runtime.database, self._layout)
        self._dead = runtime.dead(team)
        self._settings = runtime.settings
        self._pipeline = pipeline_of(runtime.settings, custom=True)
        self._built_in = pipeline_of(runtime.settings, custom=False)

    def ready(self) -> None:
        """Nothing is needed but Redis."""

    def apply(self, lease: Lease, entries: Sequence[Entry]) -> None:
        """Apply each answer in order; what answers no turn, or cannot be sent, goes to the dead letters.

        Raises:
            Fenced: the lease has passed on.
        """
        facts = [(entry, entry.message) for entry in entries if isinstance(entry.message, TurnFinished)]
        known = self._load([fact.turn for _, fact in facts])
        settings = self._settings
        guard = SystemGuard(timeout=settings.system_timeout, budget=settings.drain_lease * CUSTOM_SHARE)
        for entry, fact in facts:
            problem = self._apply(lease, entry, fact, known.get(fact.turn), guard)
            if problem:
                _log.warning("turn.answer_refused", turn=fact.turn, reason=problem)
                self._dead.bury(lease, RawEntry(entry.id, encode(fact), entry.deliveries), problem)

    def _load(self, ids: list[str]) -> dict[str, TurnView]:
        valid = [turn for turn in dict.fromkeys(ids) if self._turns.has_form(turn)]
        return {turn.id: turn for turn in self._turns.load(valid) if turn is not None}

    def _apply(
        self, lease: Lease, entry: Entry, fact: TurnFinished, turn: TurnView | None, guard: SystemGuard
    ) -> str | None:
        """What is wrong with the fact, or None when it was applied."""
        origin = fact.origin
        if turn is None:
            if origin is None:
                return "no such turn: it was never opened, or its seven days are over"
            problem = lost_problem(fact, origin, self._layout)
            if problem:
                return problem
            turn = lost_turn(fact, origin)
        if (turn.channel, turn.conversation) != (fact.channel, fact.conversation):
            return "the turn belongs to another conversation"
        try:
            context = context_of(fact, turn)
        except InvalidInput as error:
            return str(error)
        if entry.deliveries > 1:
            self._without_custom(context)
        else:
            self._pipeline.run(context, _queue, guard=guard)
        late = self._settings.late_of(fact.channel) if fact.late_within is None else fact.late_within
        given = answer_of(context, turn, late)
        known = None if origin is None or lost_problem(fact, origin, self._layout) else self._origin(origin)
        routed = routed_of(context, fact)
        if not self._turns.apply_finished(lease, entry, turn.ref, given, routed=routed, origin=known):
            return "no such turn: its seven days are over"
        return None

    def _origin(self, origin: TurnOrigin) -> Origin:
        grace = round(self._settings.finish_grace * 1000)
        return Origin(origin.message_id, origin.language, origin.opened_at, origin.auto, grace)

    def _without_custom(self, context: TurnContext) -> None:
        """An entry that is delivered again may have killed its worker by a custom system: none is asked."""
        if self._pipeline.names != self._built_in.names:
            context.system_errors.append(DIED)
        self._built_in.run(context, _queue)


def _queue(response: OutgoingResponse) -> RoutingOutcome:
    """The outbox gets it in the script that takes the entry out of the intake."""
    del response
    return RoutingOutcome(attempted=False, queued=True)


def lost_problem(fact: TurnFinished, origin: TurnOrigin, layout: Layout) -> str | None:
    """Why the turn of a fact cannot be made again from its origin, or None: its id is made of the message's."""
    for name, value in (("session", origin.session), ("message_id", origin.message_id)):
        if len(value.encode()) > MAX_REFERENCE_BYTES:
            return f"origin.{name}: at most {MAX_REFERENCE_BYTES} bytes as UTF-8"
    if turn_id(layout, fact.channel, fact.conversation, origin.message_id) != fact.turn:
        return "no such turn: its id is not that of the message which origin names"
    return None


def lost_turn(fact: TurnFinished, origin: TurnOrigin) -> TurnView:
    """A turn that Redis has lost, for the pipeline."""
    return TurnView(
        id=fact.turn,
        state="auto" if origin.auto else "open",
        channel=fact.channel,
        conversation=fact.conversation,
        message_id=origin.message_id,
        session=origin.session,
        language=origin.language,
        opened_at=origin.opened_at,
    )


def context_of(fact: TurnFinished, turn: TurnView) -> TurnContext:
    """What the systems begin with.

    Raises:
        InvalidInput: the response is above the limits of the outbox.
    """
    response, error = fact.response, fact.llm_error
    if response is not None:
        response.check()
    if fact.error_code is not None:
        error = LlmError(code=fact.error_code)
    blank = response is not None and response.blank
    auto = TurnMessage(metadata={AUTO_MODE: True} if turn.state == "auto" else {})
    return TurnContext(
        messages=fact.messages or (auto,),
        llm_response=fact.llm_response,
        llm_error=None if error is None else cleaned_error(error),
        system_errors=list(cleaned_failures(fact.system_errors)),
        outgoing_response=None if blank else response,
        final_answer_ready=fact.final_answer_ready or blank,
        turn=TurnAbout(turn.id, turn.channel, turn.conversation, turn.language or None),
    )


def answer_of(context: TurnContext, turn: TurnView, late_within: float) -> Answer:
    """What the store takes. Where nobody waits and nothing was prepared, the turn is closed without a reply."""
    response, code = context.outgoing_response, note(context.failure_code, MAX_CODE)
    if response is not None and context.llm_error is not None:
        code = code or context.llm_error.code or "unknown"
    if response is None and turn.state == "auto":
        response, code = OutgoingResponse(), SILENT
    shown = "" if response is None else redact_text(response.text or response.voice or "")
    return Answer(response, round(late_within * 1000), code=code, shown=shown)


def routed_of(context: TurnContext, fact: TurnFinished) -> Routed | None:
    """What the history tells of the pipeline; nothing where a host's own answer went through untouched."""
    if fact.response is not None and fact.response is context.outgoing_response and not context.system_errors:
        return None
    failures = [
        ": ".join(filter(None, msgspec.structs.astuple(each))) for each in cleaned_failures(context.system_errors)
    ]
    return Routed(
        outcome=context.routing_outcome or RoutingOutcome(attempted=False, error="no system routed it"),
        code=note(context.failure_code, MAX_CODE),
        errors=tuple(failures[-MAX_FAILURES:]),
    )
