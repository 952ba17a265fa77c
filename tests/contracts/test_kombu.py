"""The contract with kombu: what `broker_transport` and `doctor` use of it that its documentation does not promise.

Run by itself on other versions by test_library_versions.py.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from kombu import Connection, Consumer, Exchange, Queue

from tellback import broker_transport
from tellback.broker import KEY_PREFIX, broker_config
from tellback.doctor.backlog import check_queues
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tests.support.waiting import wait_until

QUEUE = Family.EVENTS.value
TYPED = json.dumps({"__type__": "datetime", "__value__": "no time"})
UNREADABLE = ["no JSON", "\x00", TYPED]
BAD_CONTENT = [
    pytest.param("{nope", "application/json", id="no JSON"),
    pytest.param(TYPED, "application/json", id="no time"),
    pytest.param("7", "application/json", id="a number"),
    pytest.param("{}", "text/plain", id="a text"),
]


@pytest.fixture
def connection(settings: Settings) -> Iterator[Connection]:
    options = broker_config(settings)
    with Connection(options["broker_url"], transport_options=options["broker_transport_options"]) as connection:
        yield connection


@pytest.fixture
def rejections(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """An item for each message that was rejected."""
    found: list[bool] = []
    monkeypatch.setattr(broker_transport, "on_rejected", [lambda: found.append(True)])
    return found


def handle_until(connection: Connection, predicate: Callable[[], object], description: str) -> None:
    """Handle what comes, which also begins subscriptions, until the predicate holds."""

    def handled() -> bool:
        with suppress(TimeoutError):
            connection.drain_events(timeout=0.1)
        return bool(predicate())

    wait_until(handled, description)


def test_a_message_that_kombu_cannot_decode_is_rejected_and_the_next_one_is_delivered(
    connection: Connection, database: Database, rejections: list[bool]
) -> None:
    """Kombu decodes it where it reads it, and has no place of its own for a message that it cannot decode."""
    received: list[Any] = []
    queue = Queue(QUEUE, Exchange(QUEUE), routing_key=QUEUE)
    with Consumer(connection.channel(), [queue], callbacks=[lambda body, _: received.append(body)], no_ack=True):
        for raw in UNREADABLE:
            database.command("LPUSH", f"{KEY_PREFIX}{QUEUE}", raw)
        connection.Producer().publish({"good": 1}, routing_key=QUEUE, exchange=QUEUE, serializer="json")
        handle_until(connection, lambda: received, "the good one is delivered")
    assert received == [{"good": 1}]
    assert len(rejections) == len(UNREADABLE)


def test_a_broadcast_that_kombu_cannot_decode_is_rejected_and_the_next_one_is_delivered(
    connection: Connection, database: Database, rejections: list[bool]
) -> None:
    """Kombu logs what is not JSON, and has no place to count it."""
    received: list[Any] = []
    exchange = Exchange("all", type="fanout")
    queue = Queue("mine", exchange, auto_delete=True)
    with Consumer(connection.channel(), [queue], callbacks=[lambda body, _: received.append(body)], no_ack=True):
        handle_until(connection, lambda: database.command("PUBSUB", "NUMPAT"), "it is subscribed")
        for raw in UNREADABLE:
            assert database.command("PUBLISH", f"{KEY_PREFIX}/0.all", raw) == 1
        connection.Producer().publish({"good": 1}, exchange=exchange, declare=[exchange], serializer="json")
        handle_until(connection, lambda: received, "the good one is delivered")
    assert received == [{"good": 1}]
    assert len(rejections) == len(UNREADABLE)


@pytest.mark.parametrize(("body", "kind"), BAD_CONTENT)
def test_a_broadcast_whose_content_is_no_object_of_json_is_rejected(
    connection: Connection, database: Database, rejections: list[bool], body: str, kind: str
) -> None:
    """Celery's consumer of remote control logs what it cannot decode and goes on, so nobody else could count it."""
    received: list[Any] = []
    undecoded: list[Any] = []
    exchange = Exchange("all", type="fanout")
    consumer = Consumer(
        connection.channel(),
        [Queue("mine", exchange, auto_delete=True)],
        callbacks=[lambda body, _: received.append(body)],
        on_decode_error=lambda message, _: undecoded.append(message),
        no_ack=True,
        accept=["json"],
    )
    with consumer:
        handle_until(connection, lambda: database.command("PUBSUB", "NUMPAT"), "it is subscribed")
        options: dict[str, Any] = {"exchange": exchange, "declare": [exchange]}
        connection.Producer().publish(body, content_type=kind, content_encoding="utf-8", **options)
        connection.Producer().publish({"good": 1}, serializer="json", **options)
        handle_until(connection, lambda: received, "the good one is delivered")
    assert (received, undecoded) == ([{"good": 1}], [])
    assert len(rejections) == 1


def test_a_channel_keeps_its_client_until_it_has_another_pool(connection: Connection) -> None:
    """Kombu makes one for each command, and drops the pool in a child that has inherited it."""
    channel: Any = connection.channel()
    with channel.conn_or_acquire() as first:
        assert channel._create_client(asynchronous=True).connection_pool is channel.async_pool
    with channel.conn_or_acquire() as second:
        assert second is first
    channel._after_fork()
    with channel.conn_or_acquire() as own:
        assert own.connection_pool is not first.connection_pool
        assert own.ping()


def test_a_channel_whose_connection_another_thread_closed_has_lost_it(connection: Connection) -> None:
    """Kombu raises an `AttributeError`, which nobody takes for a lost connection."""
    channel: Any = connection.channel()
    channel.queue_declare(QUEUE)
    connection.collect()  # as Celery does with a lost one while a task at work in another thread has its channel
    with pytest.raises(broker_transport.BROKER_ERRORS, match="closed by another thread"):
        channel.queue_declare(QUEUE)


def test_doctor_counts_a_queue_as_kombu_does(connection: Connection, database: Database) -> None:
    """Kombu keeps a list for each step of the priority, whose names doctor has to know: a host has no kombu."""
    queue = Queue(QUEUE, Exchange(QUEUE), routing_key=QUEUE)
    producer = connection.Producer()
    for priority in range(10):
        producer.publish({}, exchange=QUEUE, routing_key=QUEUE, priority=priority, declare=[queue], serializer="json")
    channel: Any = connection.channel()
    assert channel.queue_declare(QUEUE).message_count == 10
    assert check_queues(database.url, []).found == f"{QUEUE} 10"


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="the name of the option on Linux")
def test_an_idle_connection_to_the_broker_is_probed_before_a_firewall_forgets_it(connection: Connection) -> None:
    channel: Any = connection.channel()
    channel.client.ping()
    line = channel.client.connection_pool.get_connection()._sock
    assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
    assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 45_000, "kombu 5.6 checks nothing itself"
