"""Unit tests of feedback providers without Redis, Celery or a running clock.

    from tellback.testing import Pause, context, run

    def test_it_gives_feedback_at_the_fifth_call():
        fires = run(MyProvider(), 6, every_n_calls=1)
        assert [fire.call for fire in fires] == [5]

`run` rebuilds the provider from its name and fields, as a worker does, and applies events to an evaluation with the
worker's own code. `context` makes a `FeedbackContext` for a direct call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import msgspec

from tellback.contracts.guidance import (
    BudgetSpent,
    ContextChanged,
    DeliveryMode,
    EvaluationBegun,
    Feedback,
    FeedbackTrigger,
    FileSeen,
    Outcome,
    ProviderSpec,
    ToolCall,
    ToolInvoked,
)
from tellback.errors import TellbackError
from tellback.guidance.evaluation import (
    Event,
    ProviderInvoker,
    apply_event,
    fire_timers,
    next_timer,
    restart_taken_slots,
)
from tellback.guidance.observations.tools import ToolDeclaration, announced_effects, announced_names, parse_tools
from tellback.guidance.observations.values import value_text
from tellback.guidance.provider import (
    FeedbackContext,
    FeedbackProvider,
    FeedbackProviderConfig,
    ProviderFailure,
    invoke_provider,
    provider_spec,
)
from tellback.guidance.registry import ProviderRegistry
from tellback.guidance.state import BatchEffects, EvaluationState, new_evaluation

_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
_SESSION: Final = "session"
_PROMPT: Final = "prompt"
_EVALUATION: Final = "evaluation"
_IDLE_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call, as `prompt.tool_invoked` publishes it, `after` seconds after the step before."""

    tool: str = "tool"
    params: Mapping[str, Any] | None = None
    status: str = "success"
    result: object = None
    error: str | None = None
    outcome: Outcome | None = None
    after: float = 1.0


@dataclass(frozen=True, slots=True)
class Pause:
    """Seconds without a tool call, in which time triggers fire; with `take` the feedback is taken at the end."""

    seconds: float
    take: bool = True


@dataclass(frozen=True, slots=True)
class Spent:
    """A report of `prompt.spent`."""

    tokens: int = 0
    cost: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class Changed:
    """A change that `prompt.context_changed` publishes."""

    kind: str
    name: str
    detail: str | None = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class FileCreated:
    """A file for which a trigger waits exists from now on."""

    name: str


Step = Call | Pause | Spent | Changed | FileCreated


@dataclass(frozen=True, slots=True)
class Fire:
    """Feedback of a provider, with the index of its call and the seconds since the evaluation began.

    If `timed`, a timer fired it and `call` is the last call before.
    """

    call: int
    seconds: float
    feedback: Feedback
    timed: bool = False


def context(
    *,
    calls: Sequence[ToolCall | str] = (),
    elapsed: float = 60.0,
    remaining: float | None = None,
    **fields: Any,
) -> FeedbackContext:
    """Return a context for a direct call of `should_run` or `provide`; `fields` overrides any of its fields.

    `calls` are the recent tool calls, oldest first, or the names of their tools. `elapsed` is the seconds since the
    evaluation began, `remaining` the seconds to the deadline; without it there is no deadline.
    """
    now: datetime = fields.pop("now", _START + timedelta(seconds=elapsed))
    recent = tuple(
        ToolCall(at=_milliseconds(now), tool=call, call_index=index, prompt=_PROMPT, evaluation=_EVALUATION)
        if isinstance(call, str)
        else call
        for index, call in enumerate(calls, 1)
    )
    default = FeedbackContext(
        session=_SESSION,
        prompt=_PROMPT,
        evaluation=_EVALUATION,
        now=now,
        began_at=now - timedelta(seconds=elapsed),
        deadline=None if remaining is None else now + timedelta(seconds=remaining),
        tool_call_count=len(recent),
        recent=recent,
    )
    return replace(default, **fields)


def run(
    provider: FeedbackProvider,
    steps: int | Iterable[Step | str],
    *,
    every_n_calls: int | None = None,
    every_n_seconds: float | None = None,
    file_created: str | None = None,
    deadline: float | None = None,
    tools: Iterable[ToolDeclaration] = (),
    question: str | None = None,
) -> list[Fire]:
    """Run a provider through an evaluation and return its feedback; without a trigger it is due at each call.

    `steps` is a number of equal tool calls one second apart, or the steps in order; a string is a call of that tool.

    Raises:
        BrokenProvider: it returned something other than feedback, or a worker could not rebuild it. Exceptions of the
            provider itself propagate.
        InvalidInput: it is not a provider, or its fields cannot be sent.
    """
    trigger = FeedbackTrigger(every_n_calls, every_n_seconds, file_created)
    # An empty trigger never fires, and a test that runs a provider wants to see it run.
    if trigger == FeedbackTrigger():
        trigger = FeedbackTrigger(every_n_calls=1)
    configs = [FeedbackProviderConfig(provider, trigger)]
    return run_all(configs, steps, deadline=deadline, tools=tools, question=question)


def run_all(
    feedback_providers: Iterable[FeedbackProviderConfig],
    steps: int | Iterable[Step | str],
    *,
    delivery: DeliveryMode = "first",
    deadline: float | None = None,
    tools: Iterable[ToolDeclaration] = (),
    question: str | None = None,
) -> list[Fire]:
    """Run several providers with their triggers, in order, as `run` does one."""
    configs = list(feedback_providers)
    specs = [provider_spec(config) for config in configs]
    player = _ScenarioRunner(_TestInvoker(configs))
    declared = parse_tools(tools)
    names = announced_names(declared)
    player.apply(
        EvaluationBegun(
            event_id="begun",
            session=_SESSION,
            prompt=_PROMPT,
            evaluation=_EVALUATION,
            providers=specs,
            delivery=delivery,
            deadline_in=deadline,
            tools=names,
            effects=announced_effects(declared, names) or msgspec.UNSET,
            question=question,
        )
    )
    for what in [Call()] * steps if isinstance(steps, int) else steps:
        player.play(Call(tool=what) if isinstance(what, str) else what)
    return player.fires


class BrokenProvider(TellbackError):
    """The provider failed in a way that a worker would count as a failure; the message says how."""


class _TestInvoker(ProviderInvoker):
    """A provider invoker that rebuilds providers as a worker does, but lets their exceptions reach the test."""

    def __init__(self, configs: Iterable[FeedbackProviderConfig]) -> None:
        self._registry = ProviderRegistry({type(config.provider) for config in configs})

    def ask(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        try:
            return invoke_provider(self._registry.build(spec), context)
        except ProviderFailure as failure:
            raise BrokenProvider(str(failure)) from failure


class _ScenarioRunner:
    """One evaluation, its clock, and the feedback so far."""

    def __init__(self, invoker: _TestInvoker) -> None:
        self._invoker = invoker
        self._began = self._now = _milliseconds(_START)
        self._state: EvaluationState = new_evaluation(_SESSION, _PROMPT, _EVALUATION, self._now)
        self._taken = 0
        self.fires: list[Fire] = []

    def play(self, what: Step) -> None:
        match what:
            case Pause(seconds, take):
                self._pass_time(seconds, take=take)
            case Spent(tokens, cost):
                self.apply(
                    BudgetSpent(event_id="e", session=_SESSION, evaluation=_EVALUATION, tokens=tokens, cost=cost)
                )
            case Changed(kind, name, detail, by):
                self.apply(_context_changed(kind, name, detail, by))
            case FileCreated(name):
                self.apply(FileSeen(event_id="e", session=_SESSION, evaluation=_EVALUATION, name=name))
            case Call():
                self._now += round(what.after * 1000)
                self.apply(_tool_invoked(what))

    def apply(self, event: Event) -> None:
        # The worker's own function on the same state: a test must not pass where a worker would behave differently.
        effects = BatchEffects()
        apply_event(self._state, event, self._now, self._invoker, effects)
        self._record_fires(effects)

    def _pass_time(self, seconds: float, *, take: bool) -> None:
        """Fire each timer at the exact time at which it is due; in production the sweep is a little later."""
        end = self._now + round(seconds * 1000)
        while (at := next_timer(self._state, _IDLE_MS)) is not None and at <= end:
            self._now = max(at, self._now + 1)
            before = [slot.fires for slot in self._state.slots]
            effects = BatchEffects()
            fire_timers(self._state, self._now, self._invoker, effects, generation=self._taken, idle_ms=_IDLE_MS)
            renewed = {place for place in effects.timed if self._state.slots[place].fires == before[place]}
            self._record_fires(effects, renewed)
        self._now = end
        if take:
            self._taken += 1
            restart_taken_slots(self._state, self._taken, self._now)

    def _record_fires(self, effects: BatchEffects, renewed: Collection[int] = ()) -> None:
        seconds = (self._now - self._began) / 1000
        for feedback in effects.feedback:
            self.fires.append(Fire(feedback.call_index, seconds, feedback))
        for place, feedback in effects.timed.items():
            if place not in renewed:  # a timer renewed feedback that still waits: nothing new
                self.fires.append(Fire(feedback.call_index, seconds, feedback, timed=True))


def _tool_invoked(call: Call) -> ToolInvoked:
    return ToolInvoked(
        event_id="e",
        session=_SESSION,
        prompt=_PROMPT,
        evaluation=_EVALUATION,
        tool=call.tool,
        params=msgspec.to_builtins(dict(call.params or {}), str_keys=True),
        status=call.status,
        result=None if call.result is None else value_text(call.result),
        error=call.error,
        outcome=call.outcome,
    )


def _context_changed(kind: str, name: str, detail: str | None, by: str) -> ContextChanged:
    return ContextChanged(
        event_id="e", session=_SESSION, evaluation=_EVALUATION, kind=kind, name=name, detail=detail, by=by
    )


def _milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)
