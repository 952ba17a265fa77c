"""A Redis that may evict is named by workers, alerts and metrics: keys would vanish without an error anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tellback import Settings, Tellback
from tellback.alerts.settings import AlertSettings
from tellback.alerts.watcher import firing_now, read_servers
from tellback.cli.metrics_collector import render_metrics
from tellback.state.database import Database
from tellback.state.presence import Worker
from tellback.state.server_info import read_eviction
from tellback_workers.presence import ModelPreload, PresenceHeartbeat
from tellback_workers.runtime import Runtime
from tests.support.redis_cluster import RedisCluster
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until


@pytest.mark.parametrize("policy", ["allkeys-lru", "noeviction"])
def test_a_worker_says_that_redis_may_evict(
    settings: Settings, database: Database, capsys: pytest.CaptureFixture[str], policy: str
) -> None:
    """Hosted Redis often evicts by default; a burst took 1,874 keys, the team's own among them, and no log said so."""
    worker = Worker(name="w@h", host="h", pid=1, queues=(), version="0")
    heartbeat = PresenceHeartbeat(Runtime(settings), worker, ModelPreload(settings, wanted=False))
    database.command("CONFIG", "SET", "maxmemory-policy", policy)
    try:
        heartbeat.start()
        key = b"workers"
        wait_until(lambda: any(key in name for name in database.command("KEYS", "*")), "the worker is announced")
    finally:
        heartbeat.stop()
        database.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert capsys.readouterr().out.count("redis.evicts") == (policy != "noeviction")


def test_a_server_that_does_not_say_stops_no_heartbeat(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosted ones leave lines of INFO out, and the thread that announces the worker would have ended."""

    def without_policy(*_parts: str) -> bytes:
        return b"# Memory\r\nused_memory:1\r\n"

    monkeypatch.setattr(database, "command", without_policy)
    assert read_eviction(database) == ({}, 0)


def test_an_alert_and_the_metrics_say_that_redis_may_evict(tb: Tellback, database: Database) -> None:
    """Requirement C-175."""

    def firing() -> dict[str, str]:
        return {rule.name: summary for rule, summary in firing_now(read_servers(database), AlertSettings()).items()}

    database.command("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
    try:
        assert "its maxmemory-policy is volatile-lru" in firing()["eviction"]
        assert "tellback_evicting_servers 1.0" in render_metrics(tb)
    finally:
        database.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert "eviction" not in firing()
    assert "tellback_evicting_servers 0.0" in render_metrics(tb)


def test_keys_that_redis_evicted_are_counted(tmp_path: Path) -> None:
    with RedisServer.start(tmp_path, "--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random") as server:
        database = Database(server.url)
        database.pipeline([("SET", f"key-{n}", "x" * 10_000) for n in range(500)])
        policies, keys = read_eviction(database)
        assert policies == {"": "allkeys-random"}
        assert 0 < keys <= 500 - database.command("DBSIZE")  # more may go between the two calls
        database.close()


@pytest.mark.slow
def test_each_primary_of_a_cluster_is_asked(tmp_path: Path) -> None:
    with RedisCluster(tmp_path) as cluster:
        node = cluster.nodes[1]
        cluster.client(node).command("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
        database = Database(cluster.url)
        assert read_eviction(database).policies == {f"127.0.0.1:{node.port}": "volatile-lru"}
        database.close()
