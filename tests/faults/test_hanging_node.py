"""A node of a Redis Cluster hangs, or is slow just when a call has little time: that costs others little time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tellback import Settings, clock
from tellback.alerts.fleet_watcher import FleetWatcher
from tellback.alerts.settings import AlertSettings
from tellback.errors import Unavailable
from tellback.state import cluster as cluster_module
from tellback.state.all_scripts import all_scripts
from tellback.state.call_deadline import CircuitBreaker
from tellback.state.cluster import ClusterConnections
from tellback.state.database import Database
from tellback.state.keys import FLEET, Layout
from tellback.state.slots import slot_of
from tellback.state.teams import Teams
from tellback.urls import servers_of
from tellback_workers import tasks
from tellback_workers.runtime import Runtime
from tests.support.redis_cluster import RedisCluster
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults

SHARDS = Layout("default", 12).all
KEYS = [shard.key("done", "x") for shard in SHARDS]


def test_a_node_that_hangs_is_asked_again_beside_the_work(cluster: RedisCluster) -> None:
    """The next call asked it, and each process stood still for five seconds again and again."""
    with closing(Database(cluster.url, call_deadline=3.0)) as database:
        connections = database._connections
        assert isinstance(connections, ClusterConnections)

        def silence_ends() -> None:
            connections._silent = dict.fromkeys(connections._silent, 0.0)

        gone = cluster.primaries[1]
        others = [shard for shard in SHARDS if cluster.owner(slot_of(shard.prefix)) is not gone]
        database.pipeline([("SET", key, 1) for key in KEYS])
        gone.suspend()
        try:
            database.pipeline([("GET", key) for key in KEYS], raise_on_error=False)
            assert database.answering(SHARDS) == others
            silence_ends()
            assert database.answering(SHARDS) == others
        finally:
            gone.resume()

        def asked_again() -> bool:
            silence_ends()
            return len(database.answering(SHARDS)) == len(SHARDS)

        wait_until(asked_again, "it is found to answer again")
        cluster.wait_until_serving()


def test_a_worker_loads_scripts_into_the_other_nodes_and_reports_itself_while_one_hangs(cluster: RedisCluster) -> None:
    """Its report came every fifteen seconds, after which it expires: the worker seemed to be gone."""
    with closing(Database(cluster.url, call_deadline=5.0)) as database:
        connections: Any = database._connections
        database.load_scripts(all_scripts())
        cluster.client(cluster.primaries[2]).command("SCRIPT", "FLUSH")
        cluster.primaries[0].suspend()
        try:
            database.load_scripts(all_scripts())
            connections._silent = dict.fromkeys(connections._silent, 0.0)  # long ago
            began = clock.monotonic()
            database.load_scripts(all_scripts())
            connections._silent = dict.fromkeys(connections._silent, 0.0)
            database.now_ms()
            assert clock.monotonic() - began < 5, "the deadline of a call"
        finally:
            cluster.primaries[0].resume()
        wanted = [script.sha for script in all_scripts()]
        assert all(cluster.client(cluster.primaries[2]).command("SCRIPT", "EXISTS", *wanted))
        cluster.wait_until_serving()


def test_a_node_that_hangs_has_not_closed_the_connection_if_another_replied_late(cluster: RedisCluster) -> None:
    """The thread that ends overdue calls shut the connection before its own timeout, and the error spoke of TLS."""
    late, hangs = (next(key for key in KEYS if cluster.owner(slot_of(key)) is node) for node in cluster.primaries[:2])
    node = cluster.primaries[1]
    with closing(Database(cluster.url, call_deadline=1.0)) as database:
        database.pipeline([("GET", key) for key in KEYS])
        node.suspend()
        try:
            with pytest.raises(Unavailable, match=f"Redis at 127.0.0.1:{node.port} did not answer in time"):
                database.pipeline([("BLPOP", late, 0.5), ("GET", hangs)])
        finally:
            node.resume()
        cluster.wait_until_serving()


def test_who_has_which_slot_is_asked_of_nodes_that_answer_first(cluster: RedisCluster) -> None:
    """Five seconds after it had been found silent, one that hung was asked as soon as the others."""
    with socket.create_server(("127.0.0.1", 0)) as hanging:  # it accepts connections, and never answers
        port = hanging.getsockname()[1]
        servers = servers_of(cluster.url.replace("//", f"//127.0.0.1:{port},"))
        assert servers is not None
        with closing(ClusterConnections(servers, call_deadline=5.0)) as connections:
            connections._silent["127.0.0.1", port] = 0.0  # long ago
            for _ in range(50):  # each time in random order
                connections.drop_idle()
                connections.each_primary()
        hanging.settimeout(0)
        with pytest.raises(BlockingIOError):
            hanging.accept()


def test_calls_of_the_other_nodes_succeed_if_the_one_asked_for_slots_first_hangs(cluster: RedisCluster) -> None:
    """Its five seconds used up those in which another node could have been asked."""
    gone, *others = cluster.primaries
    key = next(key for key in KEYS if cluster.owner(slot_of(key)) in others)
    with closing(Database(cluster.url)) as database:
        connections: Any = database._connections
        gone.suspend()
        try:
            for node in others:  # so that the one that hangs is asked first
                connections._note_silent(("127.0.0.1", node.port))
                connections._silent["127.0.0.1", node.port] += 60
            assert database.command("GET", key) is None
        finally:
            gone.resume()
    cluster.wait_until_serving()


def test_a_node_that_hangs_is_named_by_who_asked_it_which_node_has_which_slot(cluster: RedisCluster) -> None:
    """The error listed every node of the URL, as if all were away."""
    gone, *others = cluster.primaries
    with closing(Database(cluster.url, call_deadline=0.5)) as database:
        connections: Any = database._connections
        database.command("PING")
        gone.suspend()
        try:
            connections.drop_idle()
            for node in others:  # so that the one that hangs is asked first
                connections._note_silent(("127.0.0.1", node.port))
            with pytest.raises(Unavailable, match=str(gone.port)) as raised:
                database.command("GET", KEYS[0])
        finally:
            gone.resume()
    assert not [node.port for node in others if str(node.port) in str(raised.value)]
    cluster.wait_until_serving()


def test_a_wake_up_waits_for_no_node_that_left_a_call_unanswered(
    cluster: RedisCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each wake-up for a stream of a node that hung kept a process from all teams for five seconds more."""
    runtime = Runtime(Settings(redis_url=cluster.url, shards=12, data_dir=str(tmp_path)))
    needed = {cluster.owner(slot_of(key)) for key in (SHARDS[0].prefix, FLEET.prefix)}
    hanging = next(node for node in cluster.primaries if node not in needed)
    on_it = [shard for shard in runtime.layout("default").all if cluster.owner(slot_of(shard.prefix)) is hanging]
    monkeypatch.setattr(tasks, "current_runtime", lambda: runtime)
    connections: Any = runtime.database._connections
    calls = calls_to(hanging, connections, monkeypatch)
    hanging.suspend()
    try:
        tasks.consume("events", [("default", on_it[0].index)])
        assert len(calls) == 1
        connections._silent["127.0.0.1", hanging.port] += 60  # however busy this machine is
        tasks.consume("events", [("default", on_it[1].index)])
        assert len(calls) == 1, "the second wake-up waited for it too"
    finally:
        hanging.resume()


def calls_to(node: RedisServer, connections: Any, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The calls that are sent to a node from now on."""
    pool = connections._pool(("127.0.0.1", node.port))
    calls, send = list[object](), pool.sent

    def sent(commands: Sequence[object], *rest: Any, **options: Any) -> object:
        calls.append(commands)
        return send(commands, *rest, **options)

    monkeypatch.setattr(pool, "sent", sent)
    return calls


def test_a_node_that_answers_again_postpones_no_wake_up(
    cluster: RedisCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long ago it left a call unanswered, it counted as away until somebody asked, and the task was over."""
    monkeypatch.setattr(cluster_module, "QUICK_REPLY_SECONDS", 10.0)
    runtime = Runtime(Settings(redis_url=cluster.url, shards=12, data_dir=str(tmp_path)))
    connections: Any = runtime.database._connections
    shard = runtime.layout("default").shard(0)
    node = ("127.0.0.1", cluster.owner(slot_of(shard.prefix)).port)
    connections._note_silent(node)
    with pytest.raises(Unavailable, match="left a call unanswered"):
        runtime.shard("default", 0)
    connections._silent[node] = 0.0  # long ago
    assert runtime.shard("default", 0) == shard


def test_alerts_of_other_teams_wait_once_for_a_node_that_hangs(
    cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each check of a team on it took five seconds, before those of the others."""
    stop, sink = threading.Event(), mock.Mock()
    sink.name = sink.receiver = "webhook"
    with closing(Database(cluster.url)) as database:
        connections: Any = database._connections
        layouts = [Teams(database).create(f"team-{number}", 1) for number in range(12)]
        fleet = cluster.owner(slot_of(FLEET.prefix))
        owners = {layout: cluster.owner(slot_of(layout.shard(0).prefix)) for layout in layouts}
        hanging = next(node for node in owners.values() if node is not fleet)
        watcher = FleetWatcher(sink, database, Teams(database).names, AlertSettings())
        watcher.step(stop)
        calls, checked = calls_to(hanging, connections, monkeypatch), list[Layout]()
        for layout, each in watcher._watchers.items():
            monkeypatch.setattr(each, "_check", partial(checked.append, layout))
        hanging.suspend()
        try:
            for _ in range(2):
                watcher._next_search, watcher._due = 0.0, dict.fromkeys(watcher._due, 0.0)
                watcher.step(stop)
                connections._silent["127.0.0.1", hanging.port] += 60  # however busy this machine is
        finally:
            hanging.resume()
    assert len(calls) == 1
    assert len(watcher._watchers) == len(layouts)
    assert sorted(layout.team for layout in checked) == sorted(
        2 * [layout.team for layout, owner in owners.items() if owner is not hanging]
    )


SHARD = Layout("default", 12).all[3]


@pytest.mark.parametrize("while_asked", ["who has the slot", "again"])
def test_a_repeat_without_time_for_a_reply_names_the_refusal_and_doubts_no_node(
    cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch, while_asked: str
) -> None:
    """Requirement A-639. It said that a healthy node did not answer, whose calls then failed for half a second."""
    key, absent, sleep = SHARD.key("beat"), SHARD.key("done", "none"), clock.sleep
    slot = slot_of(key)
    with closing(Database(cluster.url, call_deadline=2.0, breaker=CircuitBreaker())) as database:
        connections: Any = database.cluster
        read = connections._read_primaries

        def suspend() -> None:  # as slow as on a busy machine
            for node in cluster.primaries:
                node.suspend()

        def read_then_suspend(end: float) -> Any:
            found = read(end)
            suspend()
            return found

        def oversleep(seconds: float) -> None:
            if threading.current_thread() is not threading.main_thread():
                sleep(seconds)
                return
            sleep(1.5)  # of two seconds
            if while_asked == "again":
                monkeypatch.setattr(connections, "_read_primaries", read_then_suspend)
            else:
                suspend()

        database.command("SET", key, 1)
        target = next(node for node in cluster.primaries if node is not cluster.owner(slot))
        source = cluster.begin_move(slot, target)
        try:
            monkeypatch.setattr(clock, "sleep", oversleep)
            with pytest.raises(Unavailable, match="The slot is moving"):
                database.command("EVAL", "return 'ran'", 2, key, absent)
        finally:
            monkeypatch.undo()
            for node in cluster.primaries:
                node.resume()
        assert connections._silent == {}
        assert database.command("EXISTS", key) == 1, "no circuit breaker is open"
        cluster.move_keys(slot, source, target)
        cluster.end_move(slot, target)
