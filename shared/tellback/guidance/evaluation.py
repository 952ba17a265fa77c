"""One evaluation of a prompt: its counts, the cadence of each provider, and what a tool call earns.

`step` is the whole of the semantics. Its cost does not depend on how many calls were recorded before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import msgspec

from tellback.contracts.guidance import (
    Delivery,
    EvaluationBegun,
    Feedback,
    FeedbackTrigger,
    ProviderSpec,
    ToolInvoked,
)
from tellback.guidance.bounds import tool_call_json
from tellback.guidance.context import RECENT_CALLS, FeedbackContext
from tellback.guidance.provider import ProviderFailure

FAILURES_MAX: Final = 3
FARTHEST: Final = 100 * 365 * 86_400.0  # a deadline further away, in seconds, is as good as this; dates end at 9999


class Slot(msgspec.Struct, omit_defaults=True):
    """A provider of an evaluation, with a cadence of its own: two slots of one provider do not touch each other.

    `calls` and `at` are the count and the time when it was last due; `streak` counts failures in a row.
    """

    spec: ProviderSpec
    calls: int = 0
    at: int | None = None
    fires: int = 0
    failures: int = 0
    streak: int = 0

    @property
    def disabled(self) -> bool:
        """Whether it failed so often that it is not asked again in this evaluation."""
        return self.streak >= FAILURES_MAX


class EvaluationState(msgspec.Struct, omit_defaults=True):
    """What is kept of an evaluation between tool calls; times are server milliseconds since the epoch.

    `errors` are the calls of status "error".
    """

    session: str
    prompt: str
    evaluation: str
    began_at: int
    deadline_at: int | None = None
    delivery: Delivery = "first"
    tools: list[str] = []
    question: str | None = None
    slots: list[Slot] = []
    calls: int = 0
    errors: int = 0
    fires: int = 0
    last_feedback: Feedback | None = None
    recent: list[msgspec.Raw] = []


class Panel(Protocol):
    """Whoever can ask a provider."""

    def ask(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        """Its feedback; None if it does not want to run now.

        Raises:
            ProviderFailure: it raised, hung, or answered what is no feedback.
        """
        ...


@dataclass(slots=True)
class Effects:
    """What steps have earned: feedback to deliver, and lines for the session's history (JSON)."""

    feedback: list[Feedback] = field(default_factory=list[Feedback])
    history: list[bytes] = field(default_factory=list[bytes])


def begin(session: str, prompt: str, evaluation: str, now_ms: int) -> EvaluationState:
    """An evaluation of which nothing is known yet: its first event may be a tool call."""
    return EvaluationState(session=session, prompt=prompt, evaluation=evaluation, began_at=now_ms)


def step(
    state: EvaluationState, event: EvaluationBegun | ToolInvoked, now_ms: int, panel: Panel, effects: Effects
) -> None:
    """Apply one event that arrived at `now_ms` to `state`, in place, and add what it earned to `effects`."""
    if isinstance(event, EvaluationBegun):
        _join(state, event, now_ms)
        return
    state.calls += 1
    state.errors += event.status == "error"
    raw = tool_call_json(event, now_ms, state.calls)
    effects.history.append(raw)
    state.recent.append(msgspec.Raw(raw))
    if len(state.recent) > RECENT_CALLS:
        del state.recent[0]
    for slot in state.slots:
        if (
            _due(slot, state, now_ms)
            and not slot.disabled
            and _fire(slot, state, now_ms, panel, effects)
            and state.delivery == "first"
        ):
            return


def _join(state: EvaluationState, event: EvaluationBegun, now_ms: int) -> None:
    """Take what the evaluation does not have yet: a process that joins without a configuration changes nothing."""
    if not state.slots and event.providers:
        state.slots = [Slot(spec=spec) for spec in event.providers]
        state.delivery = event.delivery
    if state.deadline_at is None and event.deadline_in is not None:
        state.deadline_at = now_ms + round(max(-FARTHEST, min(FARTHEST, event.deadline_in)) * 1000)
    state.tools = state.tools or event.tools
    state.question = state.question if state.question is not None else event.question


def _due(slot: Slot, state: EvaluationState, now_ms: int) -> bool:
    """Whether either condition of the trigger holds; both count from this slot's own last time."""
    trigger: FeedbackTrigger = slot.spec.trigger
    if trigger.every_n_calls is not None and state.calls - slot.calls >= trigger.every_n_calls:
        return True
    if trigger.every_n_seconds is None:
        return False
    since = state.began_at if slot.at is None else slot.at
    return now_ms - since >= trigger.every_n_seconds * 1000


def _fire(slot: Slot, state: EvaluationState, now_ms: int, panel: Panel, effects: Effects) -> bool:
    """Ask a provider that is due; whether it gave feedback. A failure costs this feedback, and the cadence goes on."""
    try:
        answer = panel.ask(slot.spec, _context(state, now_ms))
    except ProviderFailure as failure:
        slot.calls, slot.at = state.calls, now_ms
        slot.failures += 1
        slot.streak += 1
        effects.history.append(_failure_json(slot, state, now_ms, str(failure)))
        return False
    if answer is None:
        return False
    feedback = msgspec.structs.replace(answer, call_index=state.calls, prompt_name=state.prompt, at=now_ms)
    slot.calls, slot.at, slot.streak = state.calls, now_ms, 0
    slot.fires += 1
    state.fires += 1
    state.last_feedback = feedback
    effects.feedback.append(feedback)
    said: dict[str, Any] = msgspec.to_builtins(feedback)
    said.pop("prompt_name", None)  # every entry has its prompt
    effects.history.append(_entry("feedback", state, now_ms, said))
    return True


def _context(state: EvaluationState, now_ms: int) -> FeedbackContext:
    return FeedbackContext(
        session=state.session,
        prompt=state.prompt,
        evaluation=state.evaluation,
        now=_utc(now_ms),
        began_at=_utc(state.began_at),
        deadline=None if state.deadline_at is None else _utc(state.deadline_at),
        last_feedback=state.last_feedback,
        tool_call_count=state.calls,
        tools=tuple(state.tools),
        question=state.question,
        recent=tuple(state.recent),
    )


def _utc(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _failure_json(slot: Slot, state: EvaluationState, now_ms: int, reason: str) -> bytes:
    what = {"provider_name": slot.spec.name, "reason": reason[:500], "disabled": slot.disabled}
    return _entry("provider_failure", state, now_ms, what)


def _entry(kind: str, state: EvaluationState, now_ms: int, what: dict[str, Any]) -> bytes:
    entry = {"kind": kind, "at": now_ms, "prompt": state.prompt, "evaluation": state.evaluation, **what}
    return msgspec.json.encode(entry)
