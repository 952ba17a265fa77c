"""The runner of a turn's pipeline, and the loading of custom systems from entry points and settings.

Systems run in order. None can stop the others or take away the user's response: a system that raises is rolled back,
and what it leaves invalid is repaired, before the next one runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final, cast

from tellback.contracts.turns import SystemFailure
from tellback.errors import ConfigurationError, InvalidInput, TellbackError
from tellback.log import get_logger
from tellback.turns.fallback_text import Words
from tellback.turns.pipeline.checks import (
    clean_failure,
    error_line,
    failure_from_exception,
    repair_context,
    restore_context,
    sanitize_context,
    snapshot_context,
)
from tellback.turns.pipeline.context import AgentSystem, TurnContext
from tellback.turns.pipeline.systems import (
    ErrorInterpretationSystem,
    FeedbackGuaranteeSystem,
    OutgoingResponsePreparationSystem,
    ResponseRoutingSystem,
    SendResponse,
)

HOST_STEP: Final = "host"  # the system name in failures of a context that its host built wrong

BUILT_IN: Final = (
    ErrorInterpretationSystem.name,
    OutgoingResponsePreparationSystem.name,
    FeedbackGuaranteeSystem.name,
    ResponseRoutingSystem.name,
)


class SystemStopped(TellbackError):
    """A custom system was stopped or not run; the message says why, unless the cause is its own exception."""


SystemGuardCallable = Callable[[AgentSystem, Callable[[], None]], None]
"""Calls a custom system by calling the second argument; raises if it failed, hung or was not run."""

_logger = get_logger("tellback.turns")


class TurnPipeline:
    """The ordered systems of turns; `run` takes one turn through them.

    A system that raises has no effect and is recorded in `system_errors`; the later systems still run. An exception
    that isn't an `Exception` (KeyboardInterrupt, SystemExit, a task's cancellation) belongs to the host and propagates;
    the turn then stays open until the sweep answers it. The pipeline doesn't stop a system that hangs: workers do.
    """

    def __init__(
        self,
        systems: Iterable[AgentSystem] = (),
        *,
        words: Words | None = None,
        interpret_errors: bool = False,
        voice_channels: Collection[str] = (),
    ) -> None:
        """Sort the systems by order; of equal orders a built-in system runs first, then the one given first.

        Raises:
            ConfigurationError: a system is invalid, has no usable order, or shares a name with another.
        """
        words = words or Words()
        ours: list[AgentSystem] = [
            OutgoingResponsePreparationSystem(words, voice_channels=voice_channels),
            FeedbackGuaranteeSystem(words),
        ]
        if interpret_errors:
            ours.append(ErrorInterpretationSystem(words))
        self._custom = check_systems(systems)
        placed = [(system.order, index, system) for index, system in enumerate((*ours, *self._custom))]
        placed.sort(key=lambda place: place[:2])
        self._before = [system for order, _, system in placed if order <= ResponseRoutingSystem.order]
        self._after = [system for order, _, system in placed if order > ResponseRoutingSystem.order]

    @property
    def names(self) -> list[str]:
        """The names of the systems in the order in which they run."""
        before, after = ([system.name for system in part] for part in (self._before, self._after))
        return [*before, ResponseRoutingSystem.name, *after]

    def run(
        self, context: TurnContext, transport: SendResponse | None = None, *, guard: SystemGuardCallable | None = None
    ) -> TurnContext:
        """Run every system on the context and return the same context with its `routing_outcome` set.

        `guard` calls the custom systems. Invalid fields in the host's context are recorded and reset.

        Raises:
            InvalidInput: `context` isn't a `TurnContext`.
        """
        if not isinstance(cast("object", context), TurnContext):
            raise InvalidInput(f"context: a TurnContext, not {type(context).__name__}")
        _record_invalid(context, HOST_STEP, sanitize_context(context))
        for system in (*self._before, ResponseRoutingSystem(transport), *self._after):
            custom = any(system is each for each in self._custom)
            self._run_system(system, context, guard if custom else None, custom=custom)
        return context

    def _run_system(
        self, system: AgentSystem, context: TurnContext, guard: SystemGuardCallable | None, *, custom: bool
    ) -> None:
        before = snapshot_context(context)

        def run_guarded() -> None:
            if system.should_process(context):
                system.process(context)

        try:
            if guard is None:
                run_guarded()
            else:
                guard(system, run_guarded)
        except Exception as error:  # noqa: BLE001 - a failing system must not cost the user the answer
            restore_context(context, before)
            # SystemStopped only wraps; the type of the system's own exception tells operators more.
            cause = error.__cause__ if isinstance(error, SystemStopped) else None
            _record_failure(context, failure_from_exception(system.name, cause or error))
        else:
            if custom:  # the built-in systems leave nothing to repair
                _record_invalid(context, system.name, repair_context(context, before))


def _record_invalid(context: TurnContext, system: str, problems: Iterable[str]) -> None:
    for problem in problems:
        _record_failure(context, clean_failure(SystemFailure(system=system, error="InvalidInput", message=problem)))


def _record_failure(context: TurnContext, failure: SystemFailure) -> None:
    context.system_errors.append(failure)
    _logger.warning("turn.system_failed", turn=context.turn.id, system=failure.system, error=failure.error)


def check_systems(systems: Iterable[AgentSystem]) -> tuple[AgentSystem, ...]:
    """Check that a pipeline can run these systems, and return them.

    Raises:
        ConfigurationError: a system is invalid, has no usable order, or shares a name with another.
    """
    found: dict[str, AgentSystem] = {}
    for system in systems:
        name, order = _order_key(system)
        if name in BUILT_IN:
            raise ConfigurationError(f"a system is named {name}, as one of ours: give it another name")
        if name in found:
            raise ConfigurationError(
                f"two systems are named {name}: {_system_kind(found[name])} and {_system_kind(system)}"
            )
        if isinstance(order, bool) or not isinstance(order, int | float) or not math.isfinite(order):
            raise ConfigurationError(f"the system {name}: its order is {order!r}; use a number, like 50")
        found[name] = system
    return tuple(found.values())


def _order_key(given: Any) -> tuple[str, object]:
    name: Any = None
    order: Any = None
    try:
        # A class passes the protocol's isinstance check as well, so a forgotten pair of brackets is caught here.
        if not isinstance(given, type) and isinstance(given, AgentSystem):
            name, order = given.name, given.order
    except Exception as error:
        raise ConfigurationError(
            f"{_system_kind(given)}: its name or order raised {error_line(str(error), 200)}"
        ) from error
    if not isinstance(name, str) or not name or error_line(name, 200) != name:
        raise ConfigurationError(
            f"{_system_kind(given)} is not an AgentSystem: it needs `name` (a short text), `order`, `should_process` "
            "and `process`"
        )
    return name, order


def _system_kind(system: object) -> str:
    cls = system if isinstance(system, type) else type(system)
    return f"{cls.__module__}.{cls.__qualname__}"


ENTRY_POINT_GROUP: Final = "tellback.systems"


def load_systems(setting: str) -> tuple[AgentSystem, ...]:
    """Load the systems of the entry point group `tellback.systems`, then those in `setting`: `module:Class,…`.

    Classes are called without arguments. An entry point that fails is logged and left out, since installing a package
    must not stop a worker; a system that you name in the setting must load.

    Raises:
        ConfigurationError: a system in the setting can't be created, or two systems share a name.
    """
    found: list[AgentSystem] = []
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        try:
            found += check_systems([_instantiate(entry.load())])
        except Exception:  # another package's bug must not stop the worker
            _logger.exception("system.not_loaded", entry_point=entry.value)
    for path in (part.strip() for part in setting.split(",") if part.strip()):
        try:
            module, _, name = path.partition(":")
            found.append(_instantiate(getattr(import_module(module), name)))
        except Exception as error:
            raise ConfigurationError(f"TELLBACK_SYSTEMS: {path} cannot be made: {error}") from error
    try:
        return check_systems(found)
    except ConfigurationError as error:
        raise ConfigurationError(f"TELLBACK_SYSTEMS, or the entry points {ENTRY_POINT_GROUP}: {error}") from error


def _instantiate(given: Any) -> AgentSystem:
    system: AgentSystem = given() if isinstance(given, type) else given
    return system
