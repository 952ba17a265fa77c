"""The reads of the sweep of turns: which are overdue, and which conversations no transport sees.

A member of the due set that cannot be a turn of its shard is removed and logged.

A conversation whose deliveries are in no index is put back. Every script that changes a queue keeps its index correct;
this repairs what an earlier release or a manual change left. It checks the newest turns of a shard, at most 1,000, and
never scans the keys. An older conversation returns with its next answer, or expires after seven days.
"""

from __future__ import annotations

import re
from typing import Final

from tellback import clock
from tellback.log import get_logger
from tellback.state.database import Database
from tellback.state.keys import FAMILIES, Layout, Shard
from tellback.state.outbox import OutboxQueue
from tellback.state.readable import names_of, read_each, remove_strays
from tellback.state.scripts import turns as scripts
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


PAGE: Final = 50  # turns of each shard in one round: twenty rounds check every turn
_PAGES: Final = (FAMILIES["turns"].cap or 0) // PAGE
_UNSETTLED: Final = frozenset({b"waiting", b"sending", b"ambiguous"})

_logger = get_logger("tellback.outbox")


def stranded(database: Database, layout: Layout, first: int = 0, last: int = -1) -> list[OutboxQueue]:
    """Find stranded conversations among the turns `first` to `last` of each shard; 0 is the turn opened first."""
    replies = database.pipeline([("ZRANGE", shard.key("turns"), first, last) for shard in layout.all])
    turns = [(shard, turn) for shard, raws in zip(layout.all, replies, strict=True) for turn in names_of("turn", raws)]
    fields = ("channel", "conversation", "delivery", "late_delivery")
    known = read_each(database, [("HMGET", shard.key("turn", turn), *fields) for shard, turn in turns])
    found = [(shard, reply) for (shard, _), reply in zip(turns, known, strict=True) if not isinstance(reply, Exception)]
    queues = {
        OutboxQueue(shard, channel.decode(errors="replace"), conversation.decode(errors="replace"))
        for shard, (channel, conversation, *states) in found
        if channel is not None and conversation is not None and _UNSETTLED.intersection(states)
    }
    candidates = sorted(queues, key=lambda queue: (queue.shard.index, queue.channel, queue.conversation))
    score = [("ZSCORE", queue.out, queue.conversation) for queue in candidates]
    there = [("EXISTS", queue.key) for queue in candidates]
    # race: read the index before and after the queue; a conversation that is added or settled meanwhile is in its
    # index at one of the two
    checked = database.pipeline([part for three in zip(score, there, score, strict=True) for part in three])
    return [
        queue
        for queue, before, queued, after in zip(candidates, checked[::3], checked[1::3], checked[2::3], strict=True)
        if before is None and queued and after is None
    ]


def reindex(database: Database, layout: Layout, period: float) -> int:
    """Put back the stranded conversations of one page of the newest turns, the next page in each `period`.

    Returns how many it put back.

    Raises:
        Unavailable: Redis is away; the next round continues.
    """
    first = int(clock.wall() / period) % _PAGES * PAGE
    found = stranded(database, layout, first, first + PAGE - 1)
    calls = [scripts.reindex_queue(out=at.out, queue=at.key, conversation=at.conversation) for at in found]
    back = [queue for queue, was in zip(found, database.run_all(calls), strict=True) if was]
    for queue in back:
        _logger.error("outbox.reindexed", channel=queue.channel, conversation=queue.conversation)
    return len(back)
