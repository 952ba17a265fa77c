"""What a feedback provider is, how a host names one, and what becomes of its answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast, get_args, runtime_checkable

import msgspec

from tellback.contracts.guidance import Feedback, FeedbackTrigger, Observation, ProviderSpec, Severity
from tellback.errors import InvalidInput, TellbackError
from tellback.guidance.context import FeedbackContext

SUMMARY_MAX: Final = 2_000
ITEM_MAX: Final = 500
ITEMS_MAX: Final = 20
SEVERITIES: Final = get_args(Severity)


@runtime_checkable
class FeedbackProvider(Protocol):
    """Sees a context, may give feedback. Pure: the same context gives the same feedback.

    Source: feedback-providers, "Writing Custom Providers".
    """

    @property
    def name(self) -> str:
        """Who speaks; feedback is headed by it."""
        ...

    def should_run(self, *, context: FeedbackContext) -> bool:
        """Filter beyond the trigger; False leaves the cadence as it is."""
        ...

    def provide(self, *, context: FeedbackContext) -> Feedback:
        """The feedback for this moment."""
        ...


@dataclass(frozen=True, slots=True)
class FeedbackProviderConfig:
    """A provider and when it runs."""

    provider: FeedbackProvider
    trigger: FeedbackTrigger


class ProviderFailure(TellbackError):
    """A provider raised, hung, returned what is no feedback, or is not known to this worker; says which."""


class ProviderTimeout(ProviderFailure):
    """A provider did not return in time."""


def spec_of(config: FeedbackProviderConfig | ProviderSpec) -> ProviderSpec:
    """The provider as it travels: the name of its class and its fields.

    Raises:
        InvalidInput: not a provider, or its fields cannot be sent.
    """
    if isinstance(config, ProviderSpec):
        return config
    given: Any = config
    if not isinstance(given, FeedbackProviderConfig):
        raise InvalidInput(f"feedback_providers holds {given!r}; use FeedbackProviderConfig(provider, trigger)")
    provider: Any = config.provider
    if isinstance(provider, type) or not isinstance(provider, FeedbackProvider):
        raise InvalidInput(f"{provider!r} is no FeedbackProvider: it needs `name`, `should_run` and `provide`")
    name = type(provider).__name__
    trigger: Any = config.trigger
    if not isinstance(trigger, FeedbackTrigger):
        raise InvalidInput(f"the trigger of {name} is {trigger!r}; use FeedbackTrigger(...)")
    return ProviderSpec(name=name, trigger=trigger, fields=_rebuildable(type(provider), _fields(provider)))


def specs_of(feedback_providers: Iterable[FeedbackProviderConfig | ProviderSpec]) -> list[ProviderSpec]:
    """Each provider as it travels, in order.

    Raises:
        InvalidInput: as of `spec_of`; or it is no list of them.
    """
    given: Any = feedback_providers
    if not isinstance(given, Iterable):
        raise InvalidInput(f"feedback_providers is {given!r}; use a list of FeedbackProviderConfig")
    return [spec_of(config) for config in feedback_providers]


def _fields(provider: FeedbackProvider) -> dict[str, Any]:
    try:
        fields: object = msgspec.to_builtins(provider, str_keys=True)
    except (TypeError, RecursionError) as error:
        if not getattr(provider, "__dict__", None):
            return {}
        name = type(provider).__name__
        raise InvalidInput(f"{name}: make it a dataclass with plain fields; workers rebuild it from them") from error
    if not isinstance(fields, dict):
        raise InvalidInput(f"{type(provider).__name__}: its fields are no mapping")
    return cast("dict[str, Any]", fields)


def _rebuildable(cls: type[object], fields: dict[str, Any]) -> dict[str, Any]:
    """The fields, if a worker can make the provider from them: it could only count the failure, where nobody looks."""
    try:
        if fields:
            msgspec.convert(msgspec.json.decode(msgspec.json.encode(fields)), cls)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise InvalidInput(f"{cls.__name__}: {error}") from error
    except (TypeError, NameError):  # its annotations are such that only the workers' own class can tell
        return fields
    return fields


def ask(provider: FeedbackProvider, context: FeedbackContext) -> Feedback | None:
    """The provider's feedback, checked and bounded; None if it does not want to run.

    Raises:
        ProviderFailure: what it returned is no feedback.
    """
    if not provider.should_run(context=context):
        return None
    return _checked(provider.provide(context=context))


def _checked(answer: object) -> Feedback:
    if not isinstance(answer, Feedback):
        raise ProviderFailure(f"returned {type(answer).__name__}, not Feedback")
    given: Any = answer
    feedback = Feedback(  # cut before anything else is done with it: it may be larger than the memory that is left
        provider_name=_text("provider_name", given.provider_name, ITEM_MAX),
        summary=_text("summary", given.summary, SUMMARY_MAX),
        observations=tuple(_observation(each) for each in _items("observations", given.observations)),
        suggestions=tuple(_text("suggestions", each, ITEM_MAX) for each in _items("suggestions", given.suggestions)),
        severity=given.severity,
    )
    if feedback.severity not in SEVERITIES:
        raise _wrong("severity", "info, caution or warning", feedback.severity)
    if not feedback.summary.strip():
        raise ProviderFailure("returned a Feedback without a summary")
    try:
        msgspec.json.encode(feedback)
    except (TypeError, ValueError) as error:
        raise ProviderFailure(f"returned a Feedback that is not valid: {error}") from error
    return feedback


def _observation(given: object) -> Observation:
    if not isinstance(given, Observation):
        raise _wrong("observations", "Observation", given)
    return Observation(
        _text("observations.label", given.label, ITEM_MAX), _text("observations.value", given.value, ITEM_MAX)
    )


def _items(field: str, given: object) -> Sequence[object]:
    if not isinstance(given, tuple | list):
        raise _wrong(field, "a tuple", given)
    return cast("Sequence[object]", given)[:ITEMS_MAX]


def _text(field: str, given: object, limit: int) -> str:
    if not isinstance(given, str):
        raise _wrong(field, "str", given)
    text = given[: limit + 1]
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _wrong(field: str, expected: str, given: object) -> ProviderFailure:
    kind = repr(given)[:40] if isinstance(given, str) else type(given).__name__
    return ProviderFailure(f"returned a Feedback that is not valid: {field} has {kind}; use {expected}")
