"""`tellback doctor` where there are several teams: which one it examines, and what it says of the others."""

from __future__ import annotations

import json

import msgspec
import pytest
from typer.testing import CliRunner

from tellback.cli.app import app
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout, stream_of
from tellback.state.presence import Presence, Worker
from tellback.state.teams import Teams
from tests.support.doctor import found

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
