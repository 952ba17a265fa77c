"""`tellback doctor` of servers (their kind, what they confirm, streams that nobody reads) and of several teams."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from tellback.cli.app import app
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout, stream_of
from tellback.state.presence import Presence, Worker
from tellback.state.team import open_layout
from tellback.state.teams import Teams
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


WORKER = Worker(name="w@h", host="h", pid=1, queues=("events",), version="0.1.0", teams=("beta",))


def test_a_team_that_does_not_exist_is_wrong_where_others_do(settings: Settings, database: Database) -> None:
    """Its workers, beat and streams were found missing, and the advice was to start what runs for other teams."""
    Presence(database, "beta").announce(WORKER)
    assert found(settings)["team"].state == "wrong", "there will be, as workers serve it"
    own = found(msgspec.structs.replace(settings, team="beta"))
    assert (own["team"].state, own["workers"].state) == ("note", "ok"), "its first client creates it"
    Teams(database).create("beta", 1)
    checks = found(settings)
    assert (checks["team"].state, checks["team"].advice) == ("wrong", "name one with --team")
    assert checks["team"].found == f"there is no team {settings.team}; others: beta"
    assert not {"workers", "beat", "intake events"} & set(checks)


def test_a_team_that_no_worker_has_found_is_not_said_to_be_none(settings: Settings, database: Database) -> None:
    """Its host uses nothing but XADD, and the workers serve others, or have not come to its keys."""
    Teams(database).create("beta", 1)
    key = stream_of(Layout(settings.team, 8).shard(7), Family.EVENTS)
    database.command("XADD", key, "*", "m", "{}")
    team = found(settings)["team"]
    assert (team.state, team.found) == ("wrong", f"no worker has found {settings.team}, which has {key}")
    assert f"tellback teams create {settings.team}" in team.advice


def test_the_teams_that_are_not_examined_are_named(settings: Settings, layout: Layout, database: Database) -> None:
    """A stuck team beside it passed unnoticed. Workers that serve others alone are not to be started again."""
    Presence(database, "beta").announce(WORKER)
    Teams(database).create("beta", 1)
    checks = found(settings)
    assert checks["team"].found == f"{layout.team}, {layout.shards} shards; not examined: beta"
    assert checks["workers"].found == "none serves this team; w@h serves beta"
    assert "TELLBACK_TEAMS" in checks["workers"].advice


def test_the_doctor_examines_the_first_of_the_teams_that_are_served(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the environment of a worker, which names no team of its own."""
    Teams(database).create("beta", 1)
    monkeypatch.setenv("TELLBACK_TEAMS", "beta")
    for option, team in ((), "beta, 1 shard"), (("--team", "other"), "there is no team other; others: beta"):
        done = CliRunner().invoke(app, ["doctor", "--json", "--redis-url", settings.redis_url, *option])
        [said] = [each for each in json.loads(done.stdout)["findings"] if each["check"] == "team"]
        assert said["found"] == team
