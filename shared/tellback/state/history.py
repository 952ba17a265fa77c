"""A session's history: every shard that knows something of the session keeps its own list; readers merge them."""

from __future__ import annotations

from typing import Any

import msgspec

from tellback.state.database import Database
from tellback.state.keys import Layout


def read_history(database: Database, layout: Layout, session: str) -> list[dict[str, Any]]:
    """Everything kept for a session, oldest first; each entry has `kind` and `at` (milliseconds, server time)."""
    replies = database.pipeline([("LRANGE", shard.key("hist", session), 0, -1) for shard in layout.all])
    entries = [msgspec.json.decode(raw, type=dict[str, Any]) for items in replies for raw in items]
    return sorted(entries, key=lambda entry: entry["at"])
