"""An answer that comes after the fallback: replaced, appended with a reference, or dropped, as the policy says."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from tellback import InvalidInput, OutgoingResponse, RoutingOutcome, Tellback, connect
from tellback.client.turns import Turn
from tellback.settings import Settings
from tests.support.turns import (
    HELLO,
    SENT,
    delivered_now,
    events,
    fallback_was,
    opened,
    overdue,
    sent,
    state,
    swept,
    view,
)


def with_fallback(tb: Tellback, **changes: Any) -> Turn:
    """A turn whose fallback the user has."""
    turn = overdue(tb, **changes)
    assert swept(tb) == 1
    assert [delivery.kind for delivery in delivered_now(tb)] == ["fallback"]
    return turn


@contextmanager
def client(settings: Settings, **changes: Any) -> Generator[Tellback]:
    with connect(settings=msgspec.structs.replace(settings, **changes)) as tb:
        yield tb


def test_a_late_answer_is_shown_as_a_reply_to_the_message(tb: Tellback) -> None:
    turn = with_fallback(tb, message_id="tg-17")
    assert turn.respond(HELLO) == "late"
    (late,) = delivered_now(tb)
    assert late.response == OutgoingResponse(text="hello", reply_to="tg-17")
    assert late.idempotency_key == f"{turn.id}:late"
    assert view(tb, turn).late_at is not None


def test_a_reference_of_the_hosts_own_is_kept(tb: Tellback) -> None:
    turn = with_fallback(tb)
    turn.respond(OutgoingResponse(text="hello", reply_to="other"))
    first = opened(tb)
    first.respond(OutgoingResponse(text="hi", reply_to="mine"))
    plain = opened(tb)
    plain.respond(HELLO)
    assert [delivery.response.reply_to for delivery in delivered_now(tb)] == ["other", "mine", None]


@pytest.mark.parametrize("reference", ["", "x" * 513, "\udc00"])
def test_a_reference_that_no_platform_has_is_refused(tb: Tellback, reference: str) -> None:
    with pytest.raises(InvalidInput, match="reply_to"):
        opened(tb).respond(OutgoingResponse(text="hello", reply_to=reference))


def test_a_stale_answer_is_dropped_and_seen(tb: Tellback) -> None:
    turn = with_fallback(tb)
    fallback_was(tb, turn, seconds_ago=3_600.001)
    assert turn.respond(OutgoingResponse.text_only("old news")) == "stale"
    assert turn.respond(HELLO) == "duplicate"
    assert sent(tb) == []
    assert state(turn) == "fallback"
    found = view(tb, turn)
    assert found.late_at is not None
    assert (found.late_delivery, found.delivery) == ("dropped", "delivered")
    assert events(tb) == ["opened", "fallback", "delivered", "stale"]
    assert tb.history("c1")[-1]["text"] == "old news"


def test_an_answer_within_the_time_is_sent(tb: Tellback) -> None:
    turn = with_fallback(tb)
    fallback_was(tb, turn, seconds_ago=3_590)
    assert turn.respond(HELLO) == "late"


def test_the_setting_says_how_long(tb: Tellback, settings: Settings) -> None:
    del tb
    with client(settings, late_within=10.0) as tb:
        old, new = with_fallback(tb, conversation="c1"), with_fallback(tb, conversation="c2")
        fallback_was(tb, old, seconds_ago=10)
        fallback_was(tb, new, seconds_ago=5)
        assert (old.respond(HELLO), new.respond(HELLO)) == ("stale", "late")
        assert [delivery.kind for delivery in delivered_now(tb)] == ["late"]
    with client(settings, late_within=0.0) as tb:
        assert with_fallback(tb, conversation="c3").respond(HELLO) == "stale", "no late answer at all"


def test_one_call_may_say_otherwise(tb: Tellback) -> None:
    hasty, patient = with_fallback(tb, conversation="c1"), with_fallback(tb, conversation="c2")
    fallback_was(tb, hasty, seconds_ago=60)
    fallback_was(tb, patient, seconds_ago=86_400)
    assert hasty.respond(HELLO, late_within=59) == "stale"
    assert patient.respond(HELLO, late_within=86_500) == "late"


def test_what_nobody_took_is_replaced_however_old(tb: Tellback) -> None:
    """The user has heard nothing yet: an answer is better than a fallback, late or not."""
    turn = overdue(tb)
    swept(tb)
    fallback_was(tb, turn, seconds_ago=86_400)
    assert turn.respond(HELLO, late_within=0) == "replaced"
    assert sent(tb) == [(turn.id, "answer", "hello")]


def test_a_policy_never_touches_a_first_answer(tb: Tellback) -> None:
    turn = opened(tb)
    assert turn.respond(HELLO, late_within=0) == "accepted"


def test_a_late_answer_waits_for_the_fallback_before_it(tb: Tellback) -> None:
    turn = overdue(tb)
    swept(tb)
    taken = next(iter(tb.outbox("chat")))
    assert turn.respond(HELLO) == "late"
    assert sent(tb) == []
    taken.settle(RoutingOutcome(attempted=True, permanent=True))
    assert sent(tb) == [(turn.id, "late", "hello")]
    assert (view(tb, turn).delivery, view(tb, turn).late_delivery) == ("dead", "delivered")


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), 604_801, True, "10"])
def test_a_wrong_time_is_named(tb: Tellback, value: Any) -> None:
    turn = opened(tb)
    with pytest.raises(InvalidInput, match="late_within"):
        turn.respond(HELLO, late_within=value)
    with pytest.raises(InvalidInput, match="late_within"):
        turn.finish(HELLO, late_within=value)
    assert state(turn) == "open"


def test_an_outcome_of_a_late_answer_is_its_own(tb: Tellback) -> None:
    turn = with_fallback(tb)
    turn.respond(HELLO)
    assert next(iter(tb.outbox("chat"))).settle(SENT) == "delivered"
    found = view(tb, turn)
    assert (found.delivery, found.late_delivery) == ("delivered", "delivered")
    assert found.late_outcome is not None
