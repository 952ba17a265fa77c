"""The providers that a worker can build by name: built-in, from entry points, or from its setting.

A worker runs nothing else: a host sends a name and fields, never code. `recommended_providers` is the set to start
with; docs/operations/replay.md has the transcripts that it was tuned on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

import msgspec

from tellback.contracts.guidance import FeedbackTrigger, ProviderSpec
from tellback.errors import ConfigurationError
from tellback.guidance.builtin_providers import (
    BudgetFeedback,
    ContextChangeFeedback,
    DeadlineFeedback,
    FailureStreakFeedback,
    RepeatedCallFeedback,
    StaticFeedback,
    ToolUsageMonitor,
)
from tellback.guidance.provider import FeedbackProvider, FeedbackProviderConfig, ProviderFailure
from tellback.guidance.stuck_feedback import StuckFeedback
from tellback.log import get_logger

GROUP: Final = "tellback.providers"
# Fields come from hosts, so the number of distinct providers has no bound of its own.
CACHE_MAX: Final = 1_000

BUILT_IN: Final[tuple[type[FeedbackProvider], ...]] = (
    BudgetFeedback,
    ContextChangeFeedback,
    DeadlineFeedback,
    FailureStreakFeedback,
    RepeatedCallFeedback,
    StaticFeedback,
    StuckFeedback,
    ToolUsageMonitor,
)

_logger = get_logger("tellback.providers")


class ProviderRegistry:
    """Provider classes by name, and the providers built from them."""

    def __init__(self, custom: Iterable[type[Any]] = ()) -> None:
        """Register the built-in classes, then the custom ones, which replace built-in classes of the same name.

        Raises:
            ConfigurationError: Two custom classes have the same name.
        """
        self._classes: dict[str, type[Any]] = {cls.__name__: cls for cls in BUILT_IN}
        self._custom: set[str] = set()
        self._built: dict[bytes, FeedbackProvider] = {}
        for cls in custom:
            self._register(cls)

    def _register(self, cls: type[Any]) -> None:
        name = cls.__name__
        if name in self._custom and self._classes[name] is not cls:
            other = self._classes[name]
            raise ConfigurationError(f"two feedback providers are named {name}: {cls.__module__}, {other.__module__}")
        self._classes[name] = cls
        self._custom.add(name)

    @property
    def names(self) -> list[str]:
        """All names that a host may send, sorted."""
        return sorted(self._classes)

    @property
    def has_custom(self) -> bool:
        """True if any custom class is registered."""
        return bool(self._custom)

    def is_custom(self, name: str) -> bool:
        """Check whether a provider of this name is custom, and so needs isolation."""
        return name in self._custom

    def reads_changes(self, name: str) -> bool:
        """Check whether a provider of this name may read changes; for others the worker does not load them."""
        return name == ContextChangeFeedback.__name__ or name in self._custom

    def awaits_finding(self, spec: ProviderSpec) -> bool:
        """Check whether this is a `StuckFeedback` that was built before, so that its fields are known to fit."""
        return type(self._built.get(_key_of(spec))) is StuckFeedback

    def build(self, spec: ProviderSpec) -> FeedbackProvider:
        """Return the provider for a spec; equal specs give the same object.

        Raises:
            ProviderFailure: The name is unknown here, or the fields do not fit the class.
        """
        key = _key_of(spec)
        provider = self._built.get(key)
        if provider is None:
            provider = self._construct(spec)
            if len(self._built) >= CACHE_MAX:
                self._built.clear()  # providers are cheap to build, so no order of use is kept
            self._built[key] = provider
        return provider

    def _construct(self, spec: ProviderSpec) -> FeedbackProvider:
        cls = self._classes.get(spec.name)
        if cls is None:
            raise ProviderFailure(f"no provider {spec.name} on this worker; it has {', '.join(self.names)}")
        # msgspec ignores unknown fields, so a misspelled one would silently keep its default.
        unknown = set(spec.fields) - set(_struct_field_names(cls))
        if unknown:
            raise ProviderFailure(f"{spec.name} has no field {', '.join(sorted(unknown))}")
        try:
            provider = msgspec.convert(spec.fields, cls) if _struct_field_names(cls) or spec.fields else cls()
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            raise ProviderFailure(f"{spec.name} cannot be made from these fields: {error}") from error
        if not isinstance(provider, FeedbackProvider):
            raise ProviderFailure(f"{spec.name} is not a FeedbackProvider: it needs name, should_run and provide")
        return provider


def _key_of(spec: ProviderSpec) -> bytes:
    return msgspec.json.encode((spec.name, spec.fields))


def _struct_field_names(cls: type[Any]) -> list[str]:
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    return list(getattr(cls, "__struct_fields__", ()))


def load_registry(setting: str) -> ProviderRegistry:
    """Load built-in providers, those of the entry point group `tellback.providers`, and those named by `setting`.

    An entry point that cannot be imported, or is not a class, is logged and left out; a name in the setting must work.

    Raises:
        ConfigurationError: The setting names something that cannot be imported, or two classes have the same name.
    """
    found: list[type[Any]] = []
    for entry in entry_points(group=GROUP):
        try:
            cls = entry.load()
        except (Exception, SystemExit):  # another package's fault must not stop the worker
            _logger.exception("provider.not_loaded", entry_point=entry.value)
            continue
        if isinstance(cls, type):
            found.append(cls)
        else:
            _logger.error("provider.no_class", entry_point=entry.value)
    return ProviderRegistry([*found, *(_import_provider(path.strip()) for path in setting.split(",") if path.strip())])


def _import_provider(path: str) -> type[Any]:
    module, _, name = path.partition(":")
    try:
        cls = getattr(import_module(module), name)
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"TELLBACK_PROVIDERS: {path} cannot be imported: {error}") from error
    if not isinstance(cls, type):
        raise ConfigurationError(f"TELLBACK_PROVIDERS: {path} is not a class; write module:Class")
    return cls


def recommended_providers() -> list[FeedbackProviderConfig]:
    """Return providers for any agent that calls tools: silent while it makes progress, and specific when it does not.

    That is `StuckFeedback`, which speaks when the measure of progress finds that calls bring nothing new, at most once
    in 25 calls to an agent whose calls succeed, and never twice about the same. Add `DeadlineFeedback` for a deadline
    and `BudgetFeedback` for a budget; `ToolUsageMonitor`, `FailureStreakFeedback` and `RepeatedCallFeedback` count.
    """
    return [FeedbackProviderConfig(StuckFeedback(), FeedbackTrigger(every_n_calls=1))]
