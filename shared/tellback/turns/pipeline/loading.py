"""The systems that workers run beside ours: found as entry points, or named by their setting."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

from tellback.errors import ConfigurationError
from tellback.log import get_logger
from tellback.turns.pipeline.runner import check_systems
from tellback.turns.pipeline.system import AgentSystem

GROUP: Final = "tellback.systems"

_log = get_logger("tellback.turns")


def load_systems(setting: str) -> tuple[AgentSystem, ...]:
    """Systems of the entry point group `tellback.systems`, then those that `setting` names: `module:Class`, by commas.

    A class is called without arguments. An entry point that does not work is logged and left out; a name in the setting
    must work.

    Raises:
        ConfigurationError: the setting names what cannot be made, or two systems have one name.
    """
    found: list[AgentSystem] = []
    for entry in entry_points(group=GROUP):
        try:
            found += check_systems([_made(entry.load())])
        except Exception:  # noqa: BLE001 - another package's fault must not stop the worker
            _log.exception("system.not_loaded", entry_point=entry.value)
    for path in (part.strip() for part in setting.split(",") if part.strip()):
        try:
            module, _, name = path.partition(":")
            found.append(_made(getattr(import_module(module), name)))
        except Exception as error:
            raise ConfigurationError(f"TELLBACK_SYSTEMS: {path} cannot be made: {error}") from error
    try:
        return check_systems(found)
    except ConfigurationError as error:
        raise ConfigurationError(f"TELLBACK_SYSTEMS, or the entry points {GROUP}: {error}") from error


def _made(given: Any) -> AgentSystem:
    system: AgentSystem = given() if isinstance(given, type) else given
    return system
