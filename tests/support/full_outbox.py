"""Conversations whose outbox is as full as it may be."""

from __future__ import annotations

from typing import Final

import msgspec

from tellback import Tellback
from tellback.state.outbox import Delivery

CAP: Final = 1_000


def fill(tb: Tellback, conversation: str = "c1", channel: str = "chat") -> None:
    """Deliveries of turns that nobody remembers, behind those that wait already, up to the cap."""
    shard = tb.context.layout.of_turn(channel, conversation)
    queue = shard.key("outq", channel, conversation)
    length = tb.context.database.command("LLEN", queue)
    more = [
        msgspec.json.encode(
            Delivery(
                key=f"old-{number}:first", turn=f"old-{number}", session="old", kind="answer",
                response='{"text":"old"}', at=number, attempt=0, waits=0,
            )
        )
        for number in range(length, CAP)
    ]  # fmt: skip
    tb.context.database.command("RPUSH", queue, *more)


def keys_of(tb: Tellback, conversation: str = "c1") -> list[str]:
    """The idempotency keys of a conversation's queue, in order."""
    queue = tb.context.layout.of_turn("chat", conversation).key("outq", "chat", conversation)
    waiting = tb.context.database.command("LRANGE", queue, 0, -1)
    return [msgspec.json.decode(raw, type=Delivery).key for raw in waiting]
