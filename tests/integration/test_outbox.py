"""The outbox on a real Redis: order, leases, outcomes, several transports."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from itertools import pairwise
from typing import Any, cast

import msgspec
import pytest

from tellback import InvalidInput, RoutingOutcome, Tellback, connect
from tellback.client import outbox
from tellback.client.outbox import OutboxDelivery, open_outbox
from tellback.contracts.limits import MAX_ERROR_CHARS
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.outbox import Outbox
from tests.support.clocks import HOUR, ServerClock
from tests.support.deliveries import answered, first
from tests.support.turns import HELLO, SENT, delivered_now, overdue, sent, state, store, swept, view

DOWN = RoutingOutcome(attempted=False, error="not connected")
REFUSED = RoutingOutcome(attempted=True, error="500")
UNKNOWN = RoutingOutcome(attempted=True, error="no reply in 10 s", ambiguous=True)
BLOCKED = RoutingOutcome(attempted=True, error="blocked by the user", permanent=True)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Settings with few attempts, and times that pass only as `clock` does."""
    return msgspec.structs.replace(
        settings, outbox_lease=60.0, outbox_retry=60.0, outbox_hold=60.0, outbox_attempts=3, turn_limit=60.0
    )


def test_an_empty_outbox_ends_at_once(tb: Tellback) -> None:
    assert list(tb.outbox("chat")) == []


def test_deliveries_of_a_conversation_come_in_order(tb: Tellback) -> None:
    texts = [str(number) for number in range(20)]
    for text in texts:
        answered(tb, text)
    assert [text for _, _, text in sent(tb)] == texts


def test_nothing_overtakes_a_delivery_that_is_taken(tb: Tellback) -> None:
    answered(tb, "1")
    answered(tb, "2")
    answered(tb, "other", conversation="c2")
    taken = first(tb)
    assert taken.response.text == "1"
    assert [text for _, _, text in sent(tb)] == ["other"], "another conversation continues"
    taken.settle(SENT)
    assert [text for _, _, text in sent(tb)] == ["2"]


@pytest.mark.parametrize("outcome", [None, DOWN, UNKNOWN], ids=["leased", "rests", "ambiguous"])
def test_a_further_answer_brings_no_taken_delivery_back(tb: Tellback, outcome: RoutingOutcome | None) -> None:
    """One that rests or is ambiguous stays too: its conversation keeps the time from which it may be looked at."""
    answered(tb, "1")
    taken = first(tb)
    if outcome is not None:
        taken.settle(outcome)
    store = open_outbox(tb.context)
    before = [at for _, at, _ in store.pending("chat", 1)]
    answered(tb, "2")
    assert [at for _, at, _ in store.pending("chat", 1)] == before


def test_channels_are_apart(tb: Tellback) -> None:
    answered(tb, "a", channel="one")
    answered(tb, "b", channel="two")
    assert sent(tb, "chat") == []
    assert [text for _, _, text in sent(tb, "two")] == ["b"]
    assert open_outbox(tb.context).channels() == ["one", "two"]


def test_an_unsettled_delivery_comes_again_with_the_same_key(tb: Tellback, clock: ServerClock) -> None:
    turn = answered(tb, "1")
    lost = first(tb)
    assert list(tb.outbox("chat")) == [], "it is leased"
    clock.passes(60)
    again = first(tb)
    assert (again.idempotency_key, again.turn_id, again.attempt) == (lost.idempotency_key, turn, 2)
    assert lost.settle(REFUSED) == "lost", "its lease went to another"
    assert again.settle(SENT) == "delivered"
    assert view(tb, turn).delivery == "delivered"


def test_word_of_a_delivery_counts_even_after_its_lease(tb: Tellback, clock: ServerClock) -> None:
    answered(tb, "1")
    slow = first(tb)
    clock.passes(60)
    other = first(tb)
    assert slow.settle(SENT) == "delivered", "the user has it, whoever holds the lease"
    assert other.settle(SENT) == "lost"
    clock.passes(60)
    assert list(tb.outbox("chat")) == []


def test_taking_what_has_changed_meanwhile_takes_nothing(tb: Tellback) -> None:
    answered(tb, "1")
    second = answered(tb, "2")
    store = open_outbox(tb.context)
    [(place, seen)] = store.ready("chat", 10)
    first(tb).settle(SENT)
    assert store.claim(place, seen) is None
    assert [turn for turn, _, _ in sent(tb)] == [second]


def test_taking_again_after_a_lost_reply_gives_the_same_attempt(tb: Tellback, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = answered(tb, "1")
    store = open_outbox(tb.context)
    [(place, seen)] = store.ready("chat", 10)
    monkeypatch.setattr("tellback.state.outbox.secrets.token_hex", {12: "the token of one call"}.get)
    once, again = store.claim(place, seen), store.claim(place, seen)
    assert once == again
    assert once is not None
    assert once.attempt == 1
    assert view(tb, turn).delivery == "sending"


def test_settling_twice_has_no_second_effect(tb: Tellback) -> None:
    answered(tb, "1")
    second = answered(tb, "2")
    delivery = first(tb)
    assert delivery.settle(SENT) == "delivered"
    assert delivery.settle(SENT) == "lost"
    assert [turn for turn, _, _ in sent(tb)] == [second]


def test_a_refused_delivery_is_tried_again_later_and_then_dead(tb: Tellback, clock: ServerClock) -> None:
    turn = answered(tb, "1")
    after = answered(tb, "2")
    assert first(tb).settle(REFUSED) == "retry"
    assert list(tb.outbox("chat")) == [], "it rests, and holds its conversation"
    assert view(tb, turn).delivery == "waiting"
    clock.passes(HOUR)
    assert first(tb).settle(REFUSED) == "retry"
    clock.passes(HOUR)
    assert first(tb).settle(REFUSED) == "dead", "the third attempt of three"
    assert view(tb, turn).delivery == "dead"
    assert [name for name, _, _ in sent(tb)] == [after]
    reported = [(entry["event"], entry.get("error")) for entry in tb.history("c1") if entry["turn"] == turn]
    assert reported[-3:] == [("retry", "500"), ("retry", "500"), ("dead", "500")]


def test_a_transport_that_is_down_spends_no_attempts(tb: Tellback, clock: ServerClock) -> None:
    turn = answered(tb, "1")
    for _ in range(4):
        delivery = first(tb)
        assert delivery.attempt == 1
        assert delivery.settle(DOWN) == "retry"
        clock.passes(HOUR)
    assert first(tb).settle(SENT) == "delivered"
    assert view(tb, turn).delivery == "delivered"


def test_a_transport_that_dies_each_time_kills_no_conversation(tb: Tellback, clock: ServerClock) -> None:
    turn = answered(tb, "poison")
    after = answered(tb, "2")
    for attempt in (1, 2, 3):
        assert first(tb).attempt == attempt
        clock.passes(60)
    assert first(tb).turn_id == after
    assert view(tb, turn).delivery == "dead"


def test_an_ambiguous_delivery_is_never_sent_again_and_the_next_goes_on(tb: Tellback, clock: ServerClock) -> None:
    turn = answered(tb, "1")
    after = answered(tb, "2")
    assert first(tb).settle(UNKNOWN) == "ambiguous"
    assert view(tb, turn).delivery == "ambiguous"
    assert list(tb.outbox("chat")) == [], "it holds its conversation for a while"
    assert [item.status for _, _, item in open_outbox(tb.context).pending("chat", 10)] == ["ambiguous", "waiting"]
    clock.passes(60)
    assert first(tb).turn_id == after
    assert [entry["event"] for entry in tb.history("c1") if entry["turn"] == turn] == [
        "opened",
        "answered",
        "ambiguous",
    ]


def test_a_permanent_failure_is_dead_at_once(tb: Tellback) -> None:
    turn = answered(tb, "1")
    after = answered(tb, "2")
    assert first(tb).settle(BLOCKED) == "dead"
    assert view(tb, turn).delivery == "dead"
    assert [name for name, _, _ in sent(tb)] == [after]


def test_the_error_of_an_outcome_is_kept_as_one_redacted_line(tb: Tellback, database: Database) -> None:
    """It may quote the URL of a webhook, or a whole page of a proxy."""
    turn = answered(tb, "1")
    token = "ghp_" + "A1b2C3d4E5f6" * 3
    error = f"POST failed: token={token}\n{'x' * 100_000}"
    first(tb).settle(RoutingOutcome(attempted=True, error=error, permanent=True))
    found = store(tb).load([turn])[0]
    assert found is not None
    assert found.outcome is not None
    assert 0 < len(msgspec.json.decode(found.outcome, type=RoutingOutcome).error or "") <= MAX_ERROR_CHARS
    (key,) = [key for keys in database.scan("tb:*:turn:*", 1000) for key in keys]
    assert token not in repr([database.command("HVALS", key), tb.history(found.session)])


def test_the_outcome_is_kept_with_the_turn(tb: Tellback) -> None:
    turn = answered(tb, "1")
    outcome = RoutingOutcome(attempted=True, sent_text=True, sent_attachments=2, error="the voice failed")
    first(tb).settle(outcome)
    found = store(tb).load([turn])[0]
    assert found is not None
    assert found.outcome is not None
    assert msgspec.json.decode(found.outcome, type=RoutingOutcome) == outcome


def test_a_fallback_whose_lease_ran_out_may_have_been_sent_so_an_answer_follows_it(
    tb: Tellback, clock: ServerClock
) -> None:
    turn = overdue(tb)
    swept(tb)
    first(tb)
    clock.passes(60)
    again = first(tb)
    assert again.attempt == 2
    assert again.settle(REFUSED) == "retry"
    assert turn.respond(HELLO) == "late", "what the first taker did is unknown"
    clock.passes(HOUR)
    assert [delivery.kind for delivery in delivered_now(tb)] == ["fallback", "late"]
    assert state(turn) == "fallback"


def test_waiting_sees_a_delivery_that_comes_meanwhile(tb: Tellback) -> None:
    timer = threading.Timer(0.2, answered, (tb, "1"))
    timer.start()
    assert first(tb, wait=60.0).response.text == "1"
    timer.join()


def test_waiting_ends_after_the_time_given(tb: Tellback) -> None:
    begun = time.monotonic()
    assert list(tb.outbox("chat", wait=0.2)) == []
    assert time.monotonic() - begun >= 0.2


def test_transports_share_a_channel_and_each_delivery_is_taken_once(tb: Tellback, settings: Settings) -> None:
    wanted = {answered(tb, str(number), conversation=f"c{number % 7}") for number in range(140)}
    taken: list[OutboxDelivery] = []

    def transport() -> None:
        with connect(settings=msgspec.structs.replace(settings, outbox_lease=30.0)) as client:
            for delivery in client.outbox("chat", wait=0.3):
                taken.append(delivery)
                delivery.settle(SENT)

    threads = [threading.Thread(target=transport) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(delivery.turn_id for delivery in taken) == Counter(wanted)
    for talk in range(7):
        numbers = [int(item.response.text or "") for item in taken if item.conversation == f"c{talk}"]
        assert all(one < two for one, two in pairwise(numbers)), "in order within a conversation"


def test_a_transport_whose_platform_is_slow_notes_its_polls_too(tb: Tellback, monkeypatch: pytest.MonkeyPatch) -> None:
    """The doctor missed a transport that sent 64 deliveries of a list, one after the other, for over 30 seconds."""
    happened: list[str] = []

    def note_polled(_store: Outbox, channel: str) -> None:
        happened.append(channel)

    for number in range(3):
        answered(tb, "1", conversation=f"c{number}")
    monkeypatch.setattr(outbox, "POLLED_NOTE_SECONDS", 0.0)
    monkeypatch.setattr(Outbox, "note_polled", note_polled)
    for delivery in tb.outbox("chat"):
        happened.append(delivery.conversation)
        delivery.settle(SENT)
    assert (happened[:6:2], sorted(happened[1:6:2])) == (["chat"] * 3, ["c0", "c1", "c2"])


@pytest.mark.parametrize(
    ("named", "channel", "wait"),
    [("channel", "", 0), ("channel", 5, 0), ("wait", "chat", -1), ("wait", "chat", math.nan), ("wait", "chat", "1")],
)
def test_wrong_arguments_are_named(tb: Tellback, named: str, channel: Any, wait: Any) -> None:
    with pytest.raises(InvalidInput, match=f"^{named}:"):
        tb.outbox(channel, wait=wait)


@pytest.mark.parametrize(
    "outcome", [True, None, "delivered", {"attempted": True}, RoutingOutcome(attempted=cast("bool", "yes"))]
)
def test_only_an_outcome_settles(tb: Tellback, outcome: Any) -> None:
    answered(tb, "1")
    with pytest.raises(InvalidInput, match=r"^outcome:"):
        first(tb).settle(outcome)
