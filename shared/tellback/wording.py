"""Words around numbers that people read."""

from __future__ import annotations


def count_phrase(number: float, what: str, several: str = "") -> str:
    """Return a number with its noun: 1 call, 2 calls, 1,000 calls; `several` is a plural that does not end in s."""
    return f"{number:,} {what if number == 1 else several or f'{what}s'}"


def duration_phrase(seconds: float) -> str:
    """Return a duration in the unit in which a person would say it: 90 s, 5 min, 3 h, 2 d."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def be(number: int) -> str:
    """Return the verb of `count_phrase`: 1 call is, 2 calls are."""
    return "is" if number == 1 else "are"
