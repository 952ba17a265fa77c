"""The node of a Redis Cluster with the keys of no single team is away: the list of teams, and the notifications."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tellback import OutgoingResponse, Settings, Unavailable, clock, connect
from tellback.cli.app import app as cli
from tellback.client.client_context import ActivityNotice
from tellback.messaging.lane import notify
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.fleet import TeamVisits
from tellback.state.intake import StreamRef
from tellback.state.keys import FLEET, Layout, stream_of
from tellback.state.slots import slot_of
from tellback.state.team import open_layout
from tellback_workers import scheduler
from tellback_workers.runtime import Runtime
from tellback_workers.scheduler import TeamScheduler
from tests.faults.test_dead_primary import timed
from tests.support.redis_cluster import RedisCluster
from tests.support.waiting import wait_until
from tests.support.workers import environment

pytestmark = pytest.mark.faults


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RedisCluster]:
    with RedisCluster(tmp_path / "cluster", "--cluster-require-full-coverage", "no") as cluster:
        assert cluster.owner(slot_of(FLEET.prefix)) is cluster.primaries[1]
        yield cluster


@pytest.fixture
def settings(cluster: RedisCluster, tmp_path: Path) -> Settings:
    team = next(cluster.teams_on(cluster.primaries[0]))
    return Settings(redis_url=cluster.url, shards=1, team=team, data_dir=str(tmp_path / "data"))


def test_teams_of_other_nodes_are_served_while_nobody_can_claim_visits(
    cluster: RedisCluster, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their events waited in the streams, their fallbacks and lost commands for a sweep, for as long as it was away."""
    runtime, woken = Runtime(settings), list[StreamRef]()

    def note(_: Database, streams: list[StreamRef], **__: object) -> None:
        woken.extend(streams)

    monkeypatch.setattr(scheduler, "current_runtime", lambda: runtime)
    monkeypatch.setattr(scheduler, "publish_wakeups", note)
    with connect(settings=settings) as tb:
        turn = tb.open_turn(channel="web", conversation="c", message_id="m", text="?", answer_within=600.0)
        scheduler.visit_teams()
        runtime.database.command("ZREM", FLEET.key("active"), settings.team)  # as if it rested since
        cluster.primaries[1].kill()
        shard = tb.context.layout.shard(0)
        tb.context.database.command("ZADD", shard.key("due"), "XX", 1, turn.id)
        tb.context.database.command("HSET", shard.key("turn", turn.id), "deadline", 1)
        tb.submit(["true"], session="s")
        tb.flush()
        woken.clear()
        scheduler.visit_teams()
        assert woken == [(shard, Family.COMMANDS)]
        assert turn.state == "fallback"
    cluster.primaries[1].launch()
    cluster.wait_until_serving()

    def is_active() -> bool:
        scheduler.visit_teams()
        return f"{settings.team}.0".encode() in runtime.database.command("ZRANGE", FLEET.key("active"), 0, -1)

    wait_until(is_active, "what nobody could notify of is visited on")
    runtime.database.close()


def test_a_tick_waits_once_for_the_node_that_hangs(
    cluster: RedisCluster, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody claims visits, notes beat or asks for the workers of an absent host while that would take five seconds."""
    runtime = Runtime(settings)
    monkeypatch.setattr(scheduler, "current_runtime", lambda: runtime)
    with connect(settings=settings) as tb:
        turn = tb.open_turn(channel="web", conversation="c", message_id="m", text="?", answer_within=600.0)
        shard, database = tb.context.layout.shard(0), tb.context.database
        scheduler.visit_teams()
        cluster.primaries[1].suspend()
        try:
            took = [timed(scheduler.visit_teams)]
            database.command("ZADD", shard.key("pools"), 1, "elsewhere")
            database.command("ZADD", shard.key("due"), "XX", 1, turn.id)
            database.command("HSET", shard.key("turn", turn.id), "deadline", 1)
            took.append(timed(scheduler.visit_teams))
        finally:
            cluster.primaries[1].resume()
        assert turn.state == "fallback"
    assert took[0] > max(1, 2 * took[1])
    runtime.database.close()


def test_a_host_waits_once_for_the_node_that_takes_notifications(cluster: RedisCluster, settings: Settings) -> None:
    """Each batch of events for other nodes, and each turn that was to be opened, waited five seconds for it."""
    layout = Layout(settings.team, 1)
    with closing(Database(cluster.url, call_deadline=5.0)) as database:
        database.command("PING")
        notice = ActivityNotice(database, layout)
        cluster.primaries[1].suspend()
        try:
            took = [timed(lambda: notify(database, [stream_of(layout.shard(0), Family.EVENTS)])) for _ in range(4)]
            began = clock.monotonic()
            notice.send()
            assert clock.monotonic() - began < 5, "the deadline of a call"
        finally:
            cluster.primaries[1].resume()
    assert min(took[1:]) < 0.5 < took[0]


def test_a_decision_waits_for_one_node_that_hangs_and_not_for_a_second(
    cluster: RedisCluster, settings: Settings
) -> None:
    """It raises, because it took the time of a whole call; when it is repeated, it waits no more."""
    with closing(Database(cluster.url, call_deadline=0.5)) as database:
        database.command("PING")
        notice = ActivityNotice(database, Layout(settings.team, 1))
        cluster.primaries[1].suspend()
        try:
            with pytest.raises(Unavailable, match="did not answer in time"):
                notice.send()
            notice.send()
        finally:
            cluster.primaries[1].resume()


def test_turns_answers_and_commands_go_on_while_it_is_dead(cluster: RedisCluster, settings: Settings) -> None:
    """No turn was opened, answers went to the disk, and `tellback submit` said that Redis is not reached."""
    with connect(settings=settings) as tb:
        earlier = tb.open_turn(channel="web", conversation="a", message_id="m", text="?")
        cluster.primaries[1].kill()
        tb.context.activity._next = 0.0  # as twenty seconds later
        turns = [earlier, tb.open_turn(channel="web", conversation="b", message_id="m", text="?")]
        assert [turn.respond(OutgoingResponse.text_only("yes")) for turn in turns] == ["accepted", "accepted"]
    said = CliRunner().invoke(
        cli, ["submit", "--session", "s", "--wait", "0.5", "--", "true"], env=environment(settings)
    )
    assert "has no record after 0.5 s; it may still run" in said.output


def test_what_nobody_could_notify_of_is_found_when_it_is_back(
    cluster: RedisCluster, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that began meanwhile has no list of teams, and would visit one that rests within five minutes."""
    runtime = Runtime(settings)
    monkeypatch.setattr(scheduler, "current_runtime", lambda: runtime)
    monkeypatch.setattr(scheduler, "RETURN_SECONDS", 0.0)
    with connect(settings=settings):
        pass
    assert TeamVisits(runtime.database).claim_visits(0.0, 10).active == [settings.team]
    runtime.database.command("ZREM", FLEET.key("active"), settings.team)  # as if it rested since
    cluster.primaries[1].kill()
    with connect(settings=settings) as tb:
        turn = tb.open_turn(channel="web", conversation="c", message_id="m", text="?", answer_within=0.001)
        scheduler.visit_teams()
        assert turn.state == "open"
        cluster.primaries[1].launch()
        cluster.wait_until_serving()

        def is_answered() -> bool:
            scheduler.visit_teams()
            return turn.state == "fallback"

        wait_until(is_answered, "the user has a fallback")
    runtime.database.close()


def test_a_search_that_finds_a_team_whose_own_key_is_away_stops_no_visit(tmp_path: Path) -> None:
    """Each search found it again, and ended the run before its visits: others' fallbacks came a period later."""
    with RedisCluster(tmp_path / "cluster", "--cluster-require-full-coverage", "no") as cluster:
        assert cluster.owner(slot_of(FLEET.key("teams"))) is cluster.primaries[1]
        away, *more = islice(cluster.teams_on(cluster.primaries[2]), 20)
        here = next(cluster.teams_on(cluster.primaries[0]))
        runtime, woken = Runtime(Settings(redis_url=cluster.url, data_dir=str(tmp_path / "data"))), list[StreamRef]()
        layout = open_layout(runtime.database, here, 1)
        TeamVisits(runtime.database).notice([here])
        every = [*Layout(away, 32).all, *(shard for team in more for shard in Layout(team, 4).all)]
        shards = [one for one in every if cluster.owner(slot_of(one.prefix)) is not cluster.primaries[2]]
        for shard in (*shards, layout.shard(0)):
            runtime.database.command("XADD", stream_of(shard, Family.EVENTS), "*", "m", "{}")
        cluster.primaries[2].kill()
        scheduler = TeamScheduler(runtime, woken.extend)
        began = clock.monotonic()
        scheduler.run(0.0)
        assert clock.monotonic() - began < 5, "each stream and team waited for the node, a third of a second"
        assert woken == [(layout.shard(0), Family.EVENTS)]
        assert away not in TeamVisits(runtime.database).known()
        cluster.primaries[2].launch()
        cluster.wait_until_serving()

        def is_found() -> bool:
            scheduler._search._next_step = 0.0  # at once
            scheduler._search.step(())
            return away in TeamVisits(runtime.database).known()

        wait_until(is_found, "it is looked for again")
