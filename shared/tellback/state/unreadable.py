"""Find commands, turns and conversations that wait because what is stored of them cannot be read, for a person.

A newer release may have written the value, or somebody changed it by hand. Workers pass over it, so nothing else shows
that it waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from tellback.contracts.commands import CommandSubmitted
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.outbox import OutboxQueue, decode_delivery
from tellback.state.readable import UNREADABLE, names_of, read_each, reply_of
from tellback.state.turn_view import TurnView, view_of

CHECKED: Final = 100  # of each shard, and of each channel in it: those that are due first
_OF_A_TURN: Final = [name for name in TurnView.__struct_fields__ if name != "text"]


def unreadable_jobs(database: Database, layout: Layout) -> list[str]:
    """Return the keys of leased commands that no sweep can read.

    An older release also cannot read what a newer one runs; such a command is named once its lease has expired.
    """
    keys = _indexed_keys(database, layout, "running", "job", "command")
    stored = read_each(database, [("HMGET", key, "state", "spec", "session", "overdue") for key in keys])
    return [key for key, found in zip(keys, stored, strict=True) if _is_stuck(found)]


def _indexed_keys(database: Database, layout: Layout, index: str, family: str, what: str) -> list[str]:
    """Return the keys of `family` that the first members of each shard's `index` name; `what` is for the log."""
    members = read_each(database, [("ZRANGE", shard.key(index), 0, CHECKED - 1) for shard in layout.all])
    return [
        shard.key(family, name)
        for shard, names in zip(layout.all, members, strict=True)
        if not isinstance(names, Exception)
        for name in names_of(what, names)
    ]


def _is_stuck(found: Any) -> bool:
    if isinstance(found, Exception):
        return True
    state, spec, session, overdue = found
    waits = overdue is not None or session is None
    return (
        state == b"running" and waits and not _is_readable(spec or b"", msgspec.json.Decoder(CommandSubmitted).decode)
    )


def unreadable_turns(database: Database, layout: Layout) -> list[str]:
    """Return the keys of open turns that no sweep can read: their users get no fallback."""
    keys = _indexed_keys(database, layout, "due", "turn", "turn")
    stored = read_each(database, [("HMGET", key, *_OF_A_TURN) for key in keys])
    return [
        key
        for key, found in zip(keys, stored, strict=True)
        if not _is_readable(found, lambda values: view_of(_OF_A_TURN, (values, 0)))
    ]


def unreadable_queues(database: Database, layout: Layout) -> list[str]:
    """Return the keys of outbox queues whose first delivery no transport can read; the later ones wait behind it."""
    named = read_each(database, [("ZRANGE", shard.key("channels"), 0, -1) for shard in layout.all])
    places = [
        (shard, channel)
        for shard, names in zip(layout.all, named, strict=True)
        if not isinstance(names, Exception)
        for channel in names_of("channel", names)
    ]
    members = read_each(
        database,
        [
            ("ZRANGE", shard.key(index, channel), 0, CHECKED - 1)
            for shard, channel in places
            for index in ("out", "ambiguous")
        ],
    )
    waiting = zip(places, zip(members[::2], members[1::2], strict=True), strict=True)
    queues = {
        OutboxQueue(shard, channel, conversation).key: None
        for (shard, channel), both in waiting
        for names in both
        if not isinstance(names, Exception)
        for conversation in names_of("conversation", names)
    }
    firsts = read_each(database, [("LINDEX", key, 0) for key in queues])
    return [
        key
        for key, first in zip(queues, firsts, strict=True)
        if first is not None and not _is_readable(first, decode_delivery)
    ]


def _is_readable(reply: Any, decode: Callable[[Any], object]) -> bool:
    try:
        decode(reply_of(reply))
    except UNREADABLE:
        return False
    return True
