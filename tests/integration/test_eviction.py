"""A Redis that may evict is named by workers, alerts and metrics: keys would vanish without an error anywhere."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from tellback import Settings, Tellback, connect
from tellback.alerts.fleet_watcher import FleetWatcher
from tellback.alerts.settings import AlertSettings
from tellback.alerts.sinks import SlackSink, WebhookSink
from tellback.alerts.watcher import firing_now, read_servers
from tellback.cli.app import app
from tellback.cli.metrics_collector import render_metrics
from tellback.state.database import Database
from tellback.state.keys import FLEET
from tellback.state.presence import Worker
from tellback.state.server_info import read_eviction
from tellback.state.teams import Teams
from tellback_workers.presence import ModelPreload, PresenceHeartbeat
from tellback_workers.runtime import Runtime
from tests.support.http_server import http_server, reply
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


def test_a_user_who_may_not_ask_the_servers_reads_no_alert_and_no_value(settings: Settings, database: Database) -> None:
    """A policy that is not known is neither an alert nor well, and costs no other metric and no list."""
    database.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    database.command("ACL", "SETUSER", "w", "reset", "on", ">w", "~*", "&*", "+@all", "-info")
    limited = msgspec.structs.replace(settings, redis_url=settings.redis_url.replace("redis://", "redis://w:w@"))
    try:
        listed = CliRunner().invoke(app, ["teams", "list", "--redis-url", limited.redis_url])  # of none, so it asks
        with connect(settings=limited) as tb:
            assert not firing_now(read_servers(tb.context.database), AlertSettings())
            metrics = render_metrics(tb)
    finally:
        database.command("ACL", "DELUSER", "w")
        database.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert "# TYPE tellback_evicting_servers gauge" in metrics
    assert "\ntellback_evict" not in metrics
    assert listed.exit_code == 0, listed.output


@pytest.fixture
def evicting(database: Database) -> Generator[Database]:
    database.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    yield database
    database.command("CONFIG", "SET", "maxmemory-policy", "noeviction")


def test_an_alert_of_a_server_is_sent_once_whatever_the_number_of_teams(
    evicting: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand teams were a thousand notices, and each asked each server again. Requirement C-175."""
    for number in range(5):
        Teams(evicting).create(f"team-{number}", 1)
    stop, asked, command = threading.Event(), list[str](), evicting.command

    def counted(*parts: Any) -> Any:
        asked.extend(parts[0:1] if parts == ("INFO",) else ())
        return command(*parts)

    monkeypatch.setattr(evicting, "command", counted)
    with http_server(reply(200, b"ok")) as server:
        settings = AlertSettings(
            webhook=f"{server.url}/hook", webhook_secret="correct-horse-battery", slack=f"{server.url}/services",
            period=1, resolve_after=0,
        )  # fmt: skip
        sinks = WebhookSink(settings), SlackSink(settings)
        watchers = [FleetWatcher(sink, evicting, Teams(evicting).names, settings) for sink in sinks]
        for watcher in watchers:
            watcher.step(stop)
            assert len(watcher._watchers) == 5
        assert asked == ["INFO"] * 2, "once for each receiver"
        (posted,), (slack,) = (
            [one.json for one in server.requests if part in one.path] for part in ("hook", "services")
        )
        assert (posted["team"], posted["alert"], posted["state"]) == ("", "eviction", "firing")
        assert "its maxmemory-policy is allkeys-lru" in posted["summary"]
        assert (Path(__file__).parents[2] / posted["runbook"]).is_file()
        assert ":rotating_light: *eviction* firing · all teams · critical" in slack["text"]
        monkeypatch.undo()
        evicting.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
        to_slack = watchers[1]
        wait_until(lambda: to_slack.step(stop) and len(server.requests) > 2, "the end is told of")
        assert "*eviction* resolved" in server.requests[2].json["text"]
    stop.set()
    to_slack.run(stop)
    assert not evicting.command("EXISTS", FLEET.key("alerting", sinks[1].receiver)), (
        "another process takes over at once"
    )


def test_processes_with_their_own_receivers_all_notify_of_a_server(evicting: Database) -> None:
    """Of two processes with a team and a receiver each, one told its own receiver, nobody the other.

    Requirement C-180.
    """
    stop = threading.Event()
    with http_server(reply(200, b"ok")) as server:
        for name in ("acme", "globex"):
            settings = AlertSettings(slack=f"{server.url}/services/{name}")
            for _ in range(2):
                FleetWatcher(SlackSink(settings), evicting, list, settings).step(stop)
        assert [one.path for one in server.requests] == ["/services/acme", "/services/globex"]


def test_the_command_lists_an_alert_of_a_server_once(settings: Settings, evicting: Database) -> None:
    Teams(evicting).create("default", 1)
    Teams(evicting).create("acme", 1)
    listed = CliRunner().invoke(app, ["alerts", "--json", "--redis-url", settings.redis_url])
    assert listed.exit_code == 1
    (row,) = map(json.loads, listed.stdout.splitlines())
    assert (row["team"], row["alert"]) == ("", "eviction")


def test_keys_that_redis_evicted_are_counted(tmp_path: Path) -> None:
    with RedisServer.start(tmp_path, "--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random") as server:
        database = Database(server.url)
        database.pipeline([("SET", f"key-{n}", "x" * 10_000) for n in range(500)])
        policies, keys = read_eviction(database)
        assert policies == {"": "allkeys-random"}
        assert 0 < keys <= 500 - database.command("DBSIZE")  # more may go between the two calls
        [said] = firing_now(read_servers(database), AlertSettings()).values()
        assert "keys deleted since it started" in said
        database.command("CONFIG", "SET", "maxmemory", 0)
        with connect(settings=Settings(redis_url=server.url, data_dir=str(tmp_path / "data"))) as tb:
            assert re.search(r"^tellback_evicted_keys_total [1-9]", render_metrics(tb), re.MULTILINE)
        database.close()


@pytest.mark.slow
def test_each_primary_of_a_cluster_is_asked(tmp_path: Path) -> None:
    with RedisCluster(tmp_path) as cluster:
        node = cluster.nodes[1]
        cluster.client(node).command("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
        database = Database(cluster.url)
        assert read_eviction(database).policies == {f"127.0.0.1:{node.port}": "volatile-lru"}
        database.close()
