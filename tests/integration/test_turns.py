"""Turns on a real Redis: opening, answering, failing, closing, progress."""

from __future__ import annotations

import dataclasses
import time
from typing import Any, cast

import msgspec
import pytest

from tellback import (
    InvalidInput,
    NotFound,
    OutgoingResponse,
    RoutingOutcome,
    StateConflict,
    Tellback,
    Unavailable,
    connect,
)
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.turns.fallback_text import Words
from tests.support.redis_server import RedisServer
from tests.support.turns import HELLO, SENT, delivered_now, events, opened, overdue, sent, state, store, swept, view
from tests.support.waiting import wait_until


def test_an_answer_reaches_the_outbox_once(tb: Tellback) -> None:
    turn = opened(tb)
    assert state(turn) == "open"
    assert turn.respond(HELLO) == "accepted"
    assert turn.respond(OutgoingResponse.text_only("again")) == "duplicate"
    assert turn.fail(code="x") == "duplicate"
    assert state(turn) == "responded"
    assert sent(tb) == [(turn.id, "answer", "hello")]
    assert events(tb) == ["opened", "answered", "delivered"]


def test_the_whole_response_is_kept(tb: Tellback) -> None:
    response = OutgoingResponse(text="٣ \u2028 \x1f </b> é", voice="words", attachments=("https://a/b.png",))
    opened(tb).respond(response)
    opened(tb).respond(OutgoingResponse(voice="only"))
    assert [delivery.response for delivery in delivered_now(tb)] == [response, OutgoingResponse(voice="only")]


def test_a_closed_client_leaves_a_turn_unmarked(tb: Tellback) -> None:
    """It was marked as finished, and then the event refused: the fallback came ten seconds later."""
    turn = opened(tb)
    tb.close()
    with pytest.raises(StateConflict, match="closed"):
        turn.finish(HELLO)
    assert state(turn) == "open"


def test_the_same_message_opens_one_turn(tb: Tellback) -> None:
    first = opened(tb, message_id="same", session="s1", language="de")
    second = opened(tb, message_id="same", session="s2", language="fr", text="other")
    assert (first.duplicate, second.duplicate) == (False, True)
    assert first.id == second.id
    assert (second.session, second.language) == ("s1", "de"), "the turn is the one that was opened first"
    first.respond(HELLO)
    third = opened(tb, message_id="same")
    assert third.duplicate
    assert state(third) == "responded"
    assert third.respond(HELLO) == "duplicate"


def test_a_message_id_counts_within_its_conversation_and_channel(tb: Tellback) -> None:
    turns = [
        opened(tb, message_id="1", channel=channel, conversation=talk) for channel in ("a", "b") for talk in ("x", "y")
    ]
    assert len({turn.id for turn in turns}) == 4
    assert not any(turn.duplicate for turn in turns)


@pytest.mark.parametrize("value", [1, "true", "True", None, False, [True]])
def test_only_true_itself_is_auto_mode(tb: Tellback, value: object) -> None:
    assert state(opened(tb, metadata={"auto.mode": value})) == "open"


def test_an_auto_turn_owes_nothing_and_may_speak(tb: Tellback) -> None:
    quiet = opened(tb, metadata={"auto.mode": True}, answer_within=0.001)
    assert state(quiet) == "auto"
    fence = overdue(tb)
    assert swept(tb) == 1
    assert (state(quiet), state(fence)) == ("auto", "fallback")
    assert quiet.progress() == 0.0
    assert quiet.fail(code="x") == "closed", "the user gets no message about the failure of what nobody waits for"
    assert opened(tb, metadata={"auto.mode": True}).respond(HELLO) == "accepted"
    assert [kind for _, kind, _ in sent(tb)] == ["fallback", "answer"]


def test_an_overdue_turn_gets_a_fallback_in_its_language_once(tb: Tellback) -> None:
    turn = overdue(tb, language="ru")
    assert swept(tb) == 1
    assert swept(tb) == 0
    assert state(turn) == "fallback"
    assert sent(tb) == [(turn.id, "fallback", Words().feedback("ru"))]
    assert events(tb) == ["opened", "fallback", "delivered"]


def test_a_turn_before_its_deadline_is_left_alone(tb: Tellback) -> None:
    turn = opened(tb, answer_within=30)
    store(tb).fall_back([(found.ref, HELLO) for found in store(tb).load([turn.id]) if found])
    assert state(turn) == "open"
    assert sent(tb) == []


def test_a_sweeper_that_read_too_early_writes_no_fallback_after_an_answer(tb: Tellback) -> None:
    turns = [overdue(tb), overdue(tb)]
    turns[0].respond(HELLO)
    turns[1].no_reply(reason="meant")
    for turn in turns:
        tb.context.database.command("ZADD", store(tb).shard(turn.id).key("due"), 1, turn.id)
    assert store(tb).fall_back([(turn.ref, HELLO) for turn in turns]) == [False, False]
    assert store(tb).overdue(10) == [], "a stale entry is cleared"
    assert [state(turn) for turn in turns] == ["responded", "no_reply"]
    assert sent(tb) == [(turns[0].id, "answer", "hello")]


def test_an_answer_takes_the_place_of_a_fallback_that_nobody_took(tb: Tellback) -> None:
    before, turn, after = opened(tb), overdue(tb), opened(tb)
    before.respond(HELLO)
    swept(tb)
    after.respond(HELLO)
    assert turn.respond(OutgoingResponse.text_only("better")) == "replaced"
    assert state(turn) == "responded"
    assert turn.respond(HELLO) == "duplicate"
    assert sent(tb) == [(before.id, "answer", "hello"), (turn.id, "answer", "better"), (after.id, "answer", "hello")]


def test_an_answer_after_a_taken_fallback_follows_it_as_late(tb: Tellback) -> None:
    turn = overdue(tb)
    swept(tb)
    taken = next(iter(tb.outbox("chat")))
    assert turn.respond(OutgoingResponse.text_only("late")) == "late"
    assert turn.respond(HELLO) == "duplicate"
    assert turn.fail(code="x") == "duplicate"
    assert state(turn) == "fallback"
    taken.settle(SENT)
    assert sent(tb) == [(turn.id, "late", "late")]
    assert events(tb) == ["opened", "fallback", "late", "delivered", "delivered"]


def test_a_fallback_that_was_given_back_unsent_can_still_be_replaced(tb: Tellback) -> None:
    turn = overdue(tb)
    swept(tb)
    next(iter(tb.outbox("chat"))).settle(RoutingOutcome(attempted=False, error="not connected"))
    assert turn.respond(HELLO) == "replaced"


def test_a_failure_answers_in_the_turns_language_and_shows_no_code(tb: Tellback) -> None:
    turn = opened(tb, language="fr-CA")
    assert turn.fail(code="llm.timeout") == "accepted"
    assert state(turn) == "responded"
    assert sent(tb) == [(turn.id, "answer", Words().feedback("fr"))]
    assert [entry["code"] for entry in tb.history("c1") if entry["event"] == "answered"] == ["llm.timeout"]


def test_a_turn_without_a_reply_is_closed_with_its_reason(tb: Tellback) -> None:
    turn = opened(tb)
    turn.no_reply(reason="a sticker")
    turn.no_reply(reason="again")
    assert state(turn) == "no_reply"
    assert turn.respond(HELLO) == "closed"
    assert swept(tb) == 0
    assert sent(tb) == []
    assert [entry.get("reason") for entry in tb.history("c1")] == [None, "a sticker"]


def test_an_answered_turn_cannot_be_closed_without_a_reply(tb: Tellback) -> None:
    turn = opened(tb)
    turn.respond(HELLO)
    with pytest.raises(StateConflict, match="responded"):
        turn.no_reply(reason="too late")


def test_progress_extends_the_deadline_up_to_the_hard_limit(database: Database, settings: Settings) -> None:
    del database
    with connect(settings=msgspec.structs.replace(settings, turn_limit=40.0)) as tb:
        turn = opened(tb, answer_within=30)
        assert 29 < turn.progress() <= 30
        view = store(tb).load([turn.id])[0]
        assert view is not None
        assert view.deadline is not None
        assert 30_000 <= view.deadline - view.opened_at < 40_000
        hard = opened(tb, answer_within=39.999)
        wait_until(lambda: tb.context.database.now_ms() > (store(tb).newest(1)[0].opened_at + 10), "10 ms passed")
        assert hard.progress() <= 39.995, "the limit counts from the opening"


def test_a_hosts_clock_has_no_say_in_deadlines(tb: Tellback, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host, or a sweeper, that is a day ahead or behind owes and finds the same: time is the server's."""
    late = overdue(tb)
    for wrong in (-86_400.0, 86_400.0):
        there = time.time() + wrong
        with monkeypatch.context() as patched:
            patched.setattr(time, "time", lambda there=there: there)
            patched.setattr(time, "time_ns", lambda there=there: int(there * 1e9))
            turn = opened(tb, answer_within=30)
            assert 29 < turn.progress() <= 30
            assert turn.defer(seconds=40) == 40
            left = (view(tb, turn).deadline or 0) - tb.context.database.now_ms()
            assert 0 < left <= 40_000
            assert swept(tb) == (1 if wrong < 0 else 0)
    assert state(late) == "fallback"


def test_progress_never_shortens_the_wait(tb: Tellback) -> None:
    turn = opened(tb, answer_within=30)
    before = store(tb).load([turn.id])[0]
    turn.progress()
    after = store(tb).load([turn.id])[0]
    assert before is not None
    assert after is not None
    assert (before.deadline or 0) <= (after.deadline or 0)


def test_no_fallback_overtakes_an_answer_that_is_on_its_way(tb: Tellback, settings: Settings) -> None:
    turn = overdue(tb)
    turn.finish(HELLO)
    assert state(turn) == "finishing"
    assert swept(tb) == 0
    with connect(settings=msgspec.structs.replace(settings, finish_grace=0.001)) as hasty:
        lost = overdue(hasty)
        store(hasty).mark_finishing(view(hasty, lost).ref, 1)
        wait_until(lambda: swept(hasty) == 1, "the grace ended, so the sweep answers")
        assert state(lost) == "fallback"
    assert state(turn) == "finishing"


def test_the_text_is_redacted_and_capped_and_gone_once_the_turn_closes(tb: Tellback) -> None:
    turn = opened(tb, text="hello\npassword=hunter2\n" + "x" * 100_000)
    view = store(tb).load([turn.id], text=True)[0]
    assert view is not None
    assert "hunter2" not in view.text
    assert view.text.startswith("hello\n[redacted: password]\n")
    assert len(view.text.encode()) <= 65_536
    assert "hunter2" not in str(tb.history("c1"))
    assert len(str(tb.history("c1"))) < 3_000
    turn.respond(HELLO)
    closed = store(tb).load([turn.id], text=True)[0]
    assert closed is not None
    assert closed.text == ""


def test_sessions_come_from_the_call_then_the_metadata_then_the_conversation(tb: Tellback) -> None:
    assert opened(tb, session="s1", metadata={"session": "s2"}).session == "s1"
    assert opened(tb, metadata={"session": "s2"}).session == "s2"
    assert opened(tb).session == "c1"


@pytest.mark.parametrize(
    ("named", "changes"),
    [
        ("channel", {"channel": ""}),
        ("channel", {"channel": "x" * 513}),
        ("channel", {"channel": 7}),
        ("conversation", {"conversation": "a\0b"}),
        ("message_id", {"message_id": 17}),
        ("message_id", {"message_id": None}),
        ("text", {"text": None}),
        ("text", {"text": "\udc00"}),
        ("language", {"language": "x" * 36}),
        ("language", {"language": 3}),
        ("metadata", {"metadata": ["auto.mode"]}),
        ("session", {"metadata": {"session": 5}}),
        ("session", {"session": ""}),
        ("answer_within", {"answer_within": 0}),
        ("answer_within", {"answer_within": -1}),
        ("answer_within", {"answer_within": float("nan")}),
        ("answer_within", {"answer_within": 3_600.1}),
        ("answer_within", {"answer_within": True}),
        ("answer_within", {"answer_within": "30"}),
    ],
)
def test_a_wrong_argument_is_named_and_nothing_is_opened(tb: Tellback, named: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        opened(tb, **changes)
    assert str(refusal.value).startswith(f"{named}:")
    assert store(tb).newest(10) == []


NESTED: list[object] = []
NESTED.append(NESTED)


@pytest.mark.parametrize(
    ("named", "response"),
    [
        ("response", "hello"),
        ("response", None),
        ("response", OutgoingResponse()),
        ("response", OutgoingResponse(text=cast("str", 5))),
        ("response", OutgoingResponse(attachments=cast("tuple[str, ...]", "a.png"))),
        ("response", OutgoingResponse(attachments=cast("tuple[str, ...]", (b"a.png", object())))),
        ("response", OutgoingResponse(text=cast("str", NESTED))),
        ("response", OutgoingResponse.text_only("  ")),
        ("response.text", OutgoingResponse.text_only("x" * 70_000)),
    ],
)
def test_a_response_that_cannot_be_sent_leaves_the_turn_open(tb: Tellback, named: str, response: Any) -> None:
    turn = opened(tb)
    with pytest.raises(InvalidInput, match=named):
        turn.respond(response)
    assert state(turn) == "open"


@pytest.mark.parametrize("code", ["", "x" * 201, None, 5])
def test_a_wrong_code_is_refused(tb: Tellback, code: Any) -> None:
    with pytest.raises(InvalidInput, match="code"):
        opened(tb).fail(code=code)


def test_a_turn_that_is_gone_is_said_to_be(tb: Tellback, database: Database) -> None:
    turn = opened(tb)
    database.command("DEL", store(tb).shard(turn.id).key("turn", turn.id))
    with pytest.raises(NotFound):
        state(turn)
    with pytest.raises(NotFound):
        tb.turn(turn.id)
    with pytest.raises(NotFound):
        turn.defer(seconds=5)
    with pytest.raises(NotFound):
        turn.hand_over(to="host-2")
    with pytest.raises(NotFound):
        turn.progress()
    with pytest.raises(NotFound):
        turn.no_reply(reason="x")
    store(tb).drop_due([turn.id])


def test_an_answer_brings_back_a_turn_that_a_failover_lost(tb: Tellback, database: Database) -> None:
    """The user waits, and the host has the answer: that Redis lost the opening is no reason for silence."""
    turn, failed = opened(tb, language="de", session="s1"), opened(tb, conversation="c2", language="de")
    quiet = opened(tb, conversation="c3", metadata={"auto.mode": True})
    database.command("FLUSHALL")
    assert turn.respond(HELLO) == "accepted"
    assert turn.respond(HELLO) == "duplicate"
    assert failed.fail(code="x") == "accepted"
    assert quiet.fail(code="x") == "closed"
    assert (state(turn), state(failed), state(quiet)) == ("responded", "responded", "no_reply")
    assert opened(tb, message_id=turn.message_id).duplicate
    assert sorted(sent(tb)) == sorted([(turn.id, "answer", "hello"), (failed.id, "answer", Words().feedback("de"))])
    assert events(tb, "s1") == ["restored", "answered", "delivered"]


def test_a_turn_whose_days_are_over_is_not_answered_again(tb: Tellback, database: Database) -> None:
    turn = opened(tb)
    database.command("DEL", store(tb).shard(turn.id).key("turn", turn.id))
    old = dataclasses.replace(turn, _opened_at=database.now_ms() - 7 * 86_400_000)
    with pytest.raises(NotFound):
        old.respond(HELLO)
    with pytest.raises(NotFound):
        old.fail(code="x")
    assert sent(tb) == []
    store(tb).drop_due([turn.id])


def test_the_sweep_forgets_a_due_turn_that_is_gone(tb: Tellback, database: Database) -> None:
    turn = overdue(tb)
    database.command("DEL", store(tb).shard(turn.id).key("turn", turn.id))
    assert swept(tb) == 0
    assert store(tb).overdue(10) == []


def test_opening_while_redis_is_away_is_refused(tmp_path: Any) -> None:
    with RedisServer.start(tmp_path) as server:
        settings = Settings(redis_url=server.url, data_dir=str(tmp_path / "host"))
        with connect(settings=settings) as tb:
            server.kill()
            with pytest.raises(Unavailable):
                opened(tb)
