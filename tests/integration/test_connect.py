"""Connecting, also while Redis is away: events go to the disk for the right shard, decisions say so."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tellback
from tellback import Settings, connect
from tellback.client.connection import connect_for_command
from tellback.errors import ConfigurationError, InvalidInput, NotFound, Unavailable
from tellback.state.database import Database
from tellback.state.keys import Layout
from tests.support.busy_server import kept_busy
from tests.support.hooks import run_hook, tool_event, troubles
from tests.support.processes import run_program
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until


def test_a_host_that_starts_while_redis_is_away_knows_the_layout_of_last_time(tmp_path: Path) -> None:
    with RedisServer.start(tmp_path) as server:
        settings = Settings(redis_url=server.url, data_dir=str(tmp_path / "data"), shards=7)
        with connect(settings=settings) as tb:
            assert tb.context.layout.shards == 7
        server.kill()
        with connect(settings=msgspec.structs.replace(settings, shards=4)) as tb:
            assert tb.context.layout.shards == 7
            with pytest.raises(Unavailable):
                tb.history("s1")


def test_a_host_that_never_saw_redis_assumes_the_setting(settings: Settings) -> None:
    with connect(settings=msgspec.structs.replace(settings, redis_url="redis://127.0.0.1:1/0", shards=3)) as tb:
        assert tb.context.layout.shards == 3


def test_a_client_that_finds_no_team_leaves_no_connection(database: Database) -> None:
    before = database.command("CLIENT", "LIST").count(b"\n")
    with pytest.raises(NotFound) as missing:
        connect_for_command(database.url, team="misspelt", create=False)
    wait_until(
        lambda: database.command("CLIENT", "LIST").count(b"\n") == before, f"it is closed after: {missing.value}"
    )


@pytest.mark.parametrize("stored", [b"../../outside", b"/tmp/outside", b".", b"", b"\xff"])
def test_an_id_that_would_be_a_folder_elsewhere_is_refused(
    settings: Settings, database: Database, layout: Layout, stored: bytes
) -> None:
    """Any host of a team can write the team's key, and the id names the folder of the spool on all others."""
    database.command("HSET", layout.shard(0).key("team"), "id", stored)
    with pytest.raises(InvalidInput, match="team default is stored with the id") as refused:
        connect(settings=settings)
    assert repr(stored) in str(refused.value)
    assert run_hook(settings, tool_event(), "--wait=10") == b""
    assert "InvalidInput: team default is stored with the id" in troubles(settings)
    database.command("DEL", layout.shard(0).key("team"))


def test_the_team_given_to_connect_counts(settings: Settings, database: Database) -> None:
    with connect(database.url, team="acme") as tb:
        assert tb.context.layout.team == "acme"
    with pytest.raises(ConfigurationError, match=r"^team 'No Team': use 1 to 64 of"):
        connect(settings.redis_url, team="No Team")
    number: Any = 6379
    with pytest.raises(ConfigurationError, match=r"^url is int"):
        connect(number)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:6379",
        "http://localhost",
        "redis://:pass/word@localhost:6379",
        "redis://h:99999",
        "redis://a..b:6379",
        f"rediss://{'h' * 64}/0?ssl_cert_reqs=none",
        "redis+cluster://h1,.h2",
        "sentinel://a..b/0?master_name=m",
        "redis://h/0?pass=1",
        "redis://h/name",
        "redis://h/0/1",
    ],
)
def test_what_is_no_url_of_a_redis_is_said_so_without_the_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="not the URL of a Redis") as refused:
        connect(url)
    assert "pass/" not in str(refused.value)
    assert refused.value.__suppress_context__


def test_a_redis_behind_a_socket_file_serves_a_client_with_and_without_a_deadline(tmp_path: Path) -> None:
    """NOT_A_URL offers unix://, and every such client raised TypeError."""
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as folder,  # a socket's path has at most 108 bytes
        RedisServer.start(tmp_path, "--unixsocket", f"{folder}/s"),
    ):
        url = f"unix://{folder}/s"
        for database in (Database(url), Database(url, call_deadline=5.0)):
            assert database.command("PING") == b"PONG"
            database.close()
        with connect(url) as tb:
            assert tb.records("s1") == []


def test_a_redis_that_cannot_write_is_one_that_is_away(tmp_path: Path) -> None:
    with RedisServer.start(tmp_path, "--min-replicas-to-write", "1") as server:
        away = Database(server.url)
        with pytest.raises(Unavailable, match="NOREPLICAS"):
            away.command("SET", "key", 1)
        away.close()


def test_a_redis_that_runs_a_long_script_of_somebody_is_one_that_is_away(tmp_path: Path) -> None:
    """It answers BUSY, for which redis-py has no type: decisions raised its plain error, and answers were lost."""
    with RedisServer.start(tmp_path) as server, connect(server.url) as tb:
        turn = tb.open_turn(channel="c", conversation="c1", message_id="m1", text="hi")
        with kept_busy(server.url):
            with pytest.raises(Unavailable, match="BUSY"):
                tb.history("s1")
            with pytest.raises(Unavailable, match="BUSY"):
                tb.open_turn(channel="c", conversation="c1", message_id="m2", text="hi")
            turn.respond(tellback.OutgoingResponse.text_only("kept on the disk"))
            tb.flush()
            assert tb.context.publisher.spooled
        tb.flush()
        assert not tb.context.publisher.spooled


def wait(database: Database) -> object:
    return database.blocking(5, "BLMOVE", "k", "k", "LEFT", "LEFT")


def wait_for_first(database: Database) -> object:
    return database.first_of("k", 5)


@pytest.mark.parametrize("read", [wait, wait_for_first])
def test_a_read_that_waits_at_a_server_that_is_demoted_says_that_it_is_away(
    tmp_path: Path, read: Callable[[Database], object]
) -> None:
    """A planned failover answers UNBLOCKED, for which redis-py has no type: running commands lost their leases."""
    with RedisServer.start(tmp_path) as server, ThreadPoolExecutor(1) as pool:
        database, other = Database(server.url), Database(server.url)
        waiting = pool.submit(read, database)
        wait_until(lambda: b"blocked_clients:1" in other.command("INFO", "clients"), "the read waits")
        other.command("REPLICAOF", "127.0.0.1", 1)
        with pytest.raises(Unavailable, match="UNBLOCKED"):
            waiting.result(timeout=60)
        database.close()
        other.close()


def test_every_exported_name_is_there_and_no_other_is() -> None:
    import typing

    assert typing.TYPE_CHECKING is False
    for name in tellback._EXPORTS:
        assert getattr(tellback, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = tellback.nonsense


def test_type_checkers_and_the_interpreter_see_the_same_names() -> None:
    import ast

    tree = ast.parse(Path(tellback.__file__ or "").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: statement.module
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert seen == dict(tellback._EXPORTS)


def test_the_version_is_that_of_the_installed_package_and_costs_the_import_nothing() -> None:
    program = "import sys, tellback; print('importlib.metadata' in sys.modules); print(tellback.__version__)"
    done = run_program([sys.executable, "-c", program], check=True)
    assert done.stdout.split() == ["False", metadata.version("tellback")]


@pytest.mark.parametrize("session", ["", None, "s" * 513])
def test_a_call_with_no_name_of_a_session_says_so(tb: tellback.Tellback, session: Any) -> None:
    """The name of a variable that is not set: `records` found none, and the gate said that nothing had been run."""
    calls: list[Callable[[Any], object]] = [
        tb.records,
        tb.gate,
        tb.history,
        lambda name: tb.waive(name, "c1", reason="it is known"),
    ]
    for call in calls:
        with pytest.raises(InvalidInput, match=r"^session "):
            call(session)
