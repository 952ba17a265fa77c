"""Stored values that cannot be read: as a newer release writes them, and of another type."""

from __future__ import annotations

import json

from tellback.state.database import Database
from tellback.state.keys import Layout


def newer(raw: bytes) -> bytes:
    """Return the message as a newer release would write it: one field more."""
    return json.dumps(json.loads(raw) | {"a_newer_field": 1}).encode()


def session_of(layout: Layout, index: int = 0) -> str:
    return next(name for name in map(str, range(100)) if layout.of(name).index == index)


def of_another_type(database: Database, key: str) -> None:
    database.command("DEL", key)
    database.command("SET", key, "by hand", "PX", 60_000)
