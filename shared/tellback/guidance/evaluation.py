"""One evaluation of a prompt: what its events make of it, and what a tool call or the passing of time earns.

`step` and `look` are the whole of the semantics. Their cost does not depend on how many calls were recorded before.
"""

from __future__ import annotations

import msgspec

from tellback.contracts.guidance import (
    BudgetSpent,
    ContextChange,
    ContextChanged,
    EvaluationBegun,
    FileSeen,
    ToolInvoked,
)
from tellback.guidance.asking import Moment, Panel
from tellback.guidance.bounds import tool_call_json
from tellback.guidance.cadence import FARTHEST, is_due, slot_look
from tellback.guidance.measures import note_call
from tellback.guidance.state import (
    FAILURES_MAX,
    KEPT_CHANGES,
    KEPT_FILES,
    RECENT_CALLS,
    Effects,
    EvaluationState,
    Slot,
    begin,
)

__all__ = ["FAILURES_MAX", "Effects", "EvaluationState", "Event", "Panel", "Slot", "begin", "look", "step"]

Event = EvaluationBegun | ToolInvoked | BudgetSpent | ContextChanged | FileSeen


def step(state: EvaluationState, event: Event, now_ms: int, panel: Panel, effects: Effects) -> None:
    """Apply one event that arrived at `now_ms` to `state`, in place, and add what it earned to `effects`."""
    state.active_at = max(state.active_at, now_ms)
    if isinstance(event, ToolInvoked):
        _call(state, event, now_ms, panel, effects)
    elif isinstance(event, EvaluationBegun):
        _join(state, event, now_ms)
    elif isinstance(event, BudgetSpent):
        state.tokens += event.tokens
        state.cost += event.cost
    elif isinstance(event, ContextChanged):
        if event.by != state.evaluation:
            note_change(state, at=now_ms, kind=event.kind, name=event.name, detail=event.detail, by=event.by)
    elif event.name not in state.files and len(state.files) < KEPT_FILES:
        state.files.append(event.name)


def look(state: EvaluationState, now_ms: int, panel: Panel, effects: Effects, *, generation: int, idle_ms: int) -> None:
    """Ask the providers whose time has come while no tool is called; `generation` is the mailbox's."""
    moment = Moment(state, now_ms, panel, effects)
    spoken = False
    for place, slot in enumerate(state.slots):
        at = slot_look(slot, state, idle_ms)
        if at is None or at > now_ms:
            continue
        if slot.waits is not None:
            moment.renew(place)
        elif not spoken or state.delivery == "all":
            spoken = moment.fire_by_time(place, generation) or spoken


def note_change(
    state: EvaluationState, *, at: int, kind: str, name: str, detail: str | None = None, by: str = ""
) -> None:
    """Take a change that somebody published; the newest are kept, and all are counted."""
    state.changes_total += 1
    change = ContextChange(index=state.changes_total, at=at, kind=kind, name=name, detail=detail, by=by)
    state.changes = [*state.changes[-(KEPT_CHANGES - 1) :], change]


def _call(state: EvaluationState, event: ToolInvoked, now_ms: int, panel: Panel, effects: Effects) -> None:
    state.calls += 1
    state.errors += event.status == "error"
    raw = tool_call_json(event, now_ms, state.calls)
    effects.history.append(raw)
    state.recent.append(msgspec.Raw(raw))
    if len(state.recent) > RECENT_CALLS:
        del state.recent[0]
    similar = note_call(state, event, effects)
    due = [place for place, slot in enumerate(state.slots) if is_due(slot, state, now_ms) and not slot.disabled]
    if not due:
        return
    moment = Moment(state, now_ms, panel, effects)
    for place in due:
        if moment.fire(place, similar) and state.delivery == "first":
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
