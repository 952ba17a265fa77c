"""A Redis that comes back as it was a moment ago: it ended before the last writes were in its log."""

from __future__ import annotations

from typing import Any

from tellback.state.database import Database


def snapshot(database: Database) -> list[Any]:
    """Return what Redis holds: key, time of expiry and value, in turn."""
    keys: list[bytes] = database.command("KEYS", "*")
    return database.pipeline([part for key in keys for part in (("ECHO", key), ("PEXPIRETIME", key), ("DUMP", key))])


def restore(database: Database, kept: list[Any]) -> None:
    """Let Redis hold that alone. Its cache of scripts is empty then."""
    values = zip(kept[::3], kept[1::3], kept[2::3], strict=True)
    again = [("RESTORE", key, max(0, at), value, "ABSTTL") for key, at, value in values]
    database.pipeline([("FLUSHALL",), ("SCRIPT", "FLUSH"), *again])
