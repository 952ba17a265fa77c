"""The sweep of overdue turns: which turns are overdue.

A member of the due set that cannot be a turn of its shard is removed and logged.
"""

from __future__ import annotations

import re
from typing import Final

from tellback.state.database import Database
from tellback.state.keys import Layout, Shard
from tellback.state.readable import remove_strays
from tellback.state.steady import GAP_MS, observe

_ID: Final = re.compile(r"t(\d{1,4})-[0-9a-f]{24}", re.ASCII)


def shard_of_turn(turn: str) -> int | None:
    """Return the number of the shard that a turn's id names; None if it is not the id of a turn."""
    found = _ID.fullmatch(turn)
    return None if found is None else int(found[1])


def overdue(database: Database, layout: Layout, limit: int, gap_ms: int = GAP_MS) -> list[str]:
    """Return ids of turns whose deadline has passed, longest overdue first, at most `limit`.

    Members that cannot be turns are removed here: no load, close or postpone accepts them, so they would stop every
    sweep of the team.
    """
    while True:
        seen = zip(layout.all, observe(database, layout.all, gap_ms), strict=True)
        replies = database.pipeline(
            [
                ("ZRANGE", shard.key("due"), "-inf", found.now, "BYSCORE", "LIMIT", 0, limit, "WITHSCORES")
                for shard, found in seen
            ]
        )
        found: list[tuple[float, str]] = []
        strays: list[tuple[Shard, list[bytes]]] = []
        for shard, flat in zip(layout.all, replies, strict=True):
            names = [(float(at), name.decode(errors="replace")) for name, at in zip(flat[::2], flat[1::2], strict=True)]
            found += [(at, name) for at, name in names if shard_of_turn(name) == shard.index]
            wrong = [raw for raw, (_, name) in zip(flat[::2], names, strict=True) if shard_of_turn(name) != shard.index]
            strays += [(shard, wrong)] if wrong else []
        if not strays:
            return [turn for _, turn in sorted(found)[:limit]]
        for shard, wrong in strays:
            remove_strays(database, shard.key("due"), wrong)
