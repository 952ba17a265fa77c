"""Unit tests of feedback providers without Redis, Celery or a clock that moves by itself.

    from tellback.testing import Pause, context, run

    def test_it_speaks_at_the_fifth_call():
        fires = run(MyProvider(), 6, every_n_calls=1)
        assert [fire.call for fire in fires] == [5]

`run` sends the provider the way that a worker gets it, by its name and fields, and steps an evaluation as a worker
does; `context` makes a `FeedbackContext` for a direct call.
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
    Delivery,
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
from tellback.guidance.cadence import forget_taken, next_look
from tellback.guidance.context import FeedbackContext
from tellback.guidance.evaluation import Effects, EvaluationState, Event, begin, look, step
from tellback.guidance.provider import FeedbackProvider, FeedbackProviderConfig, ProviderFailure, ask, spec_of
from tellback.guidance.registry import Registry

_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
_SESSION: Final = "session"
_PROMPT: Final = "prompt"
_EVALUATION: Final = "evaluation"
_IDLE_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call, as `prompt.tool_invoked` would tell it, `after` seconds after what came before."""

    tool: str = "tool"
    params: Mapping[str, Any] | None = None
    status: str = "success"
    result: str | None = None
    error: str | None = None
    outcome: Outcome | None = None
    after: float = 1.0


@dataclass(frozen=True, slots=True)
class Pause:
    """Time without a tool call, in seconds: time triggers fire in it. `take`: at its end the feedback is taken."""

    seconds: float
    take: bool = True


@dataclass(frozen=True, slots=True)
class Spent:
    """What `prompt.spent` would report."""

    tokens: int = 0
    cost: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class Changed:
    """What `prompt.context_changed` would tell."""

    kind: str
    name: str
    detail: str | None = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class FileCreated:
    """A file that a trigger waits for is there from now on."""

    name: str


Step = Call | Pause | Spent | Changed | FileCreated


@dataclass(frozen=True, slots=True)
class Fire:
    """A provider spoke: at which call (the last before, if `timed`), and when, in seconds from the beginning."""

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
    """A context for a direct call of `should_run` or `provide`; every field may be given.

    `calls` are the recent tool calls, oldest first, or their tools' names. `elapsed` and `remaining` are seconds since
    the beginning and to the deadline; without `remaining` there is none.
    """
    now: datetime = fields.pop("now", _START + timedelta(seconds=elapsed))
    recent = tuple(
        ToolCall(at=_ms(now), tool=call, call_index=index, prompt=_PROMPT, evaluation=_EVALUATION)
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
    tools: Sequence[str] = (),
    question: str | None = None,
) -> list[Fire]:
    """When one provider speaks in an evaluation, and what it says; without a trigger it is due at each call.

    `steps` is a number of equal tool calls a second apart, or what happens, in order; a text is a call of that tool.

    Raises:
        BrokenProvider: it returned what is no feedback, or a worker could not rebuild it. What it raises passes.
        InvalidInput: it is no provider, or its fields cannot be sent.
    """
    trigger = FeedbackTrigger(every_n_calls, every_n_seconds, file_created)
    if trigger == FeedbackTrigger():
        trigger = FeedbackTrigger(every_n_calls=1)
    configs = [FeedbackProviderConfig(provider, trigger)]
    return run_all(configs, steps, deadline=deadline, tools=tools, question=question)


def run_all(
    feedback_providers: Iterable[FeedbackProviderConfig],
    steps: int | Iterable[Step | str],
    *,
    delivery: Delivery = "first",
    deadline: float | None = None,
    tools: Sequence[str] = (),
    question: str | None = None,
) -> list[Fire]:
    """As `run`, for several providers with their triggers, in order."""
    configs = list(feedback_providers)
    specs = [spec_of(config) for config in configs]
    player = _Player(_Panel(configs))
    player.apply(
        EvaluationBegun(
            event_id="begun",
            session=_SESSION,
            prompt=_PROMPT,
            evaluation=_EVALUATION,
            providers=specs,
            delivery=delivery,
            deadline_in=deadline,
            tools=list(tools),
            question=question,
        )
    )
    for what in [Call()] * steps if isinstance(steps, int) else steps:
        player.play(Call(tool=what) if isinstance(what, str) else what)
    return player.fires


class BrokenProvider(TellbackError):
    """What a worker would count as a failure of the provider; says what is wrong."""


class _Panel:
    """Asks providers as a worker rebuilds them; a failure is the test's, and so is whatever a provider raises."""

    def __init__(self, configs: Iterable[FeedbackProviderConfig]) -> None:
        self._registry = Registry({type(config.provider) for config in configs})

    def ask(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        try:
            return ask(self._registry.build(spec), context)
        except ProviderFailure as failure:
            raise BrokenProvider(str(failure)) from failure


class _Player:
    """One evaluation, its clock, and what it has earned."""

    def __init__(self, panel: _Panel) -> None:
        self._panel = panel
        self._began = self._now = _ms(_START)
        self._state: EvaluationState = begin(_SESSION, _PROMPT, _EVALUATION, self._now)
        self._taken = 0
        self.fires: list[Fire] = []

    def play(self, what: Step) -> None:
        match what:
            case Pause(seconds, take):
                self._pass(seconds, take=take)
            case Spent(tokens, cost):
                self.apply(
                    BudgetSpent(event_id="e", session=_SESSION, evaluation=_EVALUATION, tokens=tokens, cost=cost)
                )
            case Changed(kind, name, detail, by):
                self.apply(_changed(kind, name, detail, by))
            case FileCreated(name):
                self.apply(FileSeen(event_id="e", session=_SESSION, evaluation=_EVALUATION, name=name))
            case Call():
                self._now += round(what.after * 1000)
                self.apply(_invoked(what))

    def apply(self, event: Event) -> None:
        effects = Effects()
        step(self._state, event, self._now, self._panel, effects)
        self._keep(effects)

    def _pass(self, seconds: float, *, take: bool) -> None:
        """Look whenever a look is due, as the sweep does, if at the very moment."""
        end = self._now + round(seconds * 1000)
        while (at := next_look(self._state, _IDLE_MS)) is not None and at <= end:
            self._now = max(at, self._now + 1)
            before = [slot.fires for slot in self._state.slots]
            effects = Effects()
            look(self._state, self._now, self._panel, effects, generation=self._taken, idle_ms=_IDLE_MS)
            renewed = {place for place in effects.timed if self._state.slots[place].fires == before[place]}
            self._keep(effects, renewed)
        self._now = end
        if take:
            self._taken += 1
            forget_taken(self._state, self._taken, self._now)

    def _keep(self, effects: Effects, renewed: Collection[int] = ()) -> None:
        seconds = (self._now - self._began) / 1000
        for feedback in effects.feedback:
            self.fires.append(Fire(feedback.call_index, seconds, feedback))
        for place, feedback in effects.timed.items():
            if place not in renewed:  # what waits is renewed, and is no further feedback
                self.fires.append(Fire(feedback.call_index, seconds, feedback, timed=True))


def _invoked(call: Call) -> ToolInvoked:
    return ToolInvoked(
        event_id="e",
        session=_SESSION,
        prompt=_PROMPT,
        evaluation=_EVALUATION,
        tool=call.tool,
        params=msgspec.to_builtins(dict(call.params or {}), str_keys=True),
        status=call.status,
        result=call.result,
        error=call.error,
        outcome=call.outcome,
    )


def _changed(kind: str, name: str, detail: str | None, by: str) -> ContextChanged:
    return ContextChanged(
        event_id="e", session=_SESSION, evaluation=_EVALUATION, kind=kind, name=name, detail=detail, by=by
    )


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
