"""Deliveries in no index: the sweep puts them back, and the doctor names them."""

from __future__ import annotations

import pytest

from tellback import Tellback, clock
from tellback.doctor.backlog import check_outbox as examined
from tellback.state.turn_sweeps import PAGE, reindex, stranded
from tests.support.interleaving import Interrupted
from tests.support.turns import HELLO, SENT, opened, overdue, sent, store, swept
from tests.support.waiting import wait_until


def strand(tb: Tellback, turn_id: str, conversation: str = "c1") -> None:
    """As two transports and a host left it, before the index was changed by scripts alone."""
    tb.context.database.command("ZREM", store(tb).shard(turn_id).key("out", "chat"), conversation)


def every_page(tb: Tellback, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the number of deliveries that each of the twenty rounds put back."""
    found: list[int] = []
    for place in range(20):
        monkeypatch.setattr(clock, "wall", lambda now=2.0 * place: now)
        found.append(reindex(tb.context.database, tb.context.layout, 2.0))
    return found


def test_a_stranded_answer_is_delivered_after_the_sweep(tb: Tellback, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fallback is too, and a late answer behind one that was sent; each once, and nothing else is touched."""
    first, second, fallback = opened(tb), opened(tb, conversation="c2"), overdue(tb, conversation="c3")
    first.respond(HELLO)
    second.respond(HELLO)
    assert swept(tb) == 1
    strand(tb, first.id)
    strand(tb, fallback.id, "c3")
    found = stranded(tb.context.database, tb.context.layout)
    assert sorted(place.conversation for place in found) == ["c1", "c3"]
    assert sum(every_page(tb, monkeypatch)) == 2
    assert stranded(tb.context.database, tb.context.layout) == []
    assert sorted(turn for turn, _, _ in sent(tb)) == sorted([first.id, second.id, fallback.id])
    assert sum(every_page(tb, monkeypatch)) == 0


def test_one_round_checks_a_twentieth(tb: Tellback, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost does not follow what is open; a turn on any page is found."""
    for _ in range(PAGE):
        opened(tb, conversation="c1")
    before = tb.context.database.now_ms()  # of turns of one millisecond, their ids decide the order
    wait_until(lambda: tb.context.database.now_ms() > before, "the next millisecond")
    last = opened(tb, conversation="c1")
    last.respond(HELLO)
    strand(tb, last.id)
    assert every_page(tb, monkeypatch)[:3] == [0, 1, 0]


def test_what_is_settled_meanwhile_does_not_come_back(tb: Tellback) -> None:
    turn = opened(tb)
    turn.respond(HELLO)
    [delivery] = tb.outbox("chat")
    strand(tb, turn.id)
    between = Interrupted(tb.context.settings.redis_url, "EXISTS", lambda: delivery.settle(SENT))
    assert reindex(between, tb.context.layout, 1e12) == 0
    assert between.interrupted
    between.close()
    assert tb.context.database.command("EXISTS", store(tb).shard(turn.id).key("out", "chat")) == 0


def test_the_doctor_names_what_is_stranded(tb: Tellback) -> None:
    turn = opened(tb)
    turn.respond(HELLO)
    assert examined(tb.context.database, tb.context.layout).state == "ok"
    strand(tb, turn.id)
    finding = examined(tb.context.database, tb.context.layout)
    assert finding.state == "wrong"
    assert "no transport can see the deliveries of 1 conversation: 'chat' 'c1'" in finding.found


def test_a_further_answer_brings_a_stranded_one_back(tb: Tellback) -> None:
    turns = [opened(tb), opened(tb)]
    turns[0].respond(HELLO)
    strand(tb, turns[0].id)
    turns[1].respond(HELLO)
    assert [turn for turn, _, _ in sent(tb)] == [turn.id for turn in turns]
