"""Which turns are overdue. What stands in the due set and is no turn of its shard is taken out, and logged."""

from __future__ import annotations

import re
from typing import Final

from tellback.log import get_logger
from tellback.state.database import Database
from tellback.state.keys import Layout, Shard

_ID: Final = re.compile(r"t(\d{1,4})-[0-9a-f]{24}", re.ASCII)
_SHOWN: Final = 10  # of those taken out at once

_log = get_logger("tellback.turns")


def shard_of(turn: str) -> int | None:
    """The number of the shard that a turn's id names; None: it is not the id of a turn."""
    found = _ID.fullmatch(turn)
    return None if found is None else int(found[1])


def overdue(database: Database, layout: Layout, limit: int) -> list[str]:
    """Ids of turns whose deadline has passed, longest overdue first, at most `limit`.

    A member that no turn can be would stop every sweep of the team: nothing can be loaded, closed or postponed by it.
    """
    while True:
        now = database.now_ms()
        replies = database.pipeline(
            [
                ("ZRANGE", shard.key("due"), "-inf", now, "BYSCORE", "LIMIT", 0, limit, "WITHSCORES")
                for shard in layout.all
            ]
        )
        found: list[tuple[float, str]] = []
        strays: list[tuple[Shard, list[bytes]]] = []
        for shard, flat in zip(layout.all, replies, strict=True):
            names = [(float(at), name.decode(errors="replace")) for name, at in zip(flat[::2], flat[1::2], strict=True)]
            found += [(at, name) for at, name in names if shard_of(name) == shard.index]
            wrong = [raw for raw, (_, name) in zip(flat[::2], names, strict=True) if shard_of(name) != shard.index]
            strays += [(shard, wrong)] if wrong else []
        if not strays:
            return [turn for _, turn in sorted(found)[:limit]]
        for shard, wrong in strays:
            _take_out(database, shard, wrong)


def _take_out(database: Database, shard: Shard, members: list[bytes]) -> None:
    key = shard.key("due")
    if database.command("ZREM", key, *members):  # else another sweep took them, and said so
        _log.error(
            "due.no_turns_removed", key=key, members=len(members), first=[f"{m[:80]!r}" for m in members[:_SHOWN]]
        )
