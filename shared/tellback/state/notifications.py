"""Notifications, which tell the dispatchers of all teams through one stream that something is new.

A host appends one after its events if nobody consumes their stream, and one before it opens a turn. Dispatchers share
the stream as a consumer group, so the cost follows what is new, not how many teams there are. A notification may be
lost: the scheduler's visits find what it named. Hosts in other languages may append one themselves, or leave it out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from redis import exceptions

from tellback.names import TEAM_PATTERN, Family
from tellback.state.database import Database
from tellback.state.keys import NOTIFICATIONS
from tellback.state.scripts import intake as scripts

MOST: Final = 1_000  # read at once
GROUP: Final = "dispatchers"

_STREAM: Final = re.compile(rf"tb:\{{({TEAM_PATTERN.pattern})\.(\d{{1,4}})\}}:in:([a-z]+)", re.ASCII)
_FAMILIES: Final = frozenset(Family)


class Notified(NamedTuple):
    """A team in which something is new, and the shard and family of the stream if it is in one."""

    team: str
    stream: tuple[int, Family] | None = None


class Notifications:
    """The stream of notifications, as a dispatcher reads it."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._last = "$"

    def wait(self, block_ms: int) -> list[Notified]:
        """Wait at most `block_ms` for notifications that no other dispatcher gets, and return each once.

        What is no notification is skipped: every host may write to the stream.
        """
        read = ("XREADGROUP", "GROUP", GROUP, "dispatcher", "COUNT", MOST, "BLOCK", block_ms, "NOACK",
                "STREAMS", NOTIFICATIONS, ">")  # fmt: skip
        try:
            return _parsed(self._db.command(*read))
        except exceptions.ResponseError as error:
            if not str(error).startswith("NOGROUP"):
                raise
            # unconditional: the script creates what is missing
            self._db.run(scripts.ensure_groups(intake=NOTIFICATIONS, groups=[GROUP]))
            return []

    def peek(self) -> list[Notified]:
        """Return the oldest notifications that no visit has noted yet, and leave them there."""
        return _parsed([(NOTIFICATIONS, self._db.command("XRANGE", NOTIFICATIONS, "-", "+", "COUNT", MOST))])

    def watch(self, block_ms: int) -> list[Notified]:
        """Wait as `wait` does, but get what other dispatchers get too, from the first call on.

        It is for a worker that serves some teams only: it must not take the others' notifications away.
        """
        last = self.last_seen()
        return self.note_seen(
            self._db.command("XREAD", "COUNT", MOST, "BLOCK", block_ms, "STREAMS", NOTIFICATIONS, last)
        )

    def last_seen(self) -> str:
        """Return the id of the last notification that `watch` or `note_seen` returned, or at first of the newest."""
        if self._last == "$":
            newest = self._db.command("XREVRANGE", NOTIFICATIONS, "+", "-", "COUNT", 1)
            self._last = newest[0][0].decode() if newest else "0"
        return self._last

    def note_seen(self, reply: Any) -> list[Notified]:
        """Return what a reply to XREAD after `last_seen` names, for who reads other streams in the same call."""
        if reply:
            self._last = reply[0][1][-1][0].decode()
        return _parsed(reply)


def _parsed(reply: Any) -> list[Notified]:
    entries: Sequence[tuple[bytes, Sequence[bytes]]] = reply[0][1] if reply else []
    found = [_notified(fields[1].decode(errors="replace")) for _, fields in entries if fields]
    return list(dict.fromkeys(each for each in found if each is not None))


def _notified(text: str) -> Notified | None:
    if TEAM_PATTERN.fullmatch(text):
        return Notified(text)
    found = _STREAM.fullmatch(text)
    if found is None or found[3] not in _FAMILIES:
        return None
    return Notified(found[1], (int(found[2]), Family(found[3])))
