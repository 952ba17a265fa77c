"""Feedback providers: the view of an evaluation that one receives, its form on the wire, and checks on what it returns.

A host sends a provider's class name and fields, never code; a worker rebuilds the provider from them (G-36). Every
answer is checked and bounded because a custom provider may return anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Protocol, cast, get_args, runtime_checkable

import msgspec

from tellback.contracts.guidance import (
    ContextChange,
    Feedback,
    FeedbackTrigger,
    Observation,
    ProviderSpec,
    Severity,
    ToolCall,
    ToolInvoked,
)
from tellback.errors import InvalidInput, TellbackError
from tellback.guidance.observations.evidence import Verdict, verdict_of
from tellback.guidance.progress.judge import judge_call, read_call
from tellback.guidance.progress.trail import ProgressTrail, StuckFinding
from tellback.guidance.repeats import decode_call
from tellback.truncation import truncate_chars

# Words of hosts for a failure; "denied" counts too, since the agent did not get what it asked for.
FAILED_STATUSES: Final = frozenset({"error", "failed", "failure", "denied"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LastFeedbackCounters:
    """The evaluation's counters at a provider's last feedback; zeros before the first."""

    call_index: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)
    changes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackContext:
    """An evaluation at one tool call, which is already counted, or with `timed` at a timer tick.

    `now`, `began_at` and `deadline` are server times in UTC. `last_feedback` is the prompt's last, by any provider;
    `own` has the counters at this provider's last feedback. `tokens_spent` and `cost_spent` are sums of host reports.
    `changes` has the newest of the `changes_total` published changes. `finding` is the newest of the measure of
    progress. The evaluation fills in `similar` and `failing`; read them through `similar_calls()` and
    `failures_in_a_row()`, which also work without them. Requirement G-27.
    """

    session: str
    prompt: str
    now: datetime
    began_at: datetime
    deadline: datetime | None = None
    last_feedback: Feedback | None = None
    tool_call_count: int = 0
    evaluation: str = ""
    tools: Sequence[str] = ()
    question: str | None = None
    recent: Sequence[msgspec.Raw | ToolCall] = ()
    own: LastFeedbackCounters = LastFeedbackCounters()
    tokens_spent: int = 0
    cost_spent: Decimal = Decimal(0)
    changes: Sequence[ContextChange] = ()
    changes_total: int = 0
    timed: bool = False
    similar: tuple[int, ...] | None = None
    failing: int | None = None
    failing_since: int = 0
    finding: StuckFinding | None = None

    @property
    def elapsed(self) -> timedelta:
        """The time since the evaluation began."""
        return self.now - self.began_at

    def tool_calls_since_last_feedback(self) -> int:
        """Count the tool calls since `last_feedback`, or all before the first."""
        return self.tool_call_count - (self.last_feedback.call_index if self.last_feedback else 0)

    def recent_tool_calls(self, n: int) -> tuple[ToolCall, ...]:
        """Return the last `n` tool calls, oldest first; at most 32 are kept."""
        return tuple(decode_call(call) for call in self.recent[-n:]) if n > 0 else ()

    def similar_calls(self) -> tuple[int, ...]:
        """Return the call indexes of calls that the newest repeats, its own last.

        A call repeats another if nothing happened in between that could change its answer, and its result is the same
        in substance. At most the newest 32 are returned.
        """
        return similar_calls(self.recent) if self.similar is None else self.similar

    def failures_in_a_row(self) -> int:
        """Count how many of the newest tool calls failed in a row."""
        if self.failing is not None:
            return self.failing
        # Without an evaluation, as in tests of a provider: the stored calls are the limit.
        count = 0
        for call in reversed(self.recent):
            if not call_failed(decode_call(call)):
                break
            count += 1
        return count

    def new_changes(self) -> tuple[ContextChange, ...]:
        """Return the stored changes that this provider has not reported yet, oldest first."""
        return tuple(change for change in self.changes if change.index > self.own.changes)


def call_verdict(call: ToolCall | ToolInvoked) -> Verdict:
    """Return what the call counts as: by its outcome, otherwise by the host's status.

    The outcome outranks the status because a host reports every exit code but 0 as a failure, also that of a `grep`
    without a match, and reports a call that its user refused as one.
    """
    if call.outcome is not None:
        return verdict_of(call.outcome.code)
    return "failure" if call.status in FAILED_STATUSES else "success"


def similar_calls(recent: Sequence[msgspec.Raw | ToolCall]) -> tuple[int, ...]:
    """Return the call indexes of the calls in `recent` that the newest repeats, its own last."""
    trail = ProgressTrail()
    repeats: tuple[int, ...] = ()
    calls = [decode_call(call) for call in recent]
    for place, call in enumerate(calls):
        event = invoked_again(call)
        reading = read_call(event, call_verdict(event))
        repeats = judge_call(trail, event, call.call_index, calls[:place], reading).repeats
    return repeats


def invoked_again(call: ToolCall) -> ToolInvoked:
    """Return the event of a stored call, with texts as long as they were stored."""
    return ToolInvoked(
        event_id="",
        session="",
        evaluation=call.evaluation,
        tool=call.tool,
        params=call.params,
        status=call.status,
        result=call.result,
        error=call.error,
        outcome=call.outcome,
    )


def call_failed(call: ToolCall | ToolInvoked) -> bool:
    """Check whether the call counts as failed."""
    return call_verdict(call) == "failure"


# Characters and items of one feedback. A mailbox holds 100 feedbacks, so these bound its memory (G-41).
SUMMARY_MAX: Final = 2_000
ITEM_MAX: Final = 500
ITEMS_MAX: Final = 20
SEVERITIES: Final = get_args(Severity)


@runtime_checkable
class FeedbackProvider(Protocol):
    """Turns a context into feedback, or declines. Keep it pure: the same context gives the same feedback.

    Requirements G-36 and G-13.
    """

    @property
    def name(self) -> str:
        """The name that heads the feedback."""
        ...

    def should_run(self, *, context: FeedbackContext) -> bool:
        """Decide beyond the trigger whether to run; False leaves the provider due."""
        ...

    def provide(self, *, context: FeedbackContext) -> Feedback:
        """Return the feedback for this context."""
        ...


class NamedByClass:
    """A provider whose feedback is headed by the name of its class."""

    @property
    def name(self) -> str:
        """The class name."""
        return type(self).__name__


@dataclass(frozen=True, slots=True)
class FeedbackProviderConfig:
    """A provider and the trigger that runs it."""

    provider: FeedbackProvider
    trigger: FeedbackTrigger


class ProviderFailure(TellbackError):
    """A provider raised, hung, returned no feedback, or is unknown to this worker; the message says which."""


class ProviderTimeout(ProviderFailure):
    """A provider did not return in time."""


class ProviderSkipped(TellbackError):
    """A provider was not called, because others had used up the time; it stays due."""


def provider_spec(config: FeedbackProviderConfig | ProviderSpec) -> ProviderSpec:
    """Return the provider's wire form: its class name and fields.

    Raises:
        InvalidInput: It is not a provider, or its fields cannot be sent.
    """
    if isinstance(config, ProviderSpec):
        return config
    given: Any = config
    if not isinstance(given, FeedbackProviderConfig):
        raise InvalidInput(f"feedback_providers holds {given!r}; use FeedbackProviderConfig(provider, trigger)")
    provider: Any = config.provider
    # A class has the attributes of the protocol too, and `isinstance` checks nothing else.
    if isinstance(provider, type) or not isinstance(provider, FeedbackProvider):
        raise InvalidInput(f"{provider!r} is not a FeedbackProvider: it needs `name`, `should_run` and `provide`")
    name = type(provider).__name__
    trigger: Any = config.trigger
    if not isinstance(trigger, FeedbackTrigger):
        raise InvalidInput(f"the trigger of {name} is {trigger!r}; use FeedbackTrigger(...)")
    return ProviderSpec(name=name, trigger=trigger, fields=_check_rebuildable(type(provider), _fields(provider)))


def provider_specs(feedback_providers: Iterable[FeedbackProviderConfig | ProviderSpec]) -> list[ProviderSpec]:
    """Return the wire form of each provider, in order.

    Raises:
        InvalidInput: The argument is not iterable, or `provider_spec` refuses one of its items.
    """
    given: Any = feedback_providers
    if not isinstance(given, Iterable):
        raise InvalidInput(f"feedback_providers is {given!r}; use a list of FeedbackProviderConfig")
    return [provider_spec(config) for config in feedback_providers]


def _fields(provider: FeedbackProvider) -> dict[str, Any]:
    try:
        fields: object = msgspec.to_builtins(provider, str_keys=True)
    except (TypeError, RecursionError) as error:
        if not getattr(provider, "__dict__", None):  # a plain class without state has nothing to send
            return {}
        name = type(provider).__name__
        raise InvalidInput(f"{name}: make it a dataclass with plain fields; workers rebuild it from them") from error
    if not isinstance(fields, dict):
        raise InvalidInput(f"{type(provider).__name__}: its fields are not a mapping")
    return cast("dict[str, Any]", fields)


def _check_rebuildable(cls: type[object], fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields if a worker can rebuild the provider: refused here, the error reaches the developer."""
    try:
        if fields:
            msgspec.convert(msgspec.json.decode(msgspec.json.encode(fields)), cls)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise InvalidInput(f"{cls.__name__}: {error}") from error
    except (TypeError, NameError):  # annotations that do not resolve here may resolve in the worker's own module
        return fields
    return fields


def invoke_provider(provider: FeedbackProvider, context: FeedbackContext) -> Feedback | None:
    """Return the provider's feedback, checked and bounded, or None if it declines to run.

    Raises:
        ProviderFailure: It returned something other than valid feedback.
    """
    if not provider.should_run(context=context):
        return None
    return _checked_feedback(provider.provide(context=context))


def _checked_feedback(answer: object) -> Feedback:
    if not isinstance(answer, Feedback):
        raise ProviderFailure(f"returned {type(answer).__name__}, not Feedback")
    given: Any = answer
    feedback = Feedback(  # truncated first: a copy of a huge answer could exceed the memory that is left
        provider_name=_checked_text("provider_name", given.provider_name, ITEM_MAX),
        summary=_checked_text("summary", given.summary, SUMMARY_MAX),
        observations=tuple(_checked_observation(each) for each in _checked_items("observations", given.observations)),
        suggestions=tuple(
            _checked_text("suggestions", each, ITEM_MAX) for each in _checked_items("suggestions", given.suggestions)
        ),
        severity=given.severity,
    )
    if feedback.severity not in SEVERITIES:
        raise _invalid_field("severity", "info, caution or warning", feedback.severity)
    if not feedback.summary.strip():
        raise ProviderFailure("returned a Feedback without a summary")
    try:
        msgspec.json.encode(feedback)
    except (TypeError, ValueError) as error:
        raise ProviderFailure(f"returned a Feedback that is not valid: {error}") from error
    return feedback


def _checked_observation(given: object) -> Observation:
    if not isinstance(given, Observation):
        raise _invalid_field("observations", "Observation", given)
    return Observation(
        _checked_text("observations.label", given.label, ITEM_MAX),
        _checked_text("observations.value", given.value, ITEM_MAX),
    )


def _checked_items(field: str, given: object) -> Sequence[object]:
    if not isinstance(given, tuple | list):
        raise _invalid_field(field, "a tuple", given)
    return cast("Sequence[object]", given)[:ITEMS_MAX]


def _checked_text(field: str, given: object, limit: int) -> str:
    if not isinstance(given, str):
        raise _invalid_field(field, "str", given)
    return truncate_chars(given, limit)


def _invalid_field(field: str, expected: str, given: object) -> ProviderFailure:
    kind = repr(given)[:40] if isinstance(given, str) else type(given).__name__
    return ProviderFailure(f"returned a Feedback that is not valid: {field} has {kind}; use {expected}")
