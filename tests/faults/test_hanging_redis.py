"""A Redis that hangs, as it does when stopped or swapped out: a caller waits for one reply, once. Requirement A-433."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec
import pytest
from redis import exceptions
from typer.testing import CliRunner

from tellback import OutgoingResponse, Tellback, Unavailable, connect
from tellback.aio import connect as connect_async
from tellback.cli.app import app
from tellback.client.turns import Turn
from tellback.settings import Settings
from tellback.state import decisions, redis_py, unavailable
from tellback.state.unavailable import unavailable_text
from tests.support.redis_server import RedisServer
from tests.support.turns import opened
from tests.support.waiting import wait_until

Waits = Counter[int]

ANSWER = OutgoingResponse.text_only("yes")
ANSWERS: dict[str, Callable[[Turn], str]] = {
    "respond": lambda turn: turn.respond(ANSWER),
    "fail": lambda turn: turn.fail(code="llm.down"),
}
DECISIONS: dict[str, Callable[[Tellback], object]] = {
    "gate": lambda tb: tb.gate("s1"),
    "waive": lambda tb: tb.waive("s1", "c1", reason="known"),
    "records": lambda tb: tb.records("s1"),
    "open_turn": opened,
}


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    """Counts, for each thread, the calls that went unanswered for their whole time, which is shorter here."""
    found: Waits = Counter()

    def count(error: Exception, url: str) -> str:
        found[threading.get_ident()] += isinstance(error, exceptions.TimeoutError)
        return unavailable_text(error, url)

    monkeypatch.setattr(unavailable, "unavailable_text", count)
    monkeypatch.setattr(redis_py, "SOCKET_TIMEOUT", 1.0)
    monkeypatch.setattr(decisions, "RETRY_SECONDS", 0.6)  # as much shorter
    return found


@pytest.fixture
def own_settings(own_redis: RedisServer, settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, redis_url=own_redis.url)


@pytest.fixture
def host(own_settings: Settings, waits: Waits, own_redis: RedisServer) -> Iterator[Tellback]:
    """A client whose Redis hangs once `own_redis` is paused; it can go on when the client is closed."""
    del waits  # shortens what the client waits for
    with connect(settings=own_settings) as client:
        yield client
        own_redis.resume()


def mine(waits: Waits) -> int:
    return waits[threading.get_ident()]


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_waits_once_and_is_spooled(host: Tellback, own_redis: RedisServer, waits: Waits, answer: str) -> None:
    turn = opened(host)
    own_redis.suspend()
    assert ANSWERS[answer](turn) == "spooled"
    assert mine(waits) == 1
    assert host.spooled


def test_an_answer_does_not_wait_for_events_that_another_thread_sends(host: Tellback, own_redis: RedisServer) -> None:
    turn = opened(host)
    own_redis.suspend()
    results: list[str] = []
    other = threading.Thread(target=lambda: results.append(turn.respond(ANSWER)))
    with host.context.publisher._send_lock:  # as if a call of the publisher's thread hung
        other.start()
        wait_until(lambda: bool(results), "the answer is on disk although the lock is held")
    assert results == ["spooled"]


@pytest.mark.parametrize(
    "ask", [pytest.param(name, marks=[] if name == "gate" else [pytest.mark.slow]) for name in DECISIONS]
)
def test_a_decision_waits_once_also_with_events_to_send_first(
    host: Tellback, own_redis: RedisServer, waits: Waits, ask: str
) -> None:
    host.records("s1")
    own_redis.suspend()
    host.submit(["true"], session="s1")
    before = mine(waits)  # admission asks too, within the deadline of feedback
    with pytest.raises(Unavailable):
        DECISIONS[ask](host)
    assert mine(waits) - before == 1


def test_a_client_that_connects_to_it_waits_once(own_settings: Settings, own_redis: RedisServer, waits: Waits) -> None:
    own_redis.suspend()
    with connect(settings=own_settings):
        assert mine(waits) == 1
    own_redis.resume()


def test_a_client_of_asyncio_waits_once(own_settings: Settings, own_redis: RedisServer, waits: Waits) -> None:
    async def run() -> int:
        async with connect_async(settings=own_settings) as tb:
            turn = await tb.open_turn(channel="web", conversation="c1", message_id="m1", text="hello")
            own_redis.suspend()
            before = waits.total()
            assert await turn.respond(ANSWER) == "spooled"
            found = waits.total() - before
            own_redis.resume()
            return found

    assert asyncio.run(run()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["gate", "s1"],
        *(
            pytest.param(line.split(), marks=pytest.mark.slow)
            for line in ("records s1", "turns", "turns show x", "sessions", "ps", "dead list")
        ),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("team", [[], ["--team", "default"]], ids=["", "named"])
def test_a_command_of_the_command_line_waits_once(
    own_redis: RedisServer, waits: Waits, arguments: list[str], team: list[str]
) -> None:
    own_redis.suspend()
    result = CliRunner().invoke(app, [*arguments, "--redis-url", own_redis.url, *team])
    assert (result.exit_code, result.stderr.count("did not answer")) == (1, 1), result.output
    assert mine(waits) == 1
    own_redis.resume()
