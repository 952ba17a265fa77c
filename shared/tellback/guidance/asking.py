"""Asking a provider that is due: what it sees, what becomes of its answer, and of its failure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec

from tellback.contracts.guidance import Feedback, ProviderSpec
from tellback.guidance.cadence import period_ms
from tellback.guidance.context import FeedbackContext, LastSpoke
from tellback.guidance.measures import counter
from tellback.guidance.provider import ProviderFailure, ProviderTimeout
from tellback.guidance.state import Effects, EvaluationState, Slot


class Panel(Protocol):
    """Whoever can ask a provider."""

    def ask(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        """Its feedback; None if it does not want to run now.

        Raises:
            ProviderFailure: it raised, hung, or answered what is no feedback.
        """
        ...


class Moment:
    """An evaluation at one time, in which providers are asked."""

    def __init__(self, state: EvaluationState, now_ms: int, panel: Panel, effects: Effects) -> None:
        """Take the state, which changes in place, and where its effects go."""
        self.state = state
        self.now_ms = now_ms
        self._panel = panel
        self._effects = effects

    def fire(self, place: int, similar: tuple[int, ...]) -> bool:
        """Ask a provider that is due at a tool call; whether it gave feedback."""
        slot = self.state.slots[place]
        answer = self._ask(slot, similar=similar)
        if answer is None:
            return False
        if slot.waits is not None:
            self._effects.outdated.add(place)  # what waits was said before this call; this is newer
            slot.waits = None
        self._fired(slot)
        self._effects.feedback.append(answer)
        self._tell(answer)
        return True

    def fire_by_time(self, place: int, generation: int) -> bool:
        """Ask a provider whose time has come; what it says waits in the mailbox of this generation."""
        slot = self.state.slots[place]
        answer = self._ask(slot, timed=True)
        if answer is None:
            slot.declined_at = self.now_ms
            return False
        slot.waits, slot.gap = generation, period_ms(slot) or 0
        self._fired(slot)
        self._effects.tally(counter("provider", slot.spec.name, "timed"))
        self._effects.timed[place] = answer
        self._tell(answer, timed=True)
        return True

    def renew(self, place: int) -> None:
        """Ask again a provider whose feedback still waits: what an agent reads at last should be of about now."""
        slot = self.state.slots[place]
        answer = self._ask(slot, timed=True)
        slot.at = self.now_ms
        slot.gap *= 2
        if answer is not None:
            self._remember(slot)
            self._effects.timed[place] = answer
            self._tell(answer, timed=True, renewed=True)

    def _ask(self, slot: Slot, *, timed: bool = False, similar: tuple[int, ...] = ()) -> Feedback | None:
        """The provider's answer as feedback of now. A failure costs this feedback, and the cadence goes on."""
        try:
            answer = self._panel.ask(slot.spec, self._context(slot, timed=timed, similar=similar))
        except ProviderFailure as failure:
            self._failed(slot, failure)
            return None
        if answer is None:
            return None
        state = self.state
        return msgspec.structs.replace(answer, call_index=state.calls, prompt_name=state.prompt, at=self.now_ms)

    def _fired(self, slot: Slot) -> None:
        self._remember(slot)
        slot.streak = 0
        slot.fires += 1
        self.state.fires += 1
        self._effects.tally(counter("provider", slot.spec.name, "fires"))

    def _remember(self, slot: Slot) -> None:
        """From here on the slot counts anew."""
        state = self.state
        slot.calls, slot.at, slot.declined_at = state.calls, self.now_ms, None
        slot.tokens, slot.cost, slot.changes = state.tokens, state.cost, state.changes_total
        slot.file_told = slot.file_told or slot.spec.trigger.file_created in state.files

    def _failed(self, slot: Slot, failure: ProviderFailure) -> None:
        self._remember(slot)
        slot.failures += 1
        slot.streak += 1
        name = slot.spec.name
        self._effects.tally(counter("provider", name, "failures"))
        late = isinstance(failure, ProviderTimeout)
        if late:
            self._effects.tally(counter("provider", name, "timeouts"))
        if slot.disabled:
            self._effects.tally(counter("provider", name, "disabled"))
        what = {"provider_name": name, "reason": str(failure)[:500], "timeout": late, "disabled": slot.disabled}
        self._enter("provider_failure", what)

    def _tell(self, feedback: Feedback, **marks: bool) -> None:
        self.state.last_feedback = feedback
        said: dict[str, Any] = msgspec.to_builtins(feedback)
        said.pop("prompt_name", None)  # every entry has its prompt
        self._enter("feedback", {**said, **marks})

    def _enter(self, kind: str, what: dict[str, Any]) -> None:
        state = self.state
        entry = {"kind": kind, "at": self.now_ms, "prompt": state.prompt, "evaluation": state.evaluation, **what}
        self._effects.history.append(msgspec.json.encode(entry))

    def _context(self, slot: Slot, *, timed: bool, similar: tuple[int, ...]) -> FeedbackContext:
        state = self.state
        return FeedbackContext(
            session=state.session,
            prompt=state.prompt,
            evaluation=state.evaluation,
            now=_utc(self.now_ms),
            began_at=_utc(state.began_at),
            deadline=None if state.deadline_at is None else _utc(state.deadline_at),
            last_feedback=state.last_feedback,
            tool_call_count=state.calls,
            tools=tuple(state.tools),
            question=state.question,
            recent=tuple(state.recent),
            own=LastSpoke(call_index=slot.calls, tokens=slot.tokens, cost=slot.cost, changes=slot.changes),
            tokens_spent=state.tokens,
            cost_spent=state.cost,
            changes=tuple(state.changes),
            changes_total=state.changes_total,
            timed=timed,
            similar=similar,
            failing=state.trail.failing,
        )


def _utc(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
