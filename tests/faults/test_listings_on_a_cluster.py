"""The command line on a Redis Cluster of which one primary is away: listings and checks show what the others hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final
from unittest import mock

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from tellback import FeedbackProviderConfig, FeedbackTrigger, Settings, ToolUsageMonitor, clock, connect
from tellback.cli.app import app
from tellback.doctor.examination import run_checks
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.job_claims import JobClaimant
from tellback.state.job_keys import ANY_POOL
from tellback.state.jobs import Jobs
from tellback.state.keys import FLEET, Layout
from tellback.state.redis_py import SOCKET_TIMEOUT
from tellback.state.slots import slot_of
from tellback.state.team import open_layout
from tellback_workers import wakeups
from tellback_workers.loops import consumer_of
from tellback_workers.runtime import Runtime
from tests.support.cli import run
from tests.support.doctor import found
from tests.support.jobs import ended
from tests.support.redis_cluster import RedisCluster
from tests.support.turns import HELLO

pytestmark = pytest.mark.faults

TEAM: Final = "acme"
SESSIONS: Final = [f"s{number}" for number in range(12)]
LISTINGS: Final = {
    name: name.split()
    for name in (
        *("sessions", "records", "records --failed", "ps", "history HERE", "turns", "turns --open", "outbox", "team"),
        *("outbox --undelivered", "stats", "dead list", "audit", "bank"),
    )
}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisCluster]:
    """A cluster whose second primary has what all teams share, and whose third has the team's own key."""
    monkeypatch.setattr(wakeups, "publish", mock.Mock())
    with RedisCluster(tmp_path / "cluster", "--cluster-require-full-coverage", "no") as cluster:
        assert cluster.owner(slot_of(FLEET.key("teams"))) is cluster.primaries[1]
        yield cluster


@pytest.fixture
def settings(cluster: RedisCluster, tmp_path: Path) -> Settings:
    """Those of a team that has something of each kind in each shard."""
    folder, broker = str(tmp_path / "data"), "redis://127.0.0.1:1"
    settings = Settings(redis_url=cluster.url, broker_url=broker, shards=12, data_dir=folder, team=TEAM)
    with connect(settings=settings) as tb:
        each = FeedbackProviderConfig(ToolUsageMonitor(), FeedbackTrigger(every_n_calls=1))
        for name in SESSIONS:
            tb.prompt(name, "p", feedback_providers=[each], tools=["t"]).tool_invoked("t", params={}, result="r")
            tb.submit(["true"], session=name, cwd="/")
            tb.open_turn(channel="web", conversation=name, message_id="1", text="?").respond(HELLO)
            tb.open_turn(channel="web", conversation=name, message_id="2", text="?", answer_within=600)
        tb.flush()
        runtime, layout, database = Runtime(settings), tb.context.layout, tb.context.database
        for family in (Family.COMMANDS, Family.EVENTS, Family.TURNS):
            for shard in layout.all:
                consumer_of(runtime, TEAM, family).consume(shard, family)
        runtime.database.close()
        jobs, claimant = Jobs(database, layout), JobClaimant(ANY_POOL, seconds=60, worker="w@test", host="h")
        for number in range(len(SESSIONS)):
            lease = jobs.lease(claimant)
            assert lease is not None
            assert jobs.finish(lease, ended(lease, number % 2))
        for name in SESSIONS:
            tb.submit(["true"], session=name, cwd="/")
    return settings


@pytest.fixture
def listed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs a command about the team, which needs no option that names it."""
    monkeypatch.setenv("TELLBACK_TEAM", TEAM)
    monkeypatch.setenv("TELLBACK_DATA_DIR", settings.data_dir)
    return lambda *words: run(settings, *words)


def by_node(cluster: RedisCluster) -> tuple[list[str], list[str]]:
    """The sessions of the first primary, and those of the others."""
    layout = Layout(TEAM, 12)
    there = [name for name in SESSIONS if cluster.owner(slot_of(layout.of(name).key("clock"))) is cluster.primaries[0]]
    return there, [name for name in SESSIONS if name not in there]


def test_each_listing_shows_what_the_other_nodes_hold(cluster: RedisCluster, listed: Callable[..., Result]) -> None:
    """It ended with an error, and showed nothing."""
    there, here = by_node(cluster)
    gone = cluster.primaries[0]
    gone.kill()
    for name, words in LISTINGS.items():
        done = listed(*[here[0] if word == "HERE" else word for word in words])
        assert done.exit_code == 1, (name, done.output)
        [lost] = done.stderr.splitlines()
        assert "left out: shards acme." in lost, name
        assert f"Can't reach Redis at 127.0.0.1:{gone.port} (connection refused)" in lost, name
    shown = {json.loads(line)["session"] for line in listed("sessions", "--json").stdout.splitlines()}
    assert shown >= set(here)
    records = {json.loads(line)["session"] for line in listed("records", "--json").stdout.splitlines()}
    assert records <= set(here), f"those of {there} are away"
    assert records


def test_a_listing_waits_once_for_a_node_that_hangs(cluster: RedisCluster, listed: Callable[..., Result]) -> None:
    hanging = cluster.primaries[0]
    hanging.suspend()
    try:
        began = clock.monotonic()
        done = listed("team")
        assert clock.monotonic() < began + 2 * SOCKET_TIMEOUT
    finally:
        hanging.resume()
    assert (done.exit_code, f"Redis at 127.0.0.1:{hanging.port} did not answer" in done.stderr) == (1, True)


def test_alerts_are_those_of_the_shards_and_teams_that_answer(
    cluster: RedisCluster, listed: Callable[..., Result], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended with an error, and showed none."""
    unknown = next(cluster.teams_on(cluster.primaries[0]))  # this host knows nothing of it
    monkeypatch.setenv("TELLBACK_TEAMS", f"{unknown},{TEAM}")
    monkeypatch.setenv("TELLBACK_ALERT_OVERDUE", "0.001")
    with connect(settings=settings) as tb:
        shards = [tb.context.layout.of_turn("web", name) for name in SESSIONS]
        for shard in shards:
            tb.context.database.command("ZADD", shard.key("due"), 1, "late")
    cluster.primaries[0].kill()
    done = listed("alerts", "--json")
    row = json.loads(done.stdout)
    assert (done.exit_code, row["team"], row["alert"]) == (1, TEAM, "overdue-turns")
    read = {shard for shard in shards if cluster.owner(slot_of(shard.key("due"))) is not cluster.primaries[0]}
    assert row["summary"].startswith(f"{len(read)} turns are overdue")
    shards_line, team_line = done.stderr.splitlines()
    assert "left out: shards acme." in shards_line
    assert f"left out: team {unknown}: Can't reach Redis at 127.0.0.1:{cluster.primaries[0].port}" in team_line


def test_metrics_are_printed_of_all_shards_or_not_at_all(cluster: RedisCluster, listed: Callable[..., Result]) -> None:
    """It printed the counters of the others as those of the team, and that Redis is up: Prometheus saw them reset."""
    cluster.primaries[0].kill()
    done = listed("metrics")
    assert [line for line in done.stdout.splitlines() if not line.startswith("#")] == ["tellback_up 0.0"]
    assert (done.exit_code, "left out: shards acme." in done.stderr) == (1, True)


def test_a_team_whose_own_key_is_away_hides_no_other_team(cluster: RedisCluster, settings: Settings) -> None:
    """`tellback teams list` ended with an error, and showed none."""
    here, away = next(cluster.teams_on(cluster.primaries[1])), next(cluster.teams_on(cluster.primaries[0]))
    for name in (here, away):
        with connect(settings=replace(settings, team=name)):
            pass
    cluster.primaries[0].kill()
    done = run(settings, "teams", "list", "--json")
    assert (done.exit_code, [json.loads(line)["team"] for line in done.stdout.splitlines()]) == (1, [TEAM, here])
    assert f"left out: team {away}: Can't reach Redis at 127.0.0.1:{cluster.primaries[0].port}" in done.stderr


def test_what_is_not_found_may_be_where_nobody_answers(cluster: RedisCluster, listed: Callable[..., Result]) -> None:
    """`tellback turns show` said that there is no such turn."""
    turns = [json.loads(line) for line in listed("turns", "--json").stdout.splitlines()]
    layout = Layout(TEAM, 12)
    [turn, *_] = [
        turn["id"]
        for turn in turns
        if cluster.owner(slot_of(layout.of_turn("web", turn["conversation"]).key("due"))) is cluster.primaries[0]
    ]
    cluster.primaries[0].kill()
    done = listed("turns", "show", turn)
    assert (done.exit_code, "no turn" in done.stderr, "Can't reach Redis" in done.stderr) == (1, False, True)


def test_nothing_is_listed_of_a_team_whose_shards_are_unknown(
    cluster: RedisCluster, listed: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A host that never saw the team took it for one of four shards."""
    monkeypatch.setenv("TELLBACK_DATA_DIR", str(tmp_path / "elsewhere"))
    cluster.primaries[2].kill()
    done = listed("sessions")
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"Can't reach Redis at 127.0.0.1:{cluster.primaries[2].port}" in done.stderr


def test_a_command_that_publishes_waits_once_for_a_node_that_hangs(
    cluster: RedisCluster, listed: Callable[..., Result], settings: Settings
) -> None:
    """Two clients asked it, each for five seconds: the first only whether the team exists."""
    hanging = cluster.primaries[2]  # with the team's own key
    hanging.suspend()
    try:
        began = clock.monotonic()
        words = ["submit", "--session", by_node(cluster)[0][0], "--redis-url", settings.redis_url]
        done = CliRunner().invoke(app, [*words, "--detach", "--", "true"])
        assert clock.monotonic() < began + 2 * SOCKET_TIMEOUT
    finally:
        hanging.resume()
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_doctor_names_a_node_that_is_away(cluster: RedisCluster, settings: Settings, number: int) -> None:
    """If it was the first, the doctor named every node of the URL; if another, none until a check met it."""
    gone = cluster.primaries[number]
    gone.kill()
    findings = found(settings, url_given=True)
    assert findings["redis"].state == "ok" or number, "another node answers"
    assert findings["nodes"].found.startswith(f"Can't reach Redis at 127.0.0.1:{gone.port} (connection refused)")
    if number == 0:  # neither what all teams share nor the team's own key
        assert "shards acme.2, acme.6, acme.11" in findings["shards"].found
        assert findings["outbox"].found == "deliveries waiting: 9"


def test_the_doctor_says_what_follows_if_the_node_with_the_teams_own_key_is_away(
    cluster: RedisCluster, settings: Settings
) -> None:
    """It said that the connection was lost during the checks, and to try again."""
    team = next(cluster.teams_on(cluster.primaries[0]))  # not the node of what all teams share, the second
    open_layout(cluster.client(cluster.primaries[0]), team, 4)
    cluster.primaries[0].kill()
    findings = found(replace(settings, team=team), url_given=True)
    assert findings["redis"].state == "ok"
    assert findings["team"].found.startswith(f"{team} is not examined: Can't reach Redis at 127.0.0.1:")
    assert "number of the team's shards" in findings["team"].advice


def test_nodes_that_hang_are_asked_at_once(cluster: RedisCluster) -> None:
    """The doctor asked one after another, and waited for a whole deadline for each."""
    with closing(Database(cluster.url, call_deadline=2.0)) as database:
        several = database.cluster
        assert several is not None
        assert several.unanswered_pings() == []
        for node in cluster.primaries:
            node.suspend()
        try:
            began = clock.monotonic()
            unanswered = several.unanswered_pings()
            took = clock.monotonic() - began
        finally:
            for node in cluster.primaries:
                node.resume()
    assert [is_primary for _, is_primary in unanswered] == [True] * 3
    assert took < 5.0, "one after another they took six"


def test_the_doctor_names_a_node_that_hangs(cluster: RedisCluster, settings: Settings) -> None:
    cluster.primaries[0].suspend()
    try:
        findings = found(settings, url_given=True)
    finally:
        cluster.primaries[0].resume()
    assert "other shards" not in findings
    assert findings["nodes"].found.startswith(f"Redis at 127.0.0.1:{cluster.primaries[0].port} did not answer in time")
    assert "shards acme.2, acme.6, acme.11" in findings["shards"].found


def test_the_doctor_examines_each_primary(cluster: RedisCluster, settings: Settings) -> None:
    """It asked one of them, and called a cluster well whose others kept nothing on disk and had no replica."""
    asking = replace(settings, wait_replicas=1, wait_timeout=1.0)
    bad = cluster.primaries[1:]
    for node in bad:
        cluster.client(node).command("CONFIG", "SET", "appendonly", "no")
    cluster.client(bad[0]).command("CONFIG", "SET", "maxmemory", 1 << 30)  # so that what nodes say of it differs
    try:
        findings = found(asking, url_given=True)
    finally:
        for node in bad:
            cluster.client(node).command("CONFIG", "SET", "appendonly", "yes")
        cluster.client(bad[0]).command("CONFIG", "SET", "maxmemory", 0)
    persistence, confirmation = findings["persistence"], findings["confirmation"]
    named = {node.port: f"127.0.0.1:{node.port}" in persistence.found for node in cluster.primaries}
    assert (persistence.state, named) == ("wrong", {node.port: node in bad for node in cluster.primaries})
    assert confirmation.state == "wrong"
    assert all(f"127.0.0.1:{node.port}" in confirmation.found for node in cluster.primaries)
    assert findings["memory"].found.endswith("; 2 more nodes)")


def test_the_doctor_only_notes_an_address_that_is_not_a_primary(cluster: RedisCluster, settings: Settings) -> None:
    url = cluster.url.replace("//", "//127.0.0.1:1,")
    [finding] = [each for each in run_checks(replace(settings, redis_url=url), url_given=True) if each.check == "nodes"]
    assert (finding.state, "127.0.0.1:1 " in finding.found, "remove it" in finding.advice) == ("note", True, True)
