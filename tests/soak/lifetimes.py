"""Shorter lifetimes of keys and smaller caches, so that a run sees several generations of sessions.

All lifetimes come from `FAMILIES`: Python and the constants of Lua scripts read it when they are imported. Caches by
session hold thousands, which only hours would fill. So every process of a soak calls `shorten` before other imports.
"""

from __future__ import annotations

import functools
import os
from importlib import import_module
from typing import Any, Final

from tellback.state.keys import FAMILIES
from tests.soak import LIFETIME

# About processes, not sessions: presence that lives shorter than a heartbeat would read as a dead worker.
KEPT: Final = frozenset({"worker", "workers", "beat", "swept", "encoder", "lease", "wakeup", "provider-call"})
CACHED: Final = 64  # sessions; the caches hold 1,024 evaluations in a worker's process and keys of 4,096 in each


def shorten() -> None:
    """Bring down the lifetime of all keys that sessions leave, and the size of caches."""
    longest = int(os.environ[LIFETIME])
    for name, family in FAMILIES.items():
        if name not in KEPT and family.lifetime is not None:
            FAMILIES[name] = family.replace(lifetime=min(family.lifetime, longest))
    functools.__dict__["lru_cache"] = _small_cache
    vars(import_module("tellback.state.evaluation_codec"))["MAX_EVALUATIONS"] = CACHED  # it imports the lifetimes


def _small_cache(maxsize: Any = 128, typed: bool = False) -> Any:  # noqa: FBT001, FBT002 - as in functools
    small = min(maxsize, CACHED) if isinstance(maxsize, int) else maxsize
    return _lru_cache(small, typed)


_lru_cache: Final = functools.lru_cache
