"""The loops by family, and their consumers.

A loop's module is imported with its first entry, so a worker pays only for what it uses.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Final, cast

from tellback.names import Family
from tellback_workers.consumer import Consumer, Loop
from tellback_workers.runtime import BY_LAYOUT, TEAMS, Runtime

if TYPE_CHECKING:
    from tellback_workers.loops.guidance import GuidanceLoop

# Family -> module and factory `(Runtime, team) -> Loop`.
_FACTORIES: Final = {
    Family.COMMANDS: ("tellback_workers.loops.commands", "CommandsLoop"),
    Family.TURNS: ("tellback_workers.loops.turns", "TurnsLoop"),
    Family.SIGNALS: ("tellback_workers.loops.signals", "SignalsLoop"),
    Family.RECALLS: ("tellback_workers.loops.recalls", "RecallsLoop"),
}

# For families that use the model, which all threads of a process share. It cannot be held across a fork, because the
# parent of a pool does not consume them.
_recovery_lock = Lock()


@lru_cache(maxsize=2)
def guidance_of(runtime: Runtime) -> GuidanceLoop:
    """Return the loop of tool events; each process has one for all teams."""
    from tellback_workers.loops.guidance import GuidanceLoop  # noqa: PLC0415 - as the module says

    return GuidanceLoop(runtime)


@lru_cache(TEAMS * len(Family))
def loop_of(runtime: Runtime, team: str, family: Family) -> Loop:
    """Return the loop of a family; each process has one for each team, or for all teams."""
    if family is Family.EVENTS:
        return guidance_of(runtime)
    module, name = _FACTORIES[family]
    factory = cast("Callable[[Runtime, str], Loop]", getattr(import_module(module), name))
    return factory(runtime, team)


BY_LAYOUT.extend([guidance_of.cache_clear, loop_of.cache_clear])


def consumer_of(runtime: Runtime, team: str, family: Family) -> Consumer:
    """Return the consumer of a family; leases are longer if a model computes between reading and applying."""
    settings = runtime.settings
    embeds = family in (Family.SIGNALS, Family.RECALLS)
    return Consumer(
        runtime.intake(team),
        runtime.dead(team),
        loop_of(runtime, team, family),
        lease_seconds=settings.embed_lease if embeds else settings.consumer_lease,
        batch=settings.consume_batch,
        recovery_lock=_recovery_lock if embeds else None,
        model_wait=settings.model_wait,
        tracing=runtime.tracing,
        kept=runtime.kept_shares,
    )
