"""Clients behind Sentinel hear a failover announced, and leave a former primary that still takes writes."""

from __future__ import annotations

import logging
import os
import threading
from contextlib import closing
from pathlib import Path

import pytest
from redis import Redis

from tellback import Settings, clock, connect
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.errors import Unavailable
from tellback.state.database import Database
from tellback.state.redis_py import RedisConnections
from tellback.state.sentinel import (
    CHOSEN,
    GIVEN_UP,
    PROMOTED,
    SWITCHED,
    SentinelAnnouncements,
    ServerAddress,
)
from tests.support.redis_server import RedisServer
from tests.support.sentinels import NAME, Sentinels
from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults


def listeners(watcher: RedisServer) -> int:
    """Count the connections that listen to what a Sentinel announces."""
    with closing(Database(watcher.url)) as client:
        return len(client.command("CLIENT", "LIST", "TYPE", "pubsub").splitlines())


def port_of(database: Database) -> int:
    """The port of the server that a client's next call reaches; 0 while none answers."""
    try:
        return int(database.command("CONFIG", "GET", "port")[1])
    except Unavailable:
        return 0


def fail_over(sentinels: Sentinels) -> None:
    """Promote the replica while the primary lives, which nobody is able to demote."""
    with closing(Database(sentinels.first.url)) as former, closing(Database(sentinels.watchers[2].url)) as leader:
        former.command("ACL", "SETUSER", "default", "-replicaof", "-slaveof")
        assert leader.command("SENTINEL", "FAILOVER", NAME) == b"OK"


def test_clients_leave_a_former_primary_that_lives_on(sentinels: Sentinels, tmp_path: Path) -> None:
    """Requirement A-637. They wrote to it until it was demoted, for 11 s, and that was lost: 470 of 639 events."""
    settings = Settings(redis_url=sentinels.url, data_dir=str(tmp_path / "data"))
    with (
        connect(settings=settings) as tb,
        closing(Database(sentinels.url, call_deadline=5.0)) as bounded,
        closing(Database(sentinels.first.url)) as former,
    ):
        clients = (tb.context.database, bounded)
        assert [port_of(client) for client in clients] == [sentinels.first.port] * 2
        wait_until(lambda: all(map(listeners, sentinels.watchers)), "they listen to each Sentinel")
        assert isinstance(bounded._connections, RedisConnections)
        with bounded._connections.connection() as in_use:
            fail_over(sentinels)
            second = sentinels.second.port
            wait_until(lambda: [port_of(client) for client in clients] == [second] * 2, "they follow")
            assert in_use.port == sentinels.first.port, "the call that it serves goes on"
        stream = tb.context.layout.of("s").key("in", "events")
        for _ in range(20):
            tb.context.publisher.publish(
                ToolInvoked(event_id=new_event_id(), session="s", prompt="p", evaluation="e", tool="t")
            )
            tb.flush()
        assert port_of(bounded) == second, "the connection that was in use is not used again"
        assert b"role:master" in former.command("INFO", "replication")
        assert former.command("XLEN", stream) == 0
        assert sentinels.new.command("XLEN", stream) == 20


def test_a_forked_child_follows_too(sentinels: Sentinels) -> None:
    """The threads that listen are its parent's."""
    with closing(Database(sentinels.url)) as database:
        assert port_of(database) == sentinels.first.port
        wait_until(lambda: all(map(listeners, sentinels.watchers)), "the parent listens")
        pid = os.fork()
        if pid == 0:
            try:
                port_of(database)
                wait_until(lambda: port_of(database) == sentinels.second.port, "the child follows")
                os._exit(0)
            finally:
                os._exit(1)
        wait_until(lambda: min(map(listeners, sentinels.watchers)) == 2, "the child listens")
        fail_over(sentinels)
        assert os.waitpid(pid, 0)[1] == 0


def test_a_process_listens_once_and_no_longer_than_its_clients_live(
    sentinels: Sentinels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tellback.state.sentinel.CHECK_SECONDS", 0.05)
    before = listening()
    clients = [Database(sentinels.url) for _ in range(3)]
    assert {port_of(client) for client in clients} == {sentinels.first.port}
    wait_until(lambda: all(map(listeners, sentinels.watchers)), "they listen")
    assert list(map(listeners, sentinels.watchers)) == [1, 1, 1]
    while clients:
        clients.pop().close()
    wait_until(lambda: not any(map(listeners, sentinels.watchers)), "nobody listens")
    wait_until(lambda: listening() <= before, "no thread is left")


def test_clients_that_come_and_go_share_the_threads(sentinels: Sentinels) -> None:
    """Each that followed another had three of its own: 209 after 200 calls of `connect`, each closed again."""

    def connect_and_close() -> None:
        with closing(Database(sentinels.url)) as database:
            assert port_of(database) == sentinels.first.port

    before = listening()
    for _ in range(10):
        connect_and_close()
    assert len(listening() - before) == len(sentinels.watchers)


def test_nonsense_from_what_may_be_no_sentinel_ends_no_listening(
    sentinels: Sentinels, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tellback.state.sentinel.RETRY_SECONDS", 0.05)
    with (
        closing(Database(sentinels.url)) as database,
        closing(Database(own_redis.url)) as liar,
        closing(Redis(port=own_redis.port)) as listener,
    ):
        assert isinstance(database._connections, RedisConnections)
        announcements = SentinelAnnouncements(NAME, [listener])
        announcements.move(database._connections._redis.connection_pool)
        announcements.start()

        def say(words: bytes) -> bool:
            return bool(liar.command("PUBLISH", SWITCHED, words))

        wait_until(lambda: say(b"\xff"), "it is heard")
        wait_until(lambda: say(SWITCH.encode()) and announcements.announced, "the next is followed")


def listening() -> set[threading.Thread]:
    """The threads that listen, for clients of earlier tests too."""
    return {thread for thread in threading.enumerate() if thread.name == "tellback-sentinel"}


def test_a_sentinel_that_ends_a_subscription_is_listened_to_again(
    sentinels: Sentinels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tellback.state.sentinel.RETRY_SECONDS", 0.05)
    with closing(Database(sentinels.url)) as database, closing(Database(sentinels.watchers[2].url)) as watcher:
        port_of(database)
        wait_until(lambda: listeners(sentinels.watchers[2]), "it listens")
        assert watcher.command("CLIENT", "KILL", "TYPE", "pubsub") == 1
        wait_until(lambda: listeners(sentinels.watchers[2]), "it listens again")


def start_nothing(announcements: SentinelAnnouncements) -> None:
    """Do nothing where `start` listens."""


def test_who_begins_to_listen_asks_what_it_missed(sentinels: Sentinels, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Database(sentinels.url)) as database:
        with monkeypatch.context() as patched:
            patched.setattr(SentinelAnnouncements, "start", start_nothing)
            assert port_of(database) == sentinels.first.port
        fail_over(sentinels)
        wait_until(lambda: all(names(each, sentinels.second) for each in sentinels.watchers), "all have switched")
        assert port_of(database) == sentinels.first.port
        announcements_of(database).start()
        wait_until(lambda: port_of(database) == sentinels.second.port, "it follows")


def names(watcher: RedisServer, server: RedisServer) -> bool:
    """Check whether a Sentinel names this server as the primary."""
    with closing(Database(watcher.url)) as client:
        [_, port] = client.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
        return int(port) == server.port


def announcements_of(database: Database) -> SentinelAnnouncements:
    assert isinstance(database._connections, RedisConnections)
    found: SentinelAnnouncements = database._connections._redis.connection_pool.sentinel_manager.announcements
    return found


def test_a_user_of_the_sentinels_who_may_not_subscribe_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, before = tmp_path / "sentinel.conf", listening()
    with RedisServer.start(tmp_path) as primary:
        path.write_text(f"user asks on >p ~* &* +@all -subscribe\nsentinel monitor {NAME} 127.0.0.1 {primary.port} 1\n")
        (tmp_path / "sentinel").mkdir()
        with RedisServer.start(tmp_path / "sentinel", str(path), "--sentinel") as watcher:
            url = f"sentinel://127.0.0.1:{watcher.port}/0?master_name={NAME}&sentinel_username=asks&sentinel_password=p"
            with closing(Database(url)) as database, caplog.at_level(logging.WARNING, "tellback.sentinel"):
                wait_until(lambda: port_of(database) == primary.port, "it is found")
                wait_until(lambda: "sentinel.refused" in caplog.text, "it is said")
                assert "subscribe" in caplog.text
                wait_until(lambda: listening() <= before, "it is not tried again")
                assert port_of(database) == primary.port


CHOICE = f"slave 10.0.0.2:6379 10.0.0.2 6379 @ {NAME} 10.0.0.1 6379"
SWITCH = f"{NAME} 10.0.0.1 6379 10.0.0.2 6379"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([(CHOSEN, CHOICE)], ("10.0.0.2", 6379)),
        ([(PROMOTED, CHOICE)], ("10.0.0.2", 6379)),
        ([(SWITCHED, SWITCH)], ("10.0.0.2", 6379)),
        ([(CHOSEN, CHOICE), (GIVEN_UP, f"master {NAME} 10.0.0.1 6379")], None),
        ([(CHOSEN, CHOICE), (GIVEN_UP, "master other 10.0.0.1 6379")], ("10.0.0.2", 6379)),
        ([(SWITCHED, SWITCH.replace(NAME, "other"))], None),
        ([(CHOSEN, CHOICE.replace(NAME, "other"))], None),
        ([(CHOSEN, "words of another version")], None),
    ],
)
def test_announcements_of_this_primary_count(said: list[tuple[str, str]], expected: ServerAddress | None) -> None:
    announcements = SentinelAnnouncements(NAME, [])
    for channel, text in said:
        announcements.receive(channel, text)
    assert (announcements.announced and announcements.announced[0]) == expected


def test_an_announcement_counts_for_a_while_and_then_if_a_sentinel_confirms_it(sentinels: Sentinels) -> None:
    """A Sentinel that died after its choice would keep clients at a replica."""
    with closing(Database(sentinels.url)) as database:
        assert port_of(database) == sentinels.first.port
        assert isinstance(database._connections, RedisConnections)
        pool, announcements = database._connections._redis.connection_pool, announcements_of(database)
        chosen = ("127.0.0.1", sentinels.second.port)

        def is_kept() -> bool:
            return announcements.announced is not None

        announcements.announced = chosen, clock.monotonic() + 60
        assert pool.get_master_address() == chosen
        announcements.announced = chosen, clock.monotonic()
        assert pool.get_master_address() == ("127.0.0.1", sentinels.first.port)
        assert not is_kept()
        announcements.announced = ("127.0.0.1", sentinels.first.port), clock.monotonic()
        pool.get_master_address()
        assert is_kept(), "it is confirmed"
        for watcher in sentinels.watchers:
            with closing(Database(watcher.url)) as client:
                assert b"cmd=sentinel|get-master-addr" not in client.command("CLIENT", "LIST"), (
                    "that connection is closed"
                )
