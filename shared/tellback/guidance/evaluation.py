"""Apply events and timers to the state of one evaluation, and collect the feedback that they earn.

`apply_event` and `fire_timers` are the complete semantics; their cost does not depend on how many calls were recorded
before. A timer tick is treated like a tool call: the first provider that is due wins it, and the others wait for the
next tick. Feedback from a timer waits in the mailbox, at most one item per slot. While it waits, its provider is asked
again at doubling intervals, and once more when the deadline has passed. Taking it restarts the slot's cadence.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, Protocol

import msgspec

from tellback.contracts.guidance import (
    BudgetSpent,
    ContextChange,
    ContextChanged,
    EvaluationBegun,
    Feedback,
    FileSeen,
    ProviderSpec,
    ToolInvoked,
)
from tellback.guidance.measures import count_call, counter_name, stored_tool_call
from tellback.guidance.progress.judge import CallReading
from tellback.guidance.progress.outside import note_change, note_prompt
from tellback.guidance.provider import (
    FeedbackContext,
    LastFeedbackCounters,
    ProviderFailure,
    ProviderSkipped,
    ProviderTimeout,
)
from tellback.guidance.state import (
    MAX_STORED_CHANGES,
    MAX_STORED_FILES,
    RECENT_CALLS,
    BatchEffects,
    EvaluationState,
    ProviderSlot,
)
from tellback.guidance.stuck_feedback import is_new, kinds_off
from tellback.names import USER_PROMPT

# A hundred years, in seconds despite the name: `datetime` ends at the year 9999, and a host may send any number.
MAX_TIMER_SECONDS: Final = 100 * 365 * 86_400.0
# Least time between two ticks of one slot: a deadline just after a tick must not cause a second one at once.
MIN_TIMER_GAP_MS: Final = 1_000


def is_due(slot: ProviderSlot, state: EvaluationState, now_ms: int) -> bool:
    """Check whether any condition of the trigger holds at a tool call, counted from the slot's own last feedback."""
    trigger = slot.spec.trigger
    if trigger.every_n_calls is not None and state.calls - slot.calls >= trigger.every_n_calls:
        return True
    if trigger.file_created is not None and not slot.file_reported and trigger.file_created in state.files:
        return True
    if trigger.every_n_seconds is None:
        return False
    every = trigger_period_ms(slot)
    return every is not None and now_ms - (state.began_at if slot.at is None else slot.at) >= every


def next_timer(state: EvaluationState, idle_ms: int) -> int | None:
    """Return the time of the next tick if no tool is called first, or None without time triggers or when abandoned."""
    times = [at for slot in state.slots if (at := slot_timer(slot, state, idle_ms)) is not None]
    return min(times) if times else None


def slot_timer(slot: ProviderSlot, state: EvaluationState, idle_ms: int) -> int | None:
    """Return when time alone makes this slot due or its waiting feedback outdated, or None for never.

    After the deadline a slot speaks once more (G-20). An evaluation without events for `idle_ms`, or for the slot's
    period if that is longer, counts as abandoned (G-19). A provider that was skipped is called soon (G-281).
    """
    if slot.skipped and not slot.disabled:
        return state.active_at
    every = trigger_period_ms(slot)
    if every is None or slot.disabled:
        return None
    since = state.began_at if slot.at is None else slot.at
    # It has spoken since the deadline: nothing that it could say later would be new.
    if state.deadline_at is not None and slot.at is not None and slot.at >= state.deadline_at:
        return None
    if slot.waits is None:
        at = max(since, slot.declined_at or 0) + every
    else:
        at = since + slot.gap
        if state.deadline_at is not None:
            at = min(at, max(state.deadline_at, since + MIN_TIMER_GAP_MS))
    return at if at <= state.active_at + max(idle_ms, every) else None


def restart_taken_slots(state: EvaluationState, generation: int, taken_at: int) -> None:
    """Restart the cadence of slots whose waiting feedback was taken: the mailbox has a later generation."""
    for slot in state.slots:
        if slot.waits is not None and slot.waits != generation:
            slot.waits = None
            slot.at = max(slot.at or 0, taken_at)
    state.active_at = max(state.active_at, taken_at)


def trigger_period_ms(slot: ProviderSlot) -> int | None:
    """Return the period of the slot's time trigger in milliseconds, or None without one."""
    seconds = slot.spec.trigger.every_n_seconds
    return None if seconds is None else max(1, round(min(seconds, MAX_TIMER_SECONDS) * 1000))


class ProviderInvoker(Protocol):
    """Calls a provider within its limits."""

    def awaits_finding(self, spec: ProviderSpec) -> bool:
        """Check whether a provider surely has nothing to say without a new finding of the measure of progress."""
        del spec
        return False

    def ask(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        """Return the provider's feedback, or None if it declines to run now.

        Raises:
            ProviderFailure: The provider raised, hung, or returned something other than feedback.
            ProviderSkipped: It was not called.
        """
        ...


class EvaluationSnapshot:
    """An evaluation at one server time, at which its due providers are called."""

    def __init__(self, state: EvaluationState, now_ms: int, invoker: ProviderInvoker, effects: BatchEffects) -> None:
        self.state = state
        self.now_ms = now_ms
        self._invoker = invoker
        self._effects = effects

    def fire_on_call(self, place: int, similar: tuple[int, ...]) -> bool:
        """Call a provider that is due at a tool call; return whether it gave feedback."""
        slot = self.state.slots[place]
        answer = self._invoke(slot, similar=similar)
        if answer is None:
            return False
        if slot.waits is not None:
            self._effects.outdated.add(place)  # the waiting feedback predates this call and must not arrive after it
            slot.waits = None
        self._count_fire(slot)
        self._effects.feedback.append(answer)
        self._add_feedback(answer)
        return True

    def fire_on_timer(self, place: int, generation: int) -> bool:
        """Call a provider whose timer is due; its feedback waits in the mailbox of this generation."""
        slot = self.state.slots[place]
        answer = self._invoke(slot, timed=True)
        if answer is None:
            slot.declined_at = self.now_ms  # else the timer would be due again at once
            return False
        slot.waits, slot.gap = generation, trigger_period_ms(slot) or 0
        self._count_fire(slot)
        self._effects.count(counter_name("provider", slot.spec.name, "timed"))
        self._effects.timed[place] = answer
        self._add_feedback(answer, timed=True)
        return True

    def refresh_pending(self, place: int) -> None:
        """Call a provider again while its feedback waits, so the agent reads something recent."""
        slot = self.state.slots[place]
        answer = self._invoke(slot, timed=True)
        slot.at = self.now_ms
        slot.gap *= 2  # an agent in one long call needs ever fewer renewals, and each one costs a provider call
        if answer is not None:
            self._reset_slot(slot)
            self._effects.timed[place] = answer
            self._add_feedback(answer, timed=True, renewed=True)

    def _invoke(self, slot: ProviderSlot, *, timed: bool = False, similar: tuple[int, ...] = ()) -> Feedback | None:
        """Call the provider and stamp its feedback. A failure costs only this feedback; the cadence continues."""
        slot.skipped = False
        try:
            answer = self._invoker.ask(slot.spec, self._provider_context(slot, timed=timed, similar=similar))
        except ProviderSkipped:
            slot.skipped = True
            return None
        except ProviderFailure as failure:
            self._count_failure(slot, failure)
            return None
        if answer is None:
            return None
        state = self.state
        return msgspec.structs.replace(answer, call_index=state.calls, prompt_name=state.prompt, at=self.now_ms)

    def _count_fire(self, slot: ProviderSlot) -> None:
        self._reset_slot(slot)
        slot.streak = 0
        slot.fires += 1
        self.state.fires += 1
        self._effects.count(counter_name("provider", slot.spec.name, "fires"))

    def _reset_slot(self, slot: ProviderSlot) -> None:
        state = self.state
        slot.calls, slot.at, slot.declined_at = state.calls, self.now_ms, None
        slot.tokens, slot.cost, slot.changes = state.tokens, state.cost, state.changes_total
        slot.file_reported = slot.file_reported or slot.spec.trigger.file_created in state.files

    def _count_failure(self, slot: ProviderSlot, failure: ProviderFailure) -> None:
        self._reset_slot(slot)  # as if it had fired: a broken provider must not cost its time-out with every call
        slot.failures += 1
        slot.streak += 1
        name = slot.spec.name
        self._effects.count(counter_name("provider", name, "failures"))
        late = isinstance(failure, ProviderTimeout)
        if late:
            self._effects.count(counter_name("provider", name, "timeouts"))
        if slot.disabled:
            self._effects.count(counter_name("provider", name, "disabled"))
        what = {"provider_name": name, "reason": str(failure)[:500], "timeout": late, "disabled": slot.disabled}
        self._add_history("provider_failure", what)

    def _add_feedback(self, feedback: Feedback, **marks: bool) -> None:
        self.state.last_feedback = feedback
        said: dict[str, Any] = msgspec.to_builtins(feedback)
        said.pop("prompt_name", None)  # every history entry already names its prompt
        self._add_history("feedback", {**said, **marks})

    def _add_history(self, kind: str, what: dict[str, Any]) -> None:
        state = self.state
        entry = {"kind": kind, "at": self.now_ms, "prompt": state.prompt, "evaluation": state.evaluation, **what}
        self._effects.history.append(msgspec.json.encode(entry))

    def _provider_context(self, slot: ProviderSlot, *, timed: bool, similar: tuple[int, ...]) -> FeedbackContext:
        state = self.state
        return FeedbackContext(
            session=state.session,
            prompt=state.prompt,
            evaluation=state.evaluation,
            now=_utc_datetime(self.now_ms),
            began_at=_utc_datetime(state.began_at),
            deadline=None if state.deadline_at is None else _utc_datetime(state.deadline_at),
            last_feedback=state.last_feedback,
            tool_call_count=state.calls,
            tools=tuple(state.tools),
            question=state.question,
            recent=tuple(state.recent),
            own=LastFeedbackCounters(call_index=slot.calls, tokens=slot.tokens, cost=slot.cost, changes=slot.changes),
            tokens_spent=state.tokens,
            cost_spent=state.cost,
            changes=tuple(state.changes),
            changes_total=state.changes_total,
            timed=timed,
            similar=similar,
            failing=state.trail.progress.failing,
            failing_since=state.trail.progress.failing_since,
            finding=state.trail.progress.finding,
        )


def _utc_datetime(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


Event = EvaluationBegun | ToolInvoked | BudgetSpent | ContextChanged | FileSeen


def apply_event(  # noqa: PLR0917 - all that an event's effect depends on
    state: EvaluationState,
    event: Event,
    now_ms: int,
    invoker: ProviderInvoker,
    effects: BatchEffects,
    reading: CallReading | None = None,
) -> None:
    """Apply one event that arrived at `now_ms` to `state`, in place, and add what it earned to `effects`.

    `reading` is that of a call which `read_calls` has read.
    """
    state.active_at = max(state.active_at, now_ms)
    if isinstance(event, ToolInvoked):
        _apply_call(state, event, now_ms, invoker, effects, reading)
    elif isinstance(event, EvaluationBegun):
        _merge_configuration(state, event, now_ms)
    elif isinstance(event, BudgetSpent):
        state.tokens += event.tokens
        state.cost += event.cost
    elif isinstance(event, ContextChanged):
        if event.by != state.evaluation:  # an agent knows its own changes
            record_change(state, at=now_ms, kind=event.kind, name=event.name, detail=event.detail, by=event.by)
    elif event.name not in state.files and len(state.files) < MAX_STORED_FILES:
        state.files.append(event.name)


def fire_timers(
    state: EvaluationState,
    now_ms: int,
    invoker: ProviderInvoker,
    effects: BatchEffects,
    *,
    generation: int,
    idle_ms: int,
) -> None:
    """Call the providers whose timers are due; `generation` is the mailbox's."""
    snapshot = EvaluationSnapshot(state, now_ms, invoker, effects)
    spoken = False
    for place, slot in enumerate(state.slots):
        at = slot_timer(slot, state, idle_ms)
        if at is None or at > now_ms:
            continue
        if slot.waits is not None:  # replaces its own message, so it does not compete for the tick
            snapshot.refresh_pending(place)
        elif not spoken or state.delivery == "all":
            spoken = snapshot.fire_on_timer(place, generation) or spoken


def record_change(
    state: EvaluationState, *, at: int, kind: str, name: str, detail: str | None = None, by: str = ""
) -> None:
    """Record a published change: the newest are kept, all are counted. A user's word is none that agents read of."""
    if kind == USER_PROMPT:
        note_prompt(state.trail.progress, state.calls)
        return
    state.changes_total += 1
    note_change(state.trail.progress, state.calls)
    change = ContextChange(index=state.changes_total, at=at, kind=kind, name=name, detail=detail, by=by)
    state.changes = [*state.changes[-(MAX_STORED_CHANGES - 1) :], change]


def _apply_call(  # noqa: PLR0917 - as above
    state: EvaluationState,
    event: ToolInvoked,
    now_ms: int,
    invoker: ProviderInvoker,
    effects: BatchEffects,
    reading: CallReading | None,
) -> None:
    state.calls += 1
    state.errors += event.status == "error"
    verdict = count_call(state, event, effects, reading)
    raw = stored_tool_call(event, now_ms, state.calls, verdict)
    effects.history.append(raw)
    state.recent.append(msgspec.Raw(raw))
    if len(state.recent) > RECENT_CALLS:
        del state.recent[0]
    for place, slot in enumerate(state.slots):
        if is_due(slot, state, now_ms) and not slot.disabled:
            # Most calls bring no finding, and a context takes longer than judging them.
            if invoker.awaits_finding(slot.spec) and not is_new(state.trail.progress.finding, slot.calls, state.calls):
                continue
            snapshot = EvaluationSnapshot(state, now_ms, invoker, effects)
            if snapshot.fire_on_call(place, verdict.repeats) and state.delivery == "first":
                return


def _merge_configuration(state: EvaluationState, event: EvaluationBegun, now_ms: int) -> None:
    """Set only what the evaluation lacks: a process that joins without a configuration changes nothing."""
    if not state.slots and event.providers:
        state.slots = [ProviderSlot(spec=spec) for spec in event.providers]
        state.delivery = event.delivery
        state.trail.progress.off = kinds_off(event.providers)
    if state.deadline_at is None and event.deadline_in is not None:
        state.deadline_at = now_ms + round(max(-MAX_TIMER_SECONDS, min(MAX_TIMER_SECONDS, event.deadline_in)) * 1000)
    if not state.tools and event.tools:
        state.tools, state.effects = event.tools, event.effects or ""
    state.question = state.question if state.question is not None else event.question
