"""The number of examples that a property is tried with."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

LEAST: Final = 10
FULL: Final = 100  # Hypothesis' own number, which the profile "full" leaves alone


def examples(full: int) -> int:
    """Return the profile's share of `full`, and at least ten: `max_examples` of a test would override the profile."""
    share = settings().max_examples / FULL  # test modules are imported after the profile of the command line was loaded
    return max(min(full, LEAST), round(full * share))
