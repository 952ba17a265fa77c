"""The turns loop in the workers: applies `TurnFinished`, the answers that hosts sent through the intake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from tellback.contracts.codec import encode
from tellback.contracts.turns import OutgoingResponse, TurnFinished
from tellback.errors import InvalidInput
from tellback.redaction import redact_text
from tellback.state.intake import Entry, Lease, RawEntry
from tellback.state.turns import Answer, Turns, TurnView
from tellback.turns.text import feedback_text
from tellback_workers.runtime import Runtime

BLANK: Final = "response.blank"
MAX_CODE_CHARS: Final = 200

_log = structlog.get_logger("tellback.turns")


class TurnsLoop:
    """Applies the turns of one team."""

    def __init__(self, runtime: Runtime, team: str) -> None:
        """Take the process's connections and the team."""
        self._turns = Turns(runtime.database, runtime.layout(team))
        self._dead = runtime.dead(team)
        self._language = runtime.settings.fallback_language
        self._late_within = runtime.settings.late_within

    def ready(self) -> None:
        """Nothing is needed but Redis."""

    def apply(self, lease: Lease, entries: Sequence[Entry]) -> None:
        """Apply each answer in order; what answers no turn, or cannot be sent, goes to the dead letters.

        Raises:
            Fenced: the lease has passed on.
        """
        facts = [(entry, entry.message) for entry in entries if isinstance(entry.message, TurnFinished)]
        known = self._load([fact.turn for _, fact in facts])
        for entry, fact in facts:
            problem = self._apply(lease, entry, fact, known.get(fact.turn))
            if problem:
                _log.warning("turn.answer_refused", turn=fact.turn, reason=problem)
                self._dead.bury(lease, RawEntry(entry.id, encode(fact), entry.deliveries), problem)

    def _load(self, ids: list[str]) -> dict[str, TurnView]:
        valid = [turn for turn in dict.fromkeys(ids) if self._turns.has_form(turn)]
        return {turn.id: turn for turn in self._turns.load(valid) if turn is not None}

    def _apply(self, lease: Lease, entry: Entry, fact: TurnFinished, turn: TurnView | None) -> str | None:
        """What is wrong with the fact, or None when it was applied."""
        if turn is None:
            return "no such turn: it was never opened, or its seven days are over"
        if (turn.channel, turn.conversation) != (fact.channel, fact.conversation):
            return "the turn belongs to another conversation"
        response, code = fact.response, (fact.error_code or "")[:MAX_CODE_CHARS]
        if response is not None and response.blank:
            response, code = None, BLANK  # a blank answer would be silence
        if response is None:
            response, code = OutgoingResponse.text_only(feedback_text(turn.language, self._language)), code or "unknown"
        try:
            response.check()
        except InvalidInput as error:
            return str(error)
        shown = redact_text(response.text or response.voice or "")
        late = self._late_within if fact.late_within is None else fact.late_within
        given = Answer(response, round(late * 1000), code=redact_text(code), shown=shown)
        if not self._turns.apply_finished(lease, entry, turn.ref, given):
            return "no such turn: its seven days are over"
        return None
