"""A key of the outbox gets another type by hand: that costs no other conversation its deliveries. Requirement T-147."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tellback import OutboxDelivery, Tellback
from tests.support.full_outbox import fill, keys_of
from tests.support.turns import HELLO, SENT, delivered_now, opened, store, view

Break = Callable[[str], None]


def not_known(_: OutboxDelivery) -> None:
    """A platform that cannot say what it was sent."""


def settled(tb: Tellback, reconcile: Callable[[OutboxDelivery], None] | None = None) -> list[tuple[str, str]]:
    """The turns whose delivery a transport sends, each with its settlement."""
    return [(delivery.turn_id, delivery.settle(SENT)) for delivery in tb.outbox("chat", reconcile=reconcile)]


@pytest.mark.parametrize("reconcile", [None, not_known])
@pytest.mark.parametrize("name", ["out", "ambiguous", "polled"])
def test_an_index_of_another_shard_ends_no_transport(
    break_type: Break,
    tb: Tellback,
    name: str,
    reconcile: Callable[[OutboxDelivery], None] | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One shard's key ended the transport's loop for all of them."""
    turn = opened(tb)
    turn.respond(HELLO)
    own = store(tb).shard(turn.id)
    keys = [
        shard.key("polled") if name == "polled" else shard.key(name, "chat")
        for shard in tb.context.layout.all
        if name != "out" or shard != own
    ]
    for key in keys:
        break_type(key)
    assert settled(tb, reconcile) == [(turn.id, "delivered")]
    if name != "ambiguous" or reconcile:  # otherwise nobody reads it
        assert any(key in caplog.text for key in keys)


@pytest.mark.parametrize("name", ["out", "ambiguous"])
def test_what_was_sent_is_settled_whatever_an_index_holds(break_type: Break, tb: Tellback, name: str) -> None:
    """The delivery had left its queue and the script failed; or nothing was stored, and the user got it again."""
    turn = opened(tb)
    turn.respond(HELLO)
    [delivery] = [delivery for delivery, _ in zip(tb.outbox("chat"), range(1), strict=False)]
    break_type(store(tb).shard(turn.id).key(name, "chat"))
    assert delivery.settle(SENT) == "delivered"
    assert (view(tb, turn.id).delivery, keys_of(tb)) == ("delivered", [])


def test_a_queue_of_another_type_ends_no_transport(
    break_type: Break, tb: Tellback, caplog: pytest.LogCaptureFixture
) -> None:
    turns = [opened(tb, conversation=name) for name in ("a", "b")]
    for turn in turns:
        turn.respond(HELLO)
    found: dict[str, str] = {}
    for delivery in tb.outbox("chat"):
        if not found:
            shard = tb.context.layout.of_turn("chat", delivery.conversation)
            break_type(shard.key("outq", "chat", delivery.conversation))
        found[delivery.turn_id] = delivery.settle(SENT)
    assert list(found.values()) == ["lost", "delivered"]
    assert "delivery.not_settled" in caplog.text


def test_a_turn_of_another_type_holds_up_nothing_of_its_conversation(break_type: Break, tb: Tellback) -> None:
    """Each claim spent an attempt and failed, and after the last one nothing behind this delivery was ever sent."""
    turn, after = opened(tb), opened(tb)
    for each in (turn, after):
        each.respond(HELLO)
    break_type(store(tb).shard(turn.id).key("turn", turn.id))
    assert settled(tb) == [(turn.id, "delivered"), (after.id, "delivered")]


def test_nor_does_one_whose_delivery_is_evicted(break_type: Break, tb: Tellback) -> None:
    first, second, third = opened(tb), opened(tb), opened(tb)
    for turn in (first, second):
        turn.respond(HELLO)
    fill(tb)
    break_type(store(tb).shard(second.id).key("turn", second.id))
    assert third.respond(HELLO) == "accepted"
    keys = keys_of(tb)
    assert (f"{second.id}:first" in keys, f"{third.id}:first" in keys) == (False, True)
    delivered_now(tb)
