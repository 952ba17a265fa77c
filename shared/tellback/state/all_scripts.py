"""Every Lua script of this release, for those who load them ahead of their first use."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from tellback.state import scripts
from tellback.state.script_calls import Script


@cache
def all_scripts() -> tuple[Script, ...]:
    """Return the scripts of all generated modules, found as files: a list here once missed a new folder."""
    modules = [import_module(f"{scripts.__name__}.{found.name}") for found in iter_modules(scripts.__path__)]
    return tuple(found for module in modules for found in vars(module).values() if isinstance(found, Script))
