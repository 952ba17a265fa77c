"""The reconcile hook: the platform's word on deliveries of which nobody knows whether they were sent."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from tellback import InvalidInput, OutboxDelivery, RoutingOutcome, Tellback
from tellback.client.client_context import ClientContext
from tellback.client.outbox import open_outbox
from tellback.settings import Settings
from tests.support.deliveries import answered
from tests.support.turns import SENT, events, sent, view
from tests.support.waiting import wait_until

UNKNOWN = RoutingOutcome(attempted=True, error="no reply in 10 s", ambiguous=True)
NOT_SENT = RoutingOutcome(attempted=True, error="the platform has no such message")
NEVER_CAME = RoutingOutcome(attempted=False, error="the platform never saw it")
BLOCKED = RoutingOutcome(attempted=True, error="blocked", permanent=True)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """An ambiguous delivery holds its conversation for as long as a test may take; few attempts."""
    return msgspec.structs.replace(settings, outbox_retry=0.05, outbox_hold=60.0, outbox_attempts=3)


def ambiguous(tb: Tellback, text: str = "1") -> str:
    """A turn whose answer may have been sent."""
    turn = answered(tb, text)
    assert next(iter(tb.outbox("chat", wait=60.0))).settle(UNKNOWN) == "ambiguous"
    return turn


def always(outcome: RoutingOutcome | None, asked: list[OutboxDelivery]) -> Callable[[OutboxDelivery], Any]:
    def reconcile(delivery: OutboxDelivery) -> RoutingOutcome | None:
        asked.append(delivery)
        return outcome

    return reconcile


def pump(tb: Tellback, outcome: RoutingOutcome | None, asked: list[OutboxDelivery]) -> list[str]:
    """Asks once, and sends all that comes."""
    return [
        delivery.turn_id
        for delivery in tb.outbox("chat", reconcile=always(outcome, asked))
        if delivery.settle(SENT) == "delivered"
    ]


def test_what_the_platform_has_is_delivered_and_the_next_goes_on(tb: Tellback) -> None:
    turn, after = ambiguous(tb), answered(tb, "2")
    asked: list[OutboxDelivery] = []
    assert wait_until(lambda: pump(tb, SENT, asked), "the next one is sent") == [after]
    assert [(delivery.turn_id, delivery.response.text, delivery.attempt) for delivery in asked] == [(turn, "1", 1)]
    assert view(tb, turn).delivery == "delivered"
    story = [entry for entry in tb.history("c1") if entry["turn"] == turn]
    assert [entry["event"] for entry in story] == ["opened", "answered", "ambiguous", "delivered"]
    assert story[-1]["reconciled"] is True
    assert open_outbox(tb.context).ambiguous("chat", 10) == []


@pytest.mark.parametrize(("word", "attempt"), [(NOT_SENT, 2), (NEVER_CAME, 1)])
def test_what_the_platform_has_not_is_sent_again(tb: Tellback, word: RoutingOutcome, attempt: int) -> None:
    turn, after = ambiguous(tb), answered(tb, "2")
    first = wait_until(lambda: next(iter(tb.outbox("chat", reconcile=always(word, []))), None), "it comes again")
    assert first is not None
    assert (first.turn_id, first.attempt) == (turn, attempt)
    assert first.settle(SENT) == "delivered"
    assert [name for name, _, _ in sent(tb)] == [after]
    assert [entry["event"] for entry in tb.history("c1") if entry["turn"] == turn][-2:] == ["retry", "delivered"]


def test_what_the_platform_refused_is_dead(tb: Tellback) -> None:
    turn, after = ambiguous(tb), answered(tb, "2")
    assert wait_until(lambda: pump(tb, BLOCKED, []), "the next one is sent") == [after]
    assert view(tb, turn).delivery == "dead"


def test_the_last_attempt_that_was_not_sent_is_dead(tb: Tellback) -> None:
    turn = answered(tb, "1")
    for _ in range(2):
        next(iter(tb.outbox("chat", wait=60.0))).settle(NOT_SENT)
    assert next(iter(tb.outbox("chat", wait=60.0))).settle(UNKNOWN) == "ambiguous"
    wait_until(lambda: pump(tb, NOT_SENT, []) or view(tb, turn).delivery == "dead", "the third of three was the last")


@pytest.mark.parametrize("word", [None, UNKNOWN])
def test_a_platform_that_does_not_know_is_asked_again_with_growing_delays(
    tb: Tellback, word: RoutingOutcome | None
) -> None:
    turn = ambiguous(tb)
    asked: list[OutboxDelivery] = []
    wait_until(lambda: pump(tb, word, asked) or len(asked) >= 3, "it is asked three times")
    assert view(tb, turn).delivery == "ambiguous"
    [(_, _, delivery)] = open_outbox(tb.context).pending("chat", 10)
    assert (delivery.status, delivery.reconciles) == ("ambiguous", 3)
    wait_until(lambda: pump(tb, SENT, asked) or view(tb, turn).delivery == "delivered", "then it knows")


def test_a_hook_that_raises_costs_nothing(tb: Tellback, caplog: pytest.LogCaptureFixture) -> None:
    turn = ambiguous(tb)

    def broken(_delivery: OutboxDelivery) -> RoutingOutcome:
        raise RuntimeError("secret-token")

    wait_until(lambda: list(tb.outbox("chat", reconcile=broken)) or "RuntimeError" in caplog.text, "it was asked")
    assert "secret-token" not in caplog.text
    assert view(tb, turn).delivery == "ambiguous"


def test_without_a_word_in_time_it_is_final_and_the_next_goes_on(tb: Tellback, settings: Settings) -> None:
    turn, after = answered(tb, "1"), answered(tb, "2")
    with_short_hold = msgspec.structs.replace(settings, outbox_hold=0.1)
    store_of_it = open_outbox(with_settings(tb, with_short_hold))
    [(place, seen)] = store_of_it.ready("chat", 10)
    taken = store_of_it.claim(place, seen)
    assert taken is not None
    assert store_of_it.settle(place, taken, UNKNOWN) == "ambiguous"
    assert wait_until(lambda: pump(tb, None, []), "the next one is sent") == [after]
    assert view(tb, turn).delivery == "ambiguous"
    assert open_outbox(tb.context).ambiguous("chat", 10) == [], "nothing is asked for what is final"


def with_settings(tb: Tellback, settings: Settings) -> ClientContext:
    """The same client with other settings."""
    return dataclasses.replace(tb.context, settings=settings)


def test_what_is_final_is_no_longer_asked_about(tb: Tellback, settings: Settings) -> None:
    answered(tb, "1")
    short = open_outbox(with_settings(tb, msgspec.structs.replace(settings, outbox_hold=0.05)))
    [(place, seen)] = short.ready("chat", 10)
    taken = short.claim(place, seen)
    assert taken is not None
    assert short.settle(place, taken, UNKNOWN) == "ambiguous"
    assert tb.context.database.command("ZCARD", place.ambiguous) == 1
    wait_until(lambda: sent(tb) == [] and not short.pending("chat", 10), "its hold ends")
    assert tb.context.database.command("ZCARD", place.ambiguous) == 0


def test_one_asks_at_a_time(tb: Tellback, settings: Settings) -> None:
    ambiguous(tb)
    outbox = open_outbox(with_settings(tb, msgspec.structs.replace(settings, outbox_retry=3_600.0)))
    [(place, seen)] = wait_until(lambda: outbox.ambiguous("chat", 10), "it may be asked about")
    assert outbox.claim_ambiguous(place, seen) is not None
    assert outbox.claim_ambiguous(place, seen) is None


@pytest.mark.parametrize("word", [SENT, NOT_SENT, None])
def test_a_lease_that_ran_out_is_asked_about_before_it_is_sent_again(
    tb: Tellback, settings: Settings, word: RoutingOutcome | None
) -> None:
    turn = answered(tb, "1")
    short = open_outbox(with_settings(tb, msgspec.structs.replace(settings, outbox_lease=0.05)))
    [(place, seen)] = short.ready("chat", 10)
    assert short.claim(place, seen) is not None, "its taker dies"
    asked: list[OutboxDelivery] = []

    def delivered() -> bool:
        assert [name for name in pump(tb, word, asked) if name != turn] == []
        return view(tb, turn).delivery == "delivered"

    wait_until(delivered, "it is settled")
    assert [delivery.attempt for delivery in asked] == [2]
    assert events(tb).count("delivered") == 1
    assert asked[0].settle(SENT) == "lost", "it is settled once, whoever settled it"


def test_only_a_function_reconciles(tb: Tellback) -> None:
    with pytest.raises(InvalidInput, match=r"^reconcile:"):
        tb.outbox("chat", reconcile=cast("Any", 5))
    answered(tb, "1")
    next(iter(tb.outbox("chat"))).settle(UNKNOWN)

    def wrong(_delivery: OutboxDelivery) -> Any:
        return "delivered"

    with pytest.raises(InvalidInput, match=r"^reconcile:"):
        next(iter(tb.outbox("chat", wait=60.0, reconcile=wrong)))
