"""Waiting for a list, without taking from it, whatever the server thinks of it; and what runs when it is filled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tellback import FeedbackProviderConfig, FeedbackTrigger, Prompt, Settings, StaticFeedback, Tellback, connect
from tellback.errors import Unavailable
from tellback.state import list_waiter as module
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.list_waiter import ListWaiter
from tellback.state.redis_py import RedisConnections
from tellback.state.script_calls import ScriptCall
from tellback.state.scripts import common
from tests.support.redis_server import RedisServer
from tests.support.waiting import blocked, wait_until
from tests.support.workers import StartWorkers


@pytest.fixture
def mailbox(layout: Layout) -> str:
    return layout.of("s").key("mailbox", "s", "p", "e")


@pytest.fixture
def question(layout: Layout, mailbox: str) -> ScriptCall:
    """A script that has no effect here; its reply is 0."""
    return common.drop_missing(index=layout.of("s").key("timers"), key=mailbox, member="nobody")


def test_all_who_wait_hear_and_the_list_stays_as_it_is(
    database: Database, quick: Database, mailbox: str, question: ScriptCall
) -> None:
    list_waiter = ListWaiter(quick)
    heard: list[int] = []
    waiters = [
        threading.Thread(target=lambda: heard.append(list_waiter.run_when_filled(mailbox, 30, question)))
        for _ in range(3)
    ]
    for waiter in waiters:
        waiter.start()
    wait_until(lambda: blocked(database) == 3, "all of them wait at the server")
    database.pipeline([("MULTI",), ("RPUSH", mailbox, "a", "b"), ("PEXPIRE", mailbox, 60_000), ("EXEC",)])
    for waiter in waiters:
        waiter.join(60)
    assert heard == [0] * 3
    assert database.command("LRANGE", mailbox, 0, -1) == [b"a", b"b"]
    assert 0 < database.command("PTTL", mailbox) <= 60_000


def test_a_list_of_one_keeps_its_lifetime(
    database: Database, quick: Database, mailbox: str, question: ScriptCall
) -> None:
    database.pipeline([("RPUSH", mailbox, "a"), ("PEXPIRE", mailbox, 60_000)])
    assert ListWaiter(quick).run_when_filled(mailbox, 30, question) == 0
    assert 0 < database.command("PTTL", mailbox) <= 60_000


def test_the_time_is_over_when_nothing_came(
    database: Database, quick: Database, mailbox: str, question: ScriptCall
) -> None:
    assert ListWaiter(quick).run_when_filled(mailbox, 0.01, question) == 0
    database.command("SCRIPT", "FLUSH")
    # 0.0001: a wait below what Redis counts is no wait for ever
    assert ListWaiter(quick).run_when_filled(mailbox, 0.0001, question) == 0, "of a script that the server forgot"


def test_above_the_bound_nobody_waits(
    database: Database, quick: Database, mailbox: str, question: ScriptCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITERS", 1)
    list_waiter = ListWaiter(quick)
    waiter = threading.Thread(target=list_waiter.run_when_filled, args=(mailbox, 30, question))
    waiter.start()
    wait_until(lambda: blocked(database) == 1, "it waits at the server")
    assert list_waiter.run_when_filled(mailbox, 30, question) is None
    database.pipeline([("RPUSH", mailbox, "a"), ("PEXPIRE", mailbox, 1_000)])
    waiter.join(60)


def test_a_server_that_hangs_is_given_up(
    quick: Database, mailbox: str, question: ScriptCall, redis_server: RedisServer
) -> None:
    list_waiter = ListWaiter(quick)
    assert list_waiter.run_when_filled(mailbox, 0.01, question) == 0
    redis_server.suspend()
    try:
        with pytest.raises(Unavailable):
            list_waiter.run_when_filled(mailbox, 0.01, question)
    finally:
        redis_server.resume()
    assert list_waiter.run_when_filled(mailbox, 0.01, question) == 0, "nothing of the reply that came late is left"


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
            prompt = _prompt(tb)
            prompt.tool_invoked("t")
            wait_until(lambda: database.command("EXISTS", _mailbox(tb, prompt)), "its feedback waits")
            # The script ran after the wait was refused and took the feedback: nobody saw its reply.
            assert len(prompt.feedback(wait=20)) == 1
            assert _feedback(tb)
    finally:
        database.command("ACL", "DELUSER", "old")


def test_a_call_and_its_feedback_take_a_host_one_round_trip(
    database: Database, settings: Settings, start_workers: StartWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requirement A-340: it appends the call, waits for the feedback and takes it."""
    start_workers(queues="events")
    with connect(settings=msgspec.structs.replace(settings, publish_delay=60.0)) as host:
        prompt = _prompt(host)
        prompt.tool_invoked("t")
        assert prompt.feedback(wait=20)
        wakeup = host.context.layout.of("s").key("wakeup", "events")
        wait_until(lambda: database.command("GET", wakeup) == b"lingering", "a consumer lingers: nobody is notified")
        trips: list[str] = []
        for name in ("run_all", "run_blocking"):
            monkeypatch.setattr(RedisConnections, name, _noting(trips, name, getattr(RedisConnections, name)))
        monkeypatch.setattr(module, "WAIT_SLICE", 20.0)  # a wait that is longer takes another round trip
        prompt.tool_invoked("t")
        assert prompt.feedback(wait=20)
        assert trips == ["run_blocking"]


def _noting(trips: list[str], name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*args: Any, **kwargs: Any) -> Any:
        trips.append(name)
        return real(*args, **kwargs)

    return noted


def _prompt(tb: Tellback) -> Prompt:
    config = FeedbackProviderConfig(StaticFeedback("Mind the goal."), FeedbackTrigger(every_n_calls=1))
    return tb.prompt("s", "p", feedback_providers=[config])


def _mailbox(tb: Tellback, prompt: Prompt) -> str:
    return tb.context.layout.of("s").key("mailbox", "s", "p", prompt.evaluation)


def _feedback(tb: Tellback) -> list[str]:
    prompt = _prompt(tb)
    prompt.tool_invoked("t")
    return [feedback.summary for feedback in prompt.feedback(wait=20)]
