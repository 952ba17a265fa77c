"""The providers that a worker knows by name: built in, found as entry points, or named by its setting.

What is not here does not run: a host sends a name and fields, never code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

import msgspec

from tellback.contracts.guidance import ProviderSpec
from tellback.errors import ConfigurationError
from tellback.guidance.budget import BudgetFeedback
from tellback.guidance.changes import ContextChangeFeedback
from tellback.guidance.deadline import DeadlineFeedback
from tellback.guidance.failures import FailureStreakFeedback
from tellback.guidance.provider import FeedbackProvider, ProviderFailure
from tellback.guidance.repeated import RepeatedCallFeedback
from tellback.guidance.static import StaticFeedback
from tellback.guidance.usage import ToolUsageMonitor
from tellback.log import get_logger

GROUP: Final = "tellback.providers"
CACHE_MAX: Final = 1_000
BUILT_IN: Final[tuple[type[FeedbackProvider], ...]] = (
    BudgetFeedback,
    ContextChangeFeedback,
    DeadlineFeedback,
    FailureStreakFeedback,
    RepeatedCallFeedback,
    StaticFeedback,
    ToolUsageMonitor,
)

_log = get_logger("tellback.providers")


class Registry:
    """Provider classes by name, and the providers built from them."""

    def __init__(self, custom: Iterable[type[Any]] = ()) -> None:
        """Take custom classes; one that is named as a built-in one replaces it.

        Raises:
            ConfigurationError: two custom classes have one name.
        """
        self._classes: dict[str, type[Any]] = {cls.__name__: cls for cls in BUILT_IN}
        self._custom: set[str] = set()
        self._built: dict[bytes, FeedbackProvider] = {}
        for cls in custom:
            self._add(cls)

    def _add(self, cls: type[Any]) -> None:
        name = cls.__name__
        if name in self._custom and self._classes[name] is not cls:
            other = self._classes[name]
            raise ConfigurationError(f"two feedback providers are named {name}: {cls.__module__}, {other.__module__}")
        self._classes[name] = cls
        self._custom.add(name)

    @property
    def names(self) -> list[str]:
        """Every name that a host may send."""
        return sorted(self._classes)

    @property
    def has_custom(self) -> bool:
        """Whether there is code of others."""
        return bool(self._custom)

    def is_custom(self, name: str) -> bool:
        """Whether a provider of this name is code of others."""
        return name in self._custom

    def asks_changes(self, name: str) -> bool:
        """Whether a provider of this name may ask what has changed: others are spared the reading."""
        return name == ContextChangeFeedback.__name__ or name in self._custom

    def build(self, spec: ProviderSpec) -> FeedbackProvider:
        """The provider that a host asked for; the same spec gives the same object.

        Raises:
            ProviderFailure: the name is not known here, or the fields are not those of the class.
        """
        key = msgspec.json.encode((spec.name, spec.fields))
        provider = self._built.get(key)
        if provider is None:
            provider = self._construct(spec)
            if len(self._built) >= CACHE_MAX:
                self._built.clear()
            self._built[key] = provider
        return provider

    def _construct(self, spec: ProviderSpec) -> FeedbackProvider:
        cls = self._classes.get(spec.name)
        if cls is None:
            raise ProviderFailure(f"no provider {spec.name} on this worker; it has {', '.join(self.names)}")
        unknown = set(spec.fields) - set(_field_names(cls))
        if unknown:
            raise ProviderFailure(f"{spec.name} has no field {', '.join(sorted(unknown))}")
        try:
            provider = msgspec.convert(spec.fields, cls) if _field_names(cls) or spec.fields else cls()
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            raise ProviderFailure(f"{spec.name} cannot be made from these fields: {error}") from error
        if not isinstance(provider, FeedbackProvider):
            raise ProviderFailure(f"{spec.name} is no FeedbackProvider: it needs name, should_run and provide")
        return provider


def _field_names(cls: type[Any]) -> list[str]:
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    return list(getattr(cls, "__struct_fields__", ()))


def load_registry(setting: str) -> Registry:
    """Built-in providers, those of the entry point group `tellback.providers`, and those that `setting` names.

    An entry point that cannot be imported, or is no class, is logged and left out; a name in the setting must work.

    Raises:
        ConfigurationError: the setting names what cannot be imported, or two classes of one name.
    """
    found: list[type[Any]] = []
    for entry in entry_points(group=GROUP):
        try:
            cls = entry.load()
        except (Exception, SystemExit):  # noqa: BLE001 - another package's fault must not stop the worker
            _log.exception("provider.not_loaded", entry_point=entry.value)
            continue
        if isinstance(cls, type):
            found.append(cls)
        else:
            _log.error("provider.no_class", entry_point=entry.value)
    return Registry([*found, *(_imported(path.strip()) for path in setting.split(",") if path.strip())])


def _imported(path: str) -> type[Any]:
    module, _, name = path.partition(":")
    try:
        cls = getattr(import_module(module), name)
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"TELLBACK_PROVIDERS: {path} cannot be imported: {error}") from error
    if not isinstance(cls, type):
        raise ConfigurationError(f"TELLBACK_PROVIDERS: {path} is no class; write module:Class")
    return cls
