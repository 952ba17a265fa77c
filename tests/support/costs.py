"""The cost of code, in calls that it makes: the same on every machine, however busy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def counted_calls() -> Generator[list[int]]:
    """Count the functions that this thread calls meanwhile, Python's and C's; read it at the end."""
    count = [0]

    def seen(_frame: FrameType, event: str, _arg: object) -> None:
        if event in ("call", "c_call"):
            count[0] += 1

    sys.setprofile(seen)
    try:
        yield count
    finally:
        sys.setprofile(None)


def calls_of(do: Callable[[], object]) -> int:
    """Count the functions that `do` calls on this thread."""
    with counted_calls() as count:
        do()
    return count[0]
