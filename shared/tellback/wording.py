"""Words around numbers that people read."""

from __future__ import annotations


def count_phrase(number: int, what: str) -> str:
    """Return a number with its noun: 1 call, 2 calls, 1,000 calls."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
