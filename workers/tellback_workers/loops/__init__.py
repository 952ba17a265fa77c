"""The loops by family. A loop's module is imported with its first entry: a worker pays for what it does."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Final, cast

from tellback.names import Family
from tellback_workers.loop import Loop
from tellback_workers.runtime import Runtime

# Family -> module and factory `(Runtime, team) -> Loop`.
_FACTORIES: Final = {
    Family.COMMANDS: ("tellback_workers.loops.commands", "CommandsLoop"),
    Family.EVENTS: ("tellback_workers.loops.guidance", "GuidanceLoop"),
    Family.TURNS: ("tellback_workers.loops.turns", "TurnsLoop"),
    Family.SIGNALS: ("tellback_workers.loops.signals", "SignalsLoop"),
    Family.RECALLS: ("tellback_workers.loops.recalls", "RecallsLoop"),
}


@cache
def loop_of(runtime: Runtime, team: str, family: Family) -> Loop:
    """The loop of a family, one for each process and team."""
    module, name = _FACTORIES[family]
    factory = cast("Callable[[Runtime, str], Loop]", getattr(import_module(module), name))
    return factory(runtime, team)
