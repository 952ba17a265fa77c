"""Helpers for tests of transports: answers in the outbox, and a transport's one round."""

from __future__ import annotations

from itertools import islice
from typing import Any

from tellback import OutboxDelivery, OutgoingResponse, Tellback
from tellback.transports import Transport
from tests.support.turns import opened


def answered(
    tb: Tellback, text: str | None, *, channel: str = "chat", conversation: str = "c1", **response: Any
) -> str:
    """A turn that is answered with this, and waits in the outbox."""
    turn = opened(tb, channel=channel, conversation=conversation)
    turn.respond(OutgoingResponse(text=text, **response))
    return turn.id


def first(tb: Tellback, wait: float = 60.0) -> OutboxDelivery:
    """The next delivery, taken and not settled."""
    return next(iter(tb.outbox("chat", wait=wait)))


def round_of(tb: Tellback, transport: Transport, most: int | None = None) -> list[str]:
    """Sends what is due, or waits for `most` deliveries; how each was settled."""
    due = tb.outbox("chat", wait=60.0 if most else 0.0)
    return [delivery.settle(transport.send(delivery)) for delivery in islice(due, most)]
