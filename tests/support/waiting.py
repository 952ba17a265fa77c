"""Waiting for a condition instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(predicate: Callable[[], T], description: str, timeout: float = 10.0) -> T:
    """The first truthy value of `predicate`; fails the test with `description` when none came in time."""
    end = time.monotonic() + timeout
    pause = 0.005
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() >= end:
            raise AssertionError(f"not within {timeout} s: {description}; last value {value!r}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
