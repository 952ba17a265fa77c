"""The notification: waiting for a list, without taking from it, whatever the server thinks of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import msgspec
import pytest

from tellback import FeedbackProviderConfig, FeedbackTrigger, Settings, StaticFeedback, Tellback, connect
from tellback.errors import Unavailable
from tellback.state import list_waiter as module
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.list_waiter import ListWaiter
from tests.support.redis_server import RedisServer
from tests.support.waiting import blocked, wait_until
from tests.support.workers import StartWorkers


@pytest.fixture
def quick(redis_server: RedisServer) -> Iterator[Database]:
    client = Database(redis_server.url, call_deadline=1.0)  # far above what a reply takes on a busy machine
    yield client
    client.close()


@pytest.fixture
def mailbox(layout: Layout) -> str:
    return layout.of("s").key("mailbox", "s", "p", "e")


def test_all_who_wait_hear_and_the_list_stays_as_it_is(database: Database, quick: Database, mailbox: str) -> None:
    list_waiter = ListWaiter(quick)
    heard: list[bool] = []
    waiters = [threading.Thread(target=lambda: heard.append(list_waiter.wait(mailbox, 30))) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    wait_until(lambda: blocked(database) == 3, "all of them wait at the server")
    database.pipeline([("MULTI",), ("RPUSH", mailbox, "a", "b"), ("PEXPIRE", mailbox, 60_000), ("EXEC",)])
    for waiter in waiters:
        waiter.join(10)
    assert heard == [True] * 3
    assert database.command("LRANGE", mailbox, 0, -1) == [b"a", b"b"]
    assert 0 < database.command("PTTL", mailbox) <= 60_000


def test_a_list_of_one_keeps_its_lifetime(database: Database, quick: Database, mailbox: str) -> None:
    database.pipeline([("RPUSH", mailbox, "a"), ("PEXPIRE", mailbox, 60_000)])
    assert ListWaiter(quick).wait(mailbox, 30)
    assert 0 < database.command("PTTL", mailbox) <= 60_000


def test_the_time_is_over_when_nothing_came(quick: Database, mailbox: str) -> None:
    assert ListWaiter(quick).wait(mailbox, 0.01)
    assert ListWaiter(quick).wait(mailbox, 0.0001), "a wait below what Redis counts is no wait for ever"


def test_above_the_bound_nobody_waits(
    database: Database, quick: Database, mailbox: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITERS", 1)
    list_waiter = ListWaiter(quick)
    waiter = threading.Thread(target=list_waiter.wait, args=(mailbox, 30))
    waiter.start()
    wait_until(lambda: blocked(database) == 1, "it waits at the server")
    assert not list_waiter.wait(mailbox, 30)
    database.pipeline([("RPUSH", mailbox, "a"), ("PEXPIRE", mailbox, 1_000)])
    waiter.join(10)


def test_a_server_that_hangs_is_given_up(quick: Database, mailbox: str, redis_server: RedisServer) -> None:
    list_waiter = ListWaiter(quick)
    assert list_waiter.wait(mailbox, 0.01)
    redis_server.pause()
    try:
        with pytest.raises(Unavailable):
            list_waiter.wait(mailbox, 0.01)
    finally:
        redis_server.resume()
    assert list_waiter.wait(mailbox, 0.01), "nothing of the reply that came late is left"


def test_who_may_not_wait_asks_again_and_again(
    database: Database, settings: Settings, start_workers: StartWorkers, redis_server: RedisServer
) -> None:
    """An access list from before there was a waiter: feedback comes as it did, and no call fails."""
    database.command("ACL", "SETUSER", "old", "on", ">old", "~*", "&*", "+@all", "-blmove")
    host, _, rest = redis_server.url.partition("@")
    url = f"redis://old:old@{rest}" if rest else host.replace("redis://", "redis://old:old@")
    start_workers(queues="events")
    try:
        with connect(settings=msgspec.structs.replace(settings, redis_url=url)) as tb:
            assert _feedback(tb)
    finally:
        database.command("ACL", "DELUSER", "old")


def test_feedback_is_waited_for_with_one_question(tb: Tellback, start_workers: StartWorkers) -> None:
    start_workers(queues="events")
    assert _feedback(tb)
    stats: bytes = tb.context.database.command("INFO", "commandstats")
    waits = int(stats.partition(b"cmdstat_blmove:calls=")[2].partition(b",")[0])
    assert waits >= 1


def _feedback(tb: Tellback) -> list[str]:
    config = FeedbackProviderConfig(StaticFeedback("Mind the goal."), FeedbackTrigger(every_n_calls=1))
    prompt = tb.prompt("s", "p", feedback_providers=[config])
    prompt.tool_invoked("t")
    return [feedback.summary for feedback in prompt.feedback(wait=20)]
