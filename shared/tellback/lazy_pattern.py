"""Regular expressions that are compiled at their first use, for modules that a short-lived process imports.

To compile one takes 0.1 to 10 ms, and a hook process that handles one event needs few of those that it could need.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _LazyPattern:
    """Stands in for a `re.Pattern`; an attribute that was used once is found without a detour."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._given = pattern, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._given), name)  # `re` keeps what it compiled, for the next attribute
        setattr(self, name, value)
        return value


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return what `re.compile` returns, without compiling it yet: a wrong pattern is noticed when it is used."""
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))
