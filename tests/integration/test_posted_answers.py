"""The wait of transports for the next answer: it ends at once, and where it is impossible they poll as before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from tellback import OutgoingResponse, RoutingOutcome, Tellback
from tellback.backoff import Backoff
from tellback.client import outbox
from tellback.client.outbox import OutboxDelivery
from tellback.errors import Unavailable
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.posted_answers import PostedAnswers
from tellback.transports.serving import serve
from tests.support.turns import SENT, delivered_now, opened, overdue, swept
from tests.support.waiting import blocked, wait_until

T = TypeVar("T")


def answered(tb: Tellback, conversation: str = "c1") -> str:
    turn = opened(tb, conversation=conversation)
    turn.respond(OutgoingResponse.text_only("hello"))
    return turn.id


def with_fallback(tb: Tellback) -> str:
    turn = overdue(tb)
    assert swept(tb) == 1
    return turn.id


def in_background(call: Callable[[], T]) -> list[T]:
    """The list to which a thread adds what `call` returns."""
    results: list[T] = []
    threading.Thread(target=lambda: results.append(call()), daemon=True).start()
    return results


def posted_in(tb: Tellback) -> list[int]:
    keys = [shard.key("posted", "chat") for shard in tb.context.layout.all]
    return [found for found in tb.context.database.pipeline([("LLEN", key) for key in keys]) if found]


@pytest.fixture
def rare_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polls an hour apart: what comes, comes by itself."""
    monkeypatch.setattr(outbox, "BACKOFF", Backoff(first=3_600.0))


@pytest.mark.usefixtures("rare_polls")
@pytest.mark.parametrize("post", [answered, with_fallback])
def test_an_answer_ends_the_wait_of_a_transport(tb: Tellback, post: Callable[[Tellback], str]) -> None:
    found = in_background(lambda: next(tb.outbox("chat", wait=3_600)).turn_id)
    wait_until(lambda: blocked(tb.context.database) == 1, "it waits at the server")
    turn = post(tb)
    wait_until(lambda: found == [turn], "the transport has it")


@pytest.mark.usefixtures("rare_polls")
def test_an_answer_ends_the_wait_of_a_served_channel(tb: Tellback) -> None:
    stop = threading.Event()

    class Sends:
        longest = 0.0

        def send(self, delivery: OutboxDelivery) -> RoutingOutcome:
            stop.set()
            return SENT

    ended = in_background(partial(serve, tb, "chat", Sends(), stop=stop))
    wait_until(lambda: blocked(tb.context.database) == 1, "it waits at the server")
    answered(tb)
    wait_until(lambda: ended == [None], "it is sent, and the transport stops")


def test_answers_that_nobody_awaited_end_one_wait_for_each_shard(tb: Tellback) -> None:
    for number in range(20):
        answered(tb, f"c{number}")
    posted = posted_in(tb)
    assert set(posted) == {1}
    waits = PostedAnswers(tb.context.database, tb.context.layout, "chat")
    for _ in posted:
        assert waits.wait(60) == 0
    assert posted_in(tb) == []
    assert waits.wait(0.001) == 0, "nothing is left to sleep, since it waited"


def test_each_of_two_answers_ends_a_wait(tb: Tellback) -> None:
    waits = [PostedAnswers(tb.context.database, tb.context.layout, "chat") for _ in range(2)]
    ended = [in_background(partial(each.wait, 3_600)) for each in waits]
    wait_until(lambda: blocked(tb.context.database) == 2, "both wait at the server")
    for conversation in ("c1", "c2"):
        answered(tb, conversation)
    wait_until(lambda: ended == [[0], [0]], "both waits end")


def test_an_answer_behind_another_ends_no_wait(tb: Tellback) -> None:
    """To a conversation whose first delivery is in its backoff, 1,000 answers a second made as many polls."""
    answered(tb)
    assert PostedAnswers(tb.context.database, tb.context.layout, "chat").wait(60) == 0
    answered(tb)
    assert posted_in(tb) == []
    assert len(delivered_now(tb)) == 2
    answered(tb)
    assert posted_in(tb) == [1]


def test_a_wait_whose_connection_is_closed_ends_in_a_poll(tb: Tellback, database: Database) -> None:
    """A transport that polled did not notice; an iterator over the outbox must not end by it."""
    ended = in_background(partial(PostedAnswers(tb.context.database, tb.context.layout, "chat").wait, 3_600))
    wait_until(lambda: blocked(database) == 1, "it waits at the server")
    database.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    wait_until(lambda: ended == [3_600], "the wait ends")
    turn = answered(tb)
    assert next(tb.outbox("chat")).turn_id == turn


def test_who_may_not_wait_sleeps(tb: Tellback, database: Database, layout: Layout) -> None:
    """A key of another type costs no answer either."""
    for shard in layout.all:
        database.command("SET", shard.key("posted", "chat"), "by hand")
    waits = PostedAnswers(database, layout, "chat")
    assert waits.wait(3_600) == 3_600
    turn = answered(tb)
    assert next(tb.outbox("chat", wait=60)).turn_id == turn
    database.pipeline([("DEL", shard.key("posted", "chat")) for shard in layout.all])
    answered(tb)
    assert waits.wait(3_600) == 3_600, "not asked again for some seconds"


def test_a_wait_for_a_redis_that_does_not_answer_raises(layout: Layout) -> None:
    """As a poll does: a transport that slept would take an outage for a quiet channel."""

    def blocking(*_: object) -> None:
        raise Unavailable("no answer in time") from TimeoutError()

    away: Any = SimpleNamespace(cluster=None, blocking=blocking)
    with pytest.raises(Unavailable):
        PostedAnswers(away, layout, "chat").wait(3_600)


def test_on_a_cluster_transports_sleep_between_polls(layout: Layout) -> None:
    """One read cannot wait for the slots of several shards."""
    on_a_cluster: Any = SimpleNamespace(cluster=object())
    assert PostedAnswers(on_a_cluster, layout, "chat").wait(3_600) == 3_600
