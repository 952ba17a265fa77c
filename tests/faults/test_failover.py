"""A replica takes over behind an address that stays: connections to the demoted server live on, and are given up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tellback import Settings, connect
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.errors import Unavailable
from tellback.state.database import Database, small_write
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tellback.state.keys import Shard
from tellback.state.redis_py import RedisConnections
from tests.support.hooks import run_hook, tool_event, troubles
from tests.support.link import Link
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until
from tests.support.workers import Workers

pytestmark = [pytest.mark.faults, pytest.mark.slow]

KEY = "tb:{default.0}:team"


def offset(database: Database) -> int:
    """Return how far the server is in the stream of writes. WAIT would only wait for the writes of its connection."""
    return int(database.command("INFO", "replication").partition(b"master_repl_offset:")[2].split()[0])


class ReplicatedPair:
    """A primary and its replica behind one address."""

    def __init__(self, first: RedisServer, second: RedisServer, address: Link) -> None:
        self.first, self.second, self.address = first, second, address
        self.old, self.new = Database(first.url), Database(second.url)
        self.new.command("REPLICAOF", "127.0.0.1", first.port)
        wait_until(lambda: b"master_link_status:up" in self.new.command("INFO", "replication"), "it replicates")

    def fail_over(self) -> None:
        """Promote the replica and lead new connections to it; the old primary follows, and keeps its clients."""
        written = offset(self.old)
        wait_until(lambda: offset(self.new) >= written, "the replica has what was written")
        self.new.command("REPLICAOF", "NO", "ONE")
        self.address.port = self.second.port
        self.old.command("REPLICAOF", "127.0.0.1", self.second.port)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[ReplicatedPair]:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    with (
        RedisServer.start(folders[0]) as first,
        RedisServer.start(folders[1]) as second,
        Link(first.port) as address,
    ):
        yield ReplicatedPair(first, second, address)


@pytest.mark.parametrize("deadline", [None, 5.0])
@pytest.mark.parametrize("how", ["command", "pipeline", "run_each", "blocking"])
def test_the_next_call_but_one_reaches_the_new_primary(pair: ReplicatedPair, deadline: float | None, how: str) -> None:
    database = Database(pair.address.url, call_deadline=deadline)

    def call() -> object:
        if how == "command":
            return database.command("SET", KEY, 1)
        if how == "pipeline":
            return database.pipeline([("GET", KEY), ("SET", KEY, 1)])
        if how == "blocking":
            return database.blocking(0.01, "BLMOVE", "tb:{default.0}:done:x", "tb:{default.0}:done:x", "LEFT", "LEFT")
        replies = database.run_each([small_write("SET", KEY, 1), small_write("SET", KEY, 2)])
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies

    call()
    pair.fail_over()
    with pytest.raises(Unavailable, match=r"(?i)read.?only"):
        call()
    call()
    if how != "blocking":
        assert pair.new.command("GET", KEY) is not None
    database.close()


def test_idle_connections_to_the_demoted_server_go_with_the_one_that_met_it(pair: ReplicatedPair) -> None:
    database = Database(pair.address.url)
    assert isinstance(database._connections, RedisConnections)
    take = database._connections.connection
    with take(), take(), take():
        pass  # three in the pool
    database.pipeline([("SET", KEY, 1)])
    pair.fail_over()
    with pytest.raises(Unavailable):
        database.command("SET", KEY, 2)
    with (
        take() as one,
        take() as two,
        take() as three,
    ):
        for connection in (one, two, three):
            connection.send_command("SET", KEY, 3)
            assert connection.read_response() == b"OK"
    database.close()


def test_the_next_hook_process_reaches_the_new_primary(pair: ReplicatedPair, tmp_path: Path) -> None:
    settings = Settings(redis_url=pair.address.url, data_dir=str(tmp_path / "data"))
    run_hook(settings, tool_event("toolu_1"), "--wait=1")
    pair.fail_over()
    run_hook(settings, tool_event("toolu_2"), "--wait=1")
    streams = [f"tb:{{default.{shard}}}:in:events" for shard in range(4)]
    assert sum(pair.new.pipeline([("XLEN", stream) for stream in streams])) >= 2
    assert "READONLY" not in troubles(settings)


def test_a_worker_and_its_broker_go_over_without_a_restart(pair: ReplicatedPair, tmp_path: Path) -> None:
    settings = Settings(redis_url=pair.address.url, data_dir=str(tmp_path / "data"))
    workers = Workers(settings, tmp_path)
    try:
        workers.start()
        with connect(settings=settings) as tb:
            publish(tb.context.publisher.publish, 3)
            tb.flush()
            wait_until(lambda: calls(tb.context.database, tb.context.layout.of("s")) == 3, "applied")
            pair.fail_over()
            publish(tb.context.publisher.publish, 3)
            tb.flush()
            pair.old.command("CLIENT", "NO-EVICT", "on")  # the old one answers all the while
            fresh = connect(settings=msgspec.structs.replace(settings, redis_url=pair.second.url))
            wait_until(
                lambda: calls(fresh.context.database, fresh.context.layout.of("s")) == 6,
                f"applied at the new primary, see {workers.logs[0]}",
            )
            fresh.close()
        assert workers.processes[0].poll() is None
        queue = "tbq:events"
        wait_until(lambda: pair.new.command("LLEN", queue) == 0, "wake-ups are taken at the new primary")
    finally:
        workers.stop()


def publish(send: object, count: int) -> None:
    for _ in range(count):
        event = ToolInvoked(event_id=new_event_id(), session="s", prompt="p", evaluation="e", tool="t")
        assert callable(send)
        send(event)


def calls(database: Database, shard: Shard) -> int:
    return Evaluations(database, shard).counts(EvaluationId("s", "p", "e")).calls
