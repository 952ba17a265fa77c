"""When a provider is due: by tool calls, by time, and by time while no tool is called.

Without a tool call one look stands where a call would stand: the first provider that is due wins it, the others wait
for the next. What came so waits in the mailbox, at most one of each slot. While it waits it is renewed, each time after
twice as long, and once the deadline has passed; when it was taken, its cadence begins anew.
"""

from __future__ import annotations

from typing import Final

from tellback.guidance.state import EvaluationState, Slot

FARTHEST: Final = 100 * 365 * 86_400.0  # a time further away, in seconds, is as good as this; dates end at 9999
LOOK_GAP_MS: Final = 1_000  # between two looks at one evaluation


def is_due(slot: Slot, state: EvaluationState, now_ms: int) -> bool:
    """Whether a condition of the trigger holds at a tool call; all count from this slot's own last time."""
    trigger = slot.spec.trigger
    if trigger.every_n_calls is not None and state.calls - slot.calls >= trigger.every_n_calls:
        return True
    if trigger.file_created is not None and not slot.file_told and trigger.file_created in state.files:
        return True
    every = period_ms(slot)
    return every is not None and now_ms - (state.began_at if slot.at is None else slot.at) >= every


def next_look(state: EvaluationState, idle_ms: int) -> int | None:
    """When a slot is due if no tool is called before; None: no slot waits for time, or nobody was here for too long."""
    times = [at for slot in state.slots if (at := slot_look(slot, state, idle_ms)) is not None]
    return min(times) if times else None


def slot_look(slot: Slot, state: EvaluationState, idle_ms: int) -> int | None:
    """When time alone makes this slot due, or its waiting feedback old; None where it never does.

    With the deadline passed a slot speaks once more. An evaluation in which nothing happened for `idle_ms`, or for a
    period of the slot where that is longer, is taken for abandoned.
    """
    every = period_ms(slot)
    if every is None or slot.disabled:
        return None
    since = state.began_at if slot.at is None else slot.at
    if state.deadline_at is not None and slot.at is not None and slot.at >= state.deadline_at:
        return None
    if slot.waits is None:
        at = max(since, slot.declined_at or 0) + every
    else:
        at = since + slot.gap
        if state.deadline_at is not None:
            at = min(at, max(state.deadline_at, since + LOOK_GAP_MS))
    return at if at <= state.active_at + max(idle_ms, every) else None


def forget_taken(state: EvaluationState, generation: int, taken_at: int) -> None:
    """Begin the cadence anew of slots whose waiting feedback was taken: the mailbox is of a later generation."""
    for slot in state.slots:
        if slot.waits is not None and slot.waits != generation:
            slot.waits = None
            slot.at = max(slot.at or 0, taken_at)
    state.active_at = max(state.active_at, taken_at)


def period_ms(slot: Slot) -> int | None:
    """The period of its time trigger, in milliseconds; None: it has none."""
    seconds = slot.spec.trigger.every_n_seconds
    return None if seconds is None else max(1, round(min(seconds, FARTHEST) * 1000))
