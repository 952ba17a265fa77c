"""Read many stored values of which some may be unreadable, because a newer release or a person wrote them.

An unreadable value is skipped and logged; it never hides the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import msgspec

from tellback.log import get_logger

UNREADABLE: Final = (msgspec.MsgspecError, ValueError, TypeError, LookupError, RecursionError)
"""The errors of decoding a value that this release did not store."""

Raw = TypeVar("Raw")
T = TypeVar("T")

_log = get_logger("tellback.state")


def readable(what: str, raws: Iterable[Raw], decode: Callable[[Raw], T]) -> list[T]:
    """Return every value that `decode` can read; skip the others, and log one line for all of them."""
    found: list[T] = []
    failures: list[Exception] = []
    for raw in raws:
        try:
            found.append(decode(raw))
        except UNREADABLE as error:
            failures.append(error)
    if failures:
        _log.error("stored.unreadable", what=what, values=len(failures), first=str(failures[0])[:500])
    return found
