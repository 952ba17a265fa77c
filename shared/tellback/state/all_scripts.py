"""Every Lua script of this release, for those who load them ahead of their first use."""

from __future__ import annotations

from functools import cache

from tellback.state.script_calls import Script
from tellback.state.scripts import commands, common, guidance, intake, signals, turns


@cache
def all_scripts() -> tuple[Script, ...]:
    """Return the scripts, as the generated modules declare them."""
    modules = (commands, common, guidance, intake, signals, turns)
    return tuple(found for module in modules for found in vars(module).values() if isinstance(found, Script))
