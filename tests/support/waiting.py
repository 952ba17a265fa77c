"""Waiting for a condition instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tellback.errors import Unavailable
from tellback.state.database import Database

T = TypeVar("T")


def wait_until(predicate: Callable[[], T], description: str, timeout: float = 60.0) -> T:
    """The first truthy value of `predicate`; fails the test with `description` when none came in time."""
    end = time.monotonic() + timeout
    delay = 0.005
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() >= end:
            raise AssertionError(f"not within {timeout} s: {description}; last value {value!r}")
        time.sleep(delay)
        delay = min(delay * 1.5, 0.1)


def answers(database: Database) -> bool:
    """Ask if Redis answers now."""
    try:
        return bool(database.command("PING"))
    except Unavailable:
        return False


def blocked(database: Database) -> int:
    """Count the clients that wait at the server, or at the nodes of a cluster, now.

    A client's last command does not tell: it is the same while its connection is idle.
    """
    servers = database._connections.each_primary()
    clients: list[bytes] = [server.run(("INFO", "clients")) for server in servers]
    return sum(int(each.partition(b"blocked_clients:")[2].split()[0]) for each in clients)
