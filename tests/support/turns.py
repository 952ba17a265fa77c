"""Turns for tests: opened with defaults, made overdue, swept, consumed."""

from __future__ import annotations

import itertools
from typing import Any

from tellback import OutgoingResponse, RoutingOutcome, Tellback
from tellback.client.outbox import OutboxDelivery
from tellback.client.turns import Turn
from tellback.state.turn_view import TurnView
from tellback.state.turns import Turns
from tellback_workers.sweep_turns import sweep
from tests.support.waiting import wait_until

HELLO = OutgoingResponse.text_only("hello")
SENT = RoutingOutcome(attempted=True, sent_text=True)
_numbers = itertools.count()


def opened(tb: Tellback, **changes: Any) -> Turn:
    """A turn of a message of its own."""
    given: dict[str, Any] = {
        "channel": "chat",
        "conversation": "c1",
        "message_id": f"m{next(_numbers)}",
        "text": "hi",
        **changes,
    }
    return tb.open_turn(**given)


def overdue(tb: Tellback, **changes: Any) -> Turn:
    """A turn whose deadline has passed."""
    turn = opened(tb, **{"answer_within": 0.001, **changes})
    wait_until(lambda: turn.id in store(tb).overdue(100_000), "the turn is overdue")
    return turn


def deadline_passes(tb: Tellback, turn: Turn) -> None:
    """The server's time goes by, as far as this open turn can tell."""
    shard = store(tb).shard(turn.id)
    tb.context.database.command("HSET", shard.key("turn", turn.id), "deadline", 1)
    tb.context.database.command("ZADD", shard.key("due"), "XX", 1, turn.id)


def fallback_was(tb: Tellback, turn: Turn, seconds_ago: float) -> None:
    """The turn's fallback was written that long ago."""
    key = store(tb).shard(turn.id).key("turn", turn.id)
    at = tb.context.database.now_ms() - round(seconds_ago * 1000)
    tb.context.database.command("HSET", key, "closed_at", at, "closed_steady", at)


def view(tb: Tellback, turn: Turn | str) -> TurnView:
    """The turn as it stands in Redis."""
    found = store(tb).load([turn if isinstance(turn, str) else turn.id])[0]
    assert found is not None
    return found


def events(tb: Tellback, session: str = "c1") -> list[str]:
    """The events that the history lists."""
    return [entry["event"] for entry in tb.history(session)]


def state(turn: Turn) -> str:
    """Asked again each time, which type checkers take a property not to be."""
    return turn.state


def store(tb: Tellback) -> Turns:
    return Turns(tb.context.database, tb.context.layout)


def swept(tb: Tellback) -> int:
    """Fallbacks that one bounded sweep wrote."""
    return sweep(store(tb), tb.context.settings)[1]


def delivered_now(tb: Tellback, channel: str = "chat") -> list[OutboxDelivery]:
    """Every delivery of a channel, settled as sent."""
    return [delivery for delivery in tb.outbox(channel) if delivery.settle(SENT) == "delivered"]


def sent(tb: Tellback, channel: str = "chat") -> list[tuple[str, str, str | None]]:
    """The same as turn, kind and text."""
    return [(delivery.turn_id, delivery.kind, delivery.response.text) for delivery in delivered_now(tb, channel)]
