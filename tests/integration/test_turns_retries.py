"""A client that loses the reply of a decision asks again with the same operation id: the effect is not repeated."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from tellback import Tellback, Unavailable
from tellback.state.database import Database
from tellback.state.script_calls import ScriptCall
from tests.support.turns import HELLO, SENT, opened, overdue, sent, state, store, swept


@contextmanager
def replies_lost(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """The first reply of each script is lost on its way back: the effect is there, the client does not know."""
    run = Database.run
    seen: set[ScriptCall] = set()

    def losing(self: Database, call: ScriptCall) -> Any:
        reply = run(self, call)
        if call not in seen:
            seen.add(call)
            raise Unavailable("the connection broke after the script ran")
        return reply

    with monkeypatch.context() as patched:
        patched.setattr(Database, "run", losing)
        yield


def test_opening_is_no_duplicate_of_itself(tb: Tellback, monkeypatch: pytest.MonkeyPatch) -> None:
    with replies_lost(monkeypatch):
        turn = opened(tb)
    assert not turn.duplicate
    assert [entry["event"] for entry in tb.history("c1")] == ["opened"]


def test_an_answer_says_that_it_was_accepted(tb: Tellback, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = opened(tb)
    with replies_lost(monkeypatch):
        assert turn.respond(HELLO) == "accepted"
    assert sent(tb) == [(turn.id, "answer", "hello")]


def test_a_late_answer_follows_once(tb: Tellback, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = overdue(tb)
    swept(tb)
    sent(tb)
    with replies_lost(monkeypatch):
        assert turn.respond(HELLO) == "late"
    assert [kind for _, kind, _ in sent(tb)] == ["late"]


def test_a_settled_delivery_takes_nothing_else_with_it(tb: Tellback, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = [opened(tb), opened(tb)]
    for turn in turns:
        turn.respond(HELLO)
    delivery = next(iter(tb.outbox("chat")))
    with replies_lost(monkeypatch):
        assert delivery.settle(SENT) == "delivered"
    assert [turn for turn, _, _ in sent(tb)] == [turns[1].id]


def test_closing_and_progress_come_to_the_same(tb: Tellback, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = opened(tb)
    with replies_lost(monkeypatch):
        assert turn.progress() > 0
        turn.no_reply(reason="meant")
    assert state(turn) == "no_reply"
    assert [entry["event"] for entry in tb.history("c1")] == ["opened", "no_reply"]
    assert store(tb).overdue(10) == []


def test_deferring_handing_over_and_merging_come_to_the_same(tb: Tellback, monkeypatch: pytest.MonkeyPatch) -> None:
    turn, covered = opened(tb), opened(tb)
    with replies_lost(monkeypatch):
        assert turn.defer(seconds=60) == 60
        turn.hand_over(to="host-2")
        tb.merge_turns([covered], into=turn)
    story = [entry["event"] for entry in tb.history("c1")]
    assert story == ["opened", "opened", "deferred", "handed_over", "merged", "covers"]
    assert [found.id for found in tb.handed_over(to="host-2")] == [turn.id]
