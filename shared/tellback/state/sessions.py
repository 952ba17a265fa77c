"""The sessions of a team by their last activity, and what is known about each. Requirement C-90.

The scripts that commit tool calls and queue commands write both, so a session is listed as soon as its first event is
applied. Readers take the newest from an index; nothing is searched for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from tellback.state.database import Database
from tellback.state.keys import Layout, Shard
from tellback.state.readable import read_each, readable, reply_of, scored_names, whole

_FIELDS: Final = ("host", "tool", "status", "prompt", "calls", "nudges")


class SessionActivity(msgspec.Struct, frozen=True, kw_only=True):
    """One session: its last activity (`at`: milliseconds, server time), newest tool call, and counts of seven days."""

    session: str
    at: int
    host: str = ""
    tool: str = ""
    status: str = ""
    prompt: str = ""
    calls: int = 0
    nudges: int = 0


class Sessions:
    """The sessions of one team."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        self._layout = layout

    def newest(self, limit: int, since: int = 0) -> list[SessionActivity]:
        """Return the sessions that were active last, newest first, without those idle since before `since`."""
        shards = self._layout.all
        wanted = [
            ("ZRANGE", shard.key("sessions"), "+inf", since, "BYSCORE", "REV", "LIMIT", 0, limit, "WITHSCORES")
            for shard in shards
        ]
        replies = self._db.pipeline(wanted)
        places = [
            (int(at), shard, name)
            for shard, flat in zip(shards, replies, strict=True)
            for name, at in scored_names("session", flat)
        ]
        return self._read(sorted(places, key=lambda place: place[0], reverse=True)[:limit])

    def named(self, sessions: Sequence[str]) -> list[SessionActivity]:
        """Return these sessions, as far as anything is known of them."""
        shards = [self._layout.of(session) for session in sessions]
        pairs = list(zip(shards, sessions, strict=True))
        scores = self._db.pipeline([("ZSCORE", shard.key("sessions"), session) for shard, session in pairs])
        places = zip(scores, pairs, strict=True)
        return self._read([(whole(at), shard, name) for at, (shard, name) in places if at is not None])

    def _read(self, places: Sequence[tuple[int, Shard, str]]) -> list[SessionActivity]:
        keys = [("HMGET", shard.key("activity", name), *_FIELDS) for _, shard, name in places]
        return readable("session", zip(places, read_each(self._db, keys), strict=True), _activity)

    def count(self, since: int) -> int:
        """Count the sessions that were active at `since` or later."""
        counts = [("ZCOUNT", shard.key("sessions"), since, "+inf") for shard in self._layout.all]
        return sum(self._db.pipeline(counts))


def _activity(item: tuple[tuple[int, Shard, str], Sequence[bytes | None] | Exception]) -> SessionActivity:
    (at, _, session), values = item
    known = {name: value.decode() for name, value in zip(_FIELDS, reply_of(values), strict=True) if value is not None}
    return msgspec.convert({**known, "session": session, "at": at}, SessionActivity, strict=False)
