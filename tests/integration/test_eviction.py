"""A worker says as it starts that its Redis may evict: keys would vanish without an error anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tellback import Settings
from tellback.state.database import Database
from tellback.state.presence import Worker
from tellback.state.server_info import evicting_servers
from tellback_workers.presence import ModelPreload, PresenceHeartbeat
from tellback_workers.runtime import Runtime
from tests.support.redis_cluster import RedisCluster
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
    assert evicting_servers(database) == {}


@pytest.mark.slow
def test_each_primary_of_a_cluster_is_asked(tmp_path: Path) -> None:
    with RedisCluster(tmp_path) as cluster:
        node = cluster.nodes[1]
        cluster.client(node).command("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
        database = Database(cluster.url)
        assert evicting_servers(database) == {f"127.0.0.1:{node.port}": "volatile-lru"}
        database.close()
