"""Runs the systems in their order; none of them can stop the rest, or take away what a user is to receive."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, cast

from tellback.contracts.llm import SystemFailure
from tellback.errors import ConfigurationError, InvalidInput, TellbackError
from tellback.log import get_logger
from tellback.turns.pipeline.checks import admit, repair, restore, snapshot
from tellback.turns.pipeline.context import TurnContext
from tellback.turns.pipeline.failures import cleaned_failure, failure_of, note
from tellback.turns.pipeline.guarantee import FeedbackGuaranteeSystem
from tellback.turns.pipeline.interpretation import ErrorInterpretationSystem
from tellback.turns.pipeline.preparation import OutgoingResponsePreparationSystem
from tellback.turns.pipeline.routing import ResponseRoutingSystem, Transport
from tellback.turns.pipeline.system import AgentSystem
from tellback.turns.words import Words

HOST: Final = "host"  # stands for the system where the context came in with what nobody can send
BUILT_IN: Final = (
    ErrorInterpretationSystem.name,
    OutgoingResponsePreparationSystem.name,
    FeedbackGuaranteeSystem.name,
    ResponseRoutingSystem.name,
)


class SystemStopped(TellbackError):
    """A custom system was ended, or not run: the message says why, or the cause is what it raised."""


Guard = Callable[[AgentSystem, Callable[[], None]], None]
"""Calls a custom system: the second argument runs it. May raise to say that it failed, hung or was not run."""

_log = get_logger("tellback.turns")


class TurnPipeline:
    """The systems of turns, in order: `run` takes one turn through them.

    A system that raises has no effect, is recorded in `system_errors`, and the later ones still run. What is no
    `Exception` (KeyboardInterrupt, SystemExit, a task's cancellation) is the host's own and goes its way; the turn
    stays open then, and the sweep answers it. Nothing here ends a system that hangs: the workers do.
    """

    def __init__(
        self,
        systems: Iterable[AgentSystem] = (),
        *,
        words: Words | None = None,
        interpret_errors: bool = False,
        voice_channels: Collection[str] = (),
    ) -> None:
        """Take systems of your own, the words, and what of ours is optional.

        Of two systems with one order ours runs first, then the one that was given first.

        Raises:
            ConfigurationError: what was given is no system, or has no order, or the name of another.
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
        """The systems in the order in which they run."""
        before, after = ([system.name for system in part] for part in (self._before, self._after))
        return [*before, ResponseRoutingSystem.name, *after]

    def run(
        self, context: TurnContext, transport: Transport | None = None, *, guard: Guard | None = None
    ) -> TurnContext:
        """Take the context through every system; the same object comes back, its `routing_outcome` set.

        `guard` calls the systems that are not ours. What a host gave and no system can read is recorded and passed
        over.

        Raises:
            InvalidInput: not a `TurnContext`.
        """
        if not isinstance(cast("object", context), TurnContext):
            raise InvalidInput(f"context: a TurnContext, not {type(context).__name__}")
        problems = admit(context)
        _record(context, [SystemFailure(system=HOST, error="InvalidInput", message=told) for told in problems])
        for system in (*self._before, ResponseRoutingSystem(transport), *self._after):
            custom = any(system is each for each in self._custom)
            self._step(system, context, guard if custom else None, custom=custom)
        return context

    def _step(self, system: AgentSystem, context: TurnContext, guard: Guard | None, *, custom: bool) -> None:
        before = snapshot(context)

        def step() -> None:
            if system.should_process(context):
                system.process(context)

        try:
            if guard is None:
                step()
            else:
                guard(system, step)
        except Exception as error:  # noqa: BLE001 - a system costs its own work and nothing else
            restore(context, before)
            cause = error.__cause__ if isinstance(error, SystemStopped) else None
            _record(context, [failure_of(system.name, cause or error)])
        else:
            if custom:
                name = system.name
                problems = repair(context, before)
                _record(context, [SystemFailure(system=name, error="InvalidInput", message=told) for told in problems])


def _record(context: TurnContext, failures: Iterable[SystemFailure]) -> None:
    for given in failures:
        failure = cleaned_failure(given)
        context.system_errors.append(failure)
        _log.warning("turn.system_failed", turn=context.turn.id, system=failure.system, error=failure.error)


def check_systems(systems: Iterable[AgentSystem]) -> tuple[AgentSystem, ...]:
    """The systems, if a pipeline can run them.

    Raises:
        ConfigurationError: one is no system, has no order, or the name of another.
    """
    found: dict[str, AgentSystem] = {}
    for system in systems:
        name, order = _place(system)
        if name in BUILT_IN:
            raise ConfigurationError(f"a system is named {name}, as one of ours: give it another name")
        if name in found:
            raise ConfigurationError(f"two systems are named {name}: {_kind(found[name])} and {_kind(system)}")
        if isinstance(order, bool) or not isinstance(order, int | float) or not math.isfinite(order):
            raise ConfigurationError(f"the system {name}: its order is {order!r}; use a number, like 50")
        found[name] = system
    return tuple(found.values())


def _place(given: Any) -> tuple[str, object]:
    name: Any = None
    order: Any = None
    try:
        if not isinstance(given, type) and isinstance(given, AgentSystem):
            name, order = given.name, given.order
    except Exception as error:
        raise ConfigurationError(f"{_kind(given)}: its name or order raised {note(str(error), 200)}") from error
    if not isinstance(name, str) or not name or note(name, 200) != name:
        raise ConfigurationError(
            f"{_kind(given)} is no AgentSystem: it needs `name` (a short text), `order`, `should_process` and `process`"
        )
    return name, order


def _kind(system: object) -> str:
    cls = system if isinstance(system, type) else type(system)
    return f"{cls.__module__}.{cls.__qualname__}"
