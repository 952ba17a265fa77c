"""`tellback doctor` of servers: an address of another kind, what they can confirm, and streams that nobody reads."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.team import open_layout
from tests.support.doctor import found
from tests.support.redis_server import RedisServer


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("rediss://127.0.0.1:{port}/0", "Redis at 127.0.0.1:{port} did not answer the TLS handshake in time "),
        ("sentinel://127.0.0.1:{port}/0?master_name=m", "Redis at 127.0.0.1:{port} is not a Sentinel: name the ports "),
        ("sentinel://127.0.0.1:1/0?master_name=m", "The Sentinels at 127.0.0.1:1 name no primary: they do not answer "),
    ],
)
def test_a_server_of_another_kind_is_named_in_words_with_the_next_step(
    redis_server: RedisServer, settings: Settings, url: str, said: str
) -> None:
    """redis-py's own text stood there, for Sentinel the settings of a client, and advice to start what runs."""
    given = msgspec.structs.replace(settings, redis_url=url.format(port=redis_server.port), broker_url="redis://h")
    named = found(given)["redis"]
    assert named.found.startswith(said.format(port=redis_server.port))
    assert "<" not in named.found


@pytest.mark.parametrize(
    ("wanted", "state"),
    [({}, None), ({"wait_replicas": 1}, "wrong"), ({"wait_aof": True}, "wrong")],
    ids=["nothing", "a replica", "the disk"],
)
def test_a_confirmation_that_the_server_cannot_give_is_named(
    settings: Settings, database: Database, wanted: dict[str, Any], state: str | None
) -> None:
    before = database.command("CONFIG", "GET", "appendonly")[1]
    database.command("CONFIG", "SET", "appendonly", "no")
    try:
        finding = found(msgspec.structs.replace(settings, **wanted)).get("confirmation")
    finally:
        database.command("CONFIG", "SET", "appendonly", before)
    assert (finding and finding.state) == state


def test_a_confirmation_from_disk_that_the_server_can_give_is_well(settings: Settings, database: Database) -> None:
    before = database.command("CONFIG", "GET", "appendonly")[1]
    database.command("CONFIG", "SET", "appendonly", "yes")
    try:
        finding = found(msgspec.structs.replace(settings, wait_aof=True))["confirmation"]
    finally:
        database.command("CONFIG", "SET", "appendonly", before)
    assert (finding.state, finding.found) == ("ok", "0 replicas in step, from disk too")


def test_a_stream_of_a_shard_that_the_team_does_not_have_is_named(
    settings: Settings, database: Database, layout: Layout
) -> None:
    """A host in another language that computes shards wrongly was told nothing, and nobody else was."""
    open_layout(database, layout.team, layout.shards)
    assert "other shards" not in found(settings)
    key = f"tb:{{{layout.team}.{layout.shards + 3}}}:in:events"
    database.command("XADD", key, "*", "m", "{}")
    named = found(settings)["other shards"]
    assert (named.state, key in named.found, f"modulo {layout.shards}" in named.advice) == ("wrong", True, True)
