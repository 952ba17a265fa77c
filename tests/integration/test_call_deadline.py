"""Calls that must not wait end, whatever answers in place of Redis, or however slowly it does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import pytest

from tellback import Unavailable, clock, connect
from tellback.settings import Settings
from tellback.state import call_deadline
from tellback.state.database import Database
from tellback.state.script_calls import FirstCall
from tellback.state.scripts import common
from tests.support.redis_server import RedisServer
from tests.support.waiting import blocked, wait_until

DEADLINE: Final = 0.8  # a call that is answered takes less, also on a busy machine


class Between:
    """Stands between clients and a Redis; what the server says can be made to come as it never should."""

    def __init__(self, port: int) -> None:
        self.trickles = threading.Event()
        self.garbles = threading.Event()
        self.ended = threading.Event()
        self._port = port
        self._door = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._door.getsockname()[1]}/0"

    def close(self) -> None:
        self.ended.set()
        self._door.close()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()
                threading.Thread(target=self._answer, args=(server, client), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError), server:
            while data := client.recv(1 << 16):
                server.sendall(data)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError), client:
            while data := server.recv(1 << 16):
                if self.garbles.is_set():
                    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    continue
                if self.trickles.is_set():
                    client.sendall(b"$100000000\r\n")
                while self.trickles.is_set() and not self.ended.wait(DEADLINE / 10):
                    client.sendall(b"x")
                client.sendall(data)


@pytest.fixture
def between(redis_server: RedisServer) -> Iterator[Between]:
    made = Between(redis_server.port)
    yield made
    made.close()


@pytest.fixture
def quick(between: Between, _emptied: None) -> Iterator[Database]:
    client = Database(between.url, call_deadline=DEADLINE)
    yield client
    client.close()


def test_a_reply_that_trickles_in_without_end_is_given_up_and_the_next_call_is_sound(
    between: Between, quick: Database
) -> None:
    """No read of it takes long: by its socket's time-out alone it would be waited for without end."""
    assert quick.command("INCR", "tb:x") == 1
    between.trickles.set()
    for call in (
        lambda: quick.command("INCR", "tb:x"),
        lambda: quick.pipeline([("INCR", "tb:x")]),
        lambda: quick.blocking(0.01, "BLMOVE", "tb:a", "tb:a", "LEFT", "LEFT"),
    ):
        with pytest.raises(Unavailable):
            call()
    between.trickles.clear()
    assert quick.command("SET", "tb:x", "sound") == b"OK"
    assert quick.command("GET", "tb:x") == b"sound"
    quick.command("DEL", "tb:x")


def test_a_handshake_that_trickles_in_is_given_up(between: Between, quick: Database) -> None:
    between.trickles.set()
    with pytest.raises(Unavailable):
        quick.command("PING")


def test_a_blocking_call_has_its_own_time_and_the_deadline(quick: Database) -> None:
    """A wait that is longer than the deadline ends by itself, with nothing."""
    assert quick.blocking(1.5 * DEADLINE, "BLMOVE", "tb:none", "tb:none", "LEFT", "LEFT") is None
    assert quick.command("PING") == b"PONG"


def test_a_wait_after_a_first_call_ends_in_one_deadline(quick: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requirement A-499: by the clock its time is over once the first reply is there; the server would wait on."""
    call = common.drop_missing(index="tb:{a}:index", key="tb:{a}:none", member="nobody")
    quick.run(call)

    def answered(reply: object) -> None:
        replies.append(reply)
        later = clock.monotonic() + 5.0 + 1.5 * DEADLINE
        monkeypatch.setattr(clock, "monotonic", lambda: later)

    replies: list[object] = []
    wait = ("BLMOVE", "tb:{a}:none", "tb:{a}:none", "LEFT", "LEFT")
    with pytest.raises(Unavailable):
        quick.blocking(5.0, *wait, then=call, first=FirstCall(call, answered))
    assert replies == [0]


@pytest.mark.parametrize("deadline", [None, DEADLINE], ids=["patient", "quick"])
def test_a_call_goes_on_while_its_client_is_closed(
    database: Database, redis_server: RedisServer, deadline: float | None
) -> None:
    """Requirement A-498: it has its reply, and its connection is closed then, and so is that of a later one."""

    def connected() -> set[bytes]:
        return {line.split(b" ", 1)[0] for line in database.command("CLIENT", "LIST").splitlines()}

    before, key = connected(), "tb:mailbox"  # by their ids: one of an earlier test may end meanwhile
    client = Database(redis_server.url, call_deadline=deadline)
    replies: list[object] = []
    waiting = threading.Thread(target=lambda: replies.append(client.blocking(20.0, "BLMOVE", key, key, "LEFT", "LEFT")))
    waiting.start()
    wait_until(lambda: blocked(database) == 1, "it waits")
    client.close()
    database.pipeline([("RPUSH", key, "one"), ("PEXPIRE", key, 60_000)])
    waiting.join(10)
    assert replies == [b"one"]
    assert client.command("LLEN", key) == 1
    wait_until(lambda: connected() <= before, "no connection stays")
    database.command("DEL", key)


def test_calls_of_many_threads_are_ended_each_by_itself(between: Between, quick: Database) -> None:
    ended: list[str] = []

    def call() -> None:
        try:
            quick.command("PING")
        except Unavailable:
            ended.append("given up")

    between.trickles.set()
    threads = [threading.Thread(target=call) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert ended == ["given up"] * 20
    between.trickles.clear()
    assert [quick.command("PING") for _ in range(40)] == [b"PONG"] * 40, "no connection is left that was shut"


def test_the_watching_thread_ends_with_the_calls_and_comes_back(
    between: Between, quick: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_deadline, "IDLE_SECONDS", call_deadline.CHECK_SECONDS)

    def watches() -> bool:
        return any(thread.name == "tellback-call-deadline" for thread in threading.enumerate())

    quick.command("PING")
    wait_until(lambda: not watches(), "nobody watches where nobody calls")
    between.trickles.set()
    with pytest.raises(Unavailable):
        quick.command("PING")


def test_what_an_access_list_forbids_or_somebody_else_wrote_reaches_no_agent(
    redis_server: RedisServer, database: Database, settings: Settings
) -> None:
    """The events are spooled, and the log says why nothing comes."""
    database.command("ACL", "SETUSER", "weak", "on", ">pw", "~*", "+@all", "-@scripting")
    weak = Settings(redis_url=redis_server.url.replace("://", "://weak:pw@"), data_dir=settings.data_dir)
    try:
        with connect(settings=weak) as tb:
            prompt = tb.prompt("s1", "p")
            prompt.tool_invoked("t")
            assert prompt.feedback(wait=0.05) == []
            tb.flush()
            assert tb.context.publisher.spooled
    finally:
        database.command("ACL", "DELUSER", "weak")
    with connect(settings=settings) as tb:
        prompt = tb.prompt("s1", "p", evaluation="e")
        mailbox = tb.context.layout.of("s1").key("mailbox", "s1", "p", "e")
        database.command("SET", mailbox, "no list", "PX", 60_000)
        assert prompt.feedback(wait=0.05) == []
        database.command("DEL", mailbox)


@pytest.mark.parametrize("what", ["trickles", "garbles"])
def test_an_agent_waits_for_no_feedback_and_gets_it_later(
    what: str, between: Between, database: Database, settings: Settings
) -> None:
    odd = Settings(redis_url=between.url, data_dir=settings.data_dir)
    with connect(settings=odd) as tb:
        prompt = tb.prompt("s1", "p", evaluation="e", tools=["a", "b"])
        assert prompt.feedback() == []
        mailbox = tb.context.layout.of("s1").key("mailbox", "s1", "p", "e")
        database.command("RPUSH", mailbox, b'{"provider_name":"X","summary":"kept"}')
        database.command("PEXPIRE", mailbox, 60_000)
        trouble = between.trickles if what == "trickles" else between.garbles
        trouble.set()
        assert prompt.feedback(wait=0.05) == []
        assert prompt.observe("a", error="503 Service Unavailable").status == "error"
        trouble.clear()
        assert [feedback.summary for feedback in prompt.feedback(wait=20)] == ["kept"]
