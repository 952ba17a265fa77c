"""The rights of each user of Redis, tried on real servers that loaded the files of `tellback acl`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from redis import exceptions
from typer.testing import CliRunner

from tellback.access.actions import ACTIONS, KINDS, OTHER, OWN, SCRIPT, Action
from tellback.cli.app import app
from tellback.errors import Unavailable
from tellback.names import Family
from tellback.state.all_scripts import all_scripts
from tellback.state.database import Database
from tellback.state.keys import Layout, mark_of, stream_of
from tellback.state.scripts.intake import append_events
from tests.support.access import AccessDeployment, name_of, running_access
from tests.support.tls import tls_program

SMALL_WRITE = next(script for script in all_scripts() if script.name == "common/small_write")


@pytest.fixture(scope="module", params=["a broker of its own", "one Redis", "Redis 7"])
def deployment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccessDeployment]:
    """A deployment whose worker has loaded the scripts."""
    folder = tmp_path_factory.mktemp("access")
    program = None
    if request.param == "Redis 7":
        program = tls_program(tmp_path_factory.mktemp("program"))  # Debian's, which has no vector sets
        if program is None:
            pytest.skip("no redis-server of Debian: apt-get install redis-tools")
    with running_access(folder, one_redis=request.param == "one Redis", program=program) as found:
        load(found)
        yield found


def load(deployment: AccessDeployment) -> None:
    with closing(Database(deployment.url("worker", "state"))) as database:
        database.load_scripts(all_scripts())


def refusal(url: str, action: Action) -> str | None:
    """Try an action on a connection of its own; return Redis' refusal, or None if it was allowed."""
    command = [SMALL_WRITE.sha if part == SCRIPT else part for part in action.command]
    with closing(Database(url)) as database:
        try:
            database.command(*command)
        except Unavailable as error:  # no right, or no such user there
            return str(error)
        except exceptions.NoScriptError:
            raise
        except exceptions.ResponseError as error:  # DEBUG and MODULE are off for everybody; else an argument was wrong
            return str(error) if "command not allowed" in str(error) else None
    return None


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: f"{action.server}-{action.text}")
def test_each_user_may_do_what_the_table_says_and_nothing_else(deployment: AccessDeployment, action: Action) -> None:
    """Requirement A-52. The table of docs/operations/access.md is made of the same actions."""
    one_redis = deployment.state is deployment.broker
    for kind in KINDS:
        url = deployment.url(name_of(kind), action.server)
        refused = refusal(url, action)
        if one_redis and kind in _allowed_elsewhere(action):
            continue  # the rights that it has for the other server hold on this one too
        assert (refused is None) == (kind in action.allowed), f"{kind}: {refused}"


def _allowed_elsewhere(action: Action) -> set[str]:
    """Return who may do the same on the other server; rights on channels name none of them."""
    names = {"PUBLISH": {"PUBLISH"}, "SUBSCRIBE": {"SUBSCRIBE", "PSUBSCRIBE"}}.get(action.command[0], set())
    others = [other for other in ACTIONS if other.server != action.server]
    same = [other for other in others if other.command == action.command or other.command[0] in names]
    return {kind for other in same for kind in other.allowed}


def test_a_restart_loses_no_effect_of_a_script(deployment: AccessDeployment) -> None:
    """Redis loads its append-only file as the user `default`, and drops there each MULTI that it may not run."""
    with closing(Database(deployment.url("agent-acme", "state"))) as database:
        shard = Layout(OWN, 1).shard(0)
        stream = stream_of(shard, Family.EVENTS)
        call = append_events(
            intake=stream,
            mark=mark_of(stream, "w"),
            max_entries=9,
            max_bytes=1 << 20,
            first=1,
            events=[b"{}", b"{}"],
        )
        assert database.run(call)[0] == b"appended"
        length = database.command("XLEN", stream)
        deployment.state.restart()
        load(deployment)  # for the other tests
        assert database.command("XLEN", stream) == length


def test_nobody_gets_in_without_a_login(deployment: AccessDeployment) -> None:
    for server in {deployment.state.port, deployment.broker.port}:
        for url in (f"redis://127.0.0.1:{server}/0", f"redis://default:@127.0.0.1:{server}/0"):
            with closing(Database(url)) as nobody, pytest.raises(Unavailable, match="refused the call"):
                nobody.command("PING")


@pytest.mark.parametrize(
    "listing",
    ["audit", "dead list", "gate s", "history s", "outbox", "ps", "records", "records s", "sessions", "team", "turns"],
)
def test_a_listing_of_another_team_is_refused_in_one_line(deployment: AccessDeployment, listing: str) -> None:
    """Requirement A-490."""
    url = deployment.url("agent-acme", "state")
    done = CliRunner().invoke(app, [*listing.split(), "--team", OTHER, "--redis-url", url])
    assert done.exit_code == 1
    assert done.stderr.startswith("tellback: Redis at ")
    assert "refused the call" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_servers_keep_no_password(deployment: AccessDeployment) -> None:
    written = "".join(path.read_text() for path in Path(deployment.folder).glob("*.acl"))
    for path in Path(deployment.folder).glob("*.env"):
        for value in deployment.environ(path.stem).values():
            password = value.rpartition("@")[0].rpartition(":")[2]
            assert not password or password not in written
