"""One primary of a Redis Cluster is dead: what is on the others is visited, swept and delivered."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tellback import OutgoingResponse, RoutingOutcome, Settings, Tellback, Turn, clock, connect
from tellback.cli.teams import _state_text
from tellback.doctor.examination import run_checks
from tellback.errors import Unavailable
from tellback.messaging.team_renewal import TeamRenewal
from tellback.names import Family
from tellback.state import cluster as cluster_module
from tellback.state.call_deadline import CircuitBreaker
from tellback.state.cluster import ClusterConnections
from tellback.state.database import Database, connect_to
from tellback.state.fleet import TeamVisits
from tellback.state.intake import Intake, Notified
from tellback.state.intake_lease import IntakeEntry
from tellback.state.job_claims import JobClaimant
from tellback.state.job_keys import ANY_POOL
from tellback.state.job_submissions import enqueue_call
from tellback.state.jobs import Jobs
from tellback.state.keys import FLEET, Layout, Shard
from tellback.state.slots import slot_of
from tellback.state.team import open_layout
from tellback.state.teams import Teams
from tellback.state.turns import Turns
from tellback.state.unavailable import NotPermitted
from tellback_workers import tasks
from tellback_workers.runtime import Runtime
from tellback_workers.scheduler import TeamScheduler
from tests.support.hooks import run_hook, tool_event, troubles
from tests.support.jobs import ended, submission
from tests.support.redis_cluster import SHORT_MS, RedisCluster
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults

SENT = RoutingOutcome(attempted=True, sent_text=True)
KEY = Layout("default", 1).shard(0).key("team")
CONVERSATIONS = [f"c{number}" for number in range(24)]


@pytest.fixture(params=["the first primary", "another"])
def dead(request: pytest.FixtureRequest) -> int:
    """The number of the primary that dies; calls without a key go to the first, and the second has the fleet's keys."""
    return 0 if request.param == "the first primary" else 2


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RedisCluster]:
    with RedisCluster(tmp_path / "cluster", "--cluster-require-full-coverage", "no") as cluster:
        assert cluster.owner(slot_of(FLEET.key("teams"))) is cluster.primaries[1]
        yield cluster


@pytest.fixture
def settings(cluster: RedisCluster, tmp_path: Path) -> Settings:
    return Settings(redis_url=cluster.url, shards=12, data_dir=str(tmp_path / "data"))


def open_turns(tb: Tellback, answer_within: float) -> list[Turn]:
    return [
        tb.open_turn(channel="web", conversation=name, message_id="m", text="?", answer_within=answer_within)
        for name in CONVERSATIONS
    ]


def on_others(tb: Tellback, cluster: RedisCluster, gone: RedisServer, turns: list[Turn]) -> list[str]:
    """The ids of the turns that are not on this primary."""
    store = Turns(tb.context.database, tb.context.layout)
    return [turn.id for turn in turns if cluster.owner(slot_of(store.shard(turn.id).key("due"))) is not gone]


def test_fallbacks_are_sent_where_the_primary_lives(cluster: RedisCluster, settings: Settings, dead: int) -> None:
    """One dead primary postponed the visits of all shards and teams."""
    scheduler = TeamScheduler(Runtime(settings), lambda _: None)
    gone = cluster.primaries[dead]
    with connect(settings=replace(settings, team=next(cluster.teams_on(gone)))) as tb:
        due = on_others(tb, cluster, gone, open_turns(tb, 600.0))
        scheduler.run(0.0)
        gone.kill()
        store = Turns(tb.context.database, tb.context.layout)
        for turn in due:
            shard = store.shard(turn)
            tb.context.database.command("ZADD", shard.key("due"), "XX", 1, turn)
            tb.context.database.command("HSET", shard.key("turn", turn), "deadline", 1)

        def all_answered() -> bool:
            scheduler.run(0.0)
            return all(turn is not None and turn.state == "fallback" for turn in store.load(due))

        wait_until(all_answered, "each overdue turn on a living primary has its fallback")


def test_a_worker_that_starts_serves_the_teams_of_other_nodes(
    cluster: RedisCluster, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """One notification of a team whose own key is away threw away all that came with it, and postponed its wake-ups."""
    away, here = next(cluster.teams_on(cluster.primaries[2])), next(cluster.teams_on(cluster.primaries[0]))
    with connect(settings=replace(settings, team=away)), connect(settings=replace(settings, team=here)) as tb:
        tb.open_turn(channel="web", conversation="c", message_id="m", text="?")
        stream = tb.context.layout.shard(0), Family.EVENTS
    cluster.primaries[2].kill()
    runtime = Runtime(settings)
    found = [Notified(team, (0, Family.EVENTS)) for team in (away, here)]
    assert runtime.streams_of(found[:1]) == []
    assert runtime.streams_of(found) == [stream]
    said = capsys.readouterr().out
    [line] = [each for each in said.splitlines() if "team.postponed" in each]
    assert "[warning" in line
    assert f"tb:{{{away}.0}}:team does not answer" in line
    with pytest.raises(Unavailable, match="serves none until that node answers"):
        runtime.shard(away, 0)


def test_a_shard_of_a_team_whose_number_of_shards_is_unknown_stays_active(
    cluster: RedisCluster, settings: Settings
) -> None:
    """A worker that started meanwhile took it for a shard that is not there: its entries waited for five minutes."""
    away, here = next(cluster.teams_on(cluster.primaries[2])), next(cluster.teams_on(cluster.primaries[0]))
    for team in (away, here):
        with closing(Database(settings.redis_url)) as database:
            open_layout(database, team, 4)
    cluster.primaries[2].kill()
    runtime = Runtime(settings)
    visits = TeamVisits(runtime.database)
    visits.notice([f"{away}.3", f"{here}.99"])
    places = set(runtime.database.command("ZRANGE", FLEET.key("active"), 0, -1))
    assert f"{away}.3".encode() in places
    TeamScheduler(runtime, lambda _: None).run(0.0)
    places = set(runtime.database.command("ZRANGE", FLEET.key("active"), 0, -1))
    assert f"{away}.3".encode() in places
    assert f"{here}.99".encode() not in places


def test_a_wake_up_for_several_teams_serves_those_of_other_nodes(
    cluster: RedisCluster, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, consumed = Runtime(settings), list[Shard]()

    def note(_: Runtime, shards: list[Shard], *__: object, **___: object) -> list[Shard]:
        consumed.extend(shards)
        return []

    away, here = next(cluster.teams_on(cluster.primaries[2])), next(cluster.teams_on(cluster.primaries[0]))
    with connect(settings=replace(settings, team=away)), connect(settings=replace(settings, team=here)) as tb:
        monkeypatch.setattr(tasks, "current_runtime", lambda: runtime)
        monkeypatch.setattr(tasks, "_consume", note)
        cluster.primaries[2].kill()
        tasks.consume("events", [(away, 0), (here, 0)])
        assert consumed == [tb.context.layout.shard(0)]


def test_a_user_who_may_not_read_teams_is_no_node_that_is_away(cluster: RedisCluster, settings: Settings) -> None:
    """All streams were left out without a word, and a consumer said that a node does not answer."""
    for node in cluster.primaries:
        cluster.client(node).command("ACL", "SETUSER", "worker", "on", ">p", "~*", "&*", "+@all", "-hget")
    runtime = Runtime(replace(settings, redis_url=cluster.url.replace("//", "//worker:p@")))
    with pytest.raises(NotPermitted, match="hget"):
        runtime.streams_of([Notified("acme", (0, Family.EVENTS))])


def test_a_search_for_teams_waits_once_for_a_node_that_hangs(cluster: RedisCluster) -> None:
    """Each search did, so that visits came every five seconds, and fallbacks later."""
    hanging = cluster.primaries[0]
    with closing(Database(cluster.url, call_deadline=1.0)) as database:
        database.scan_step("tb:{*", 10)
        hanging.suspend()
        try:
            took = [timed(lambda: database.scan_step("tb:{*", 10)) for _ in range(4)]
        finally:
            hanging.resume()
        assert min(took[1:]) < 0.5 < took[0]
        connections: Any = database._connections
        wait_until(lambda: connections.answers(0), "it is asked again")
        assert database.scan_step("tb:{*", 10) == []


def test_a_host_waits_once_for_the_node_with_its_team(cluster: RedisCluster) -> None:
    """Events for other nodes waited five seconds in every twenty: the host looked whether its team is still stored."""
    team = Layout(next(cluster.teams_on(cluster.primaries[2])), 1)
    with closing(Database(cluster.url, call_deadline=2.0)) as database:
        renewal = TeamRenewal(database, team)
        renewal.renew()
        cluster.primaries[2].suspend()
        try:
            took = [timed(renewal.renew) for _ in range(4)]
        finally:
            cluster.primaries[2].resume()
    assert min(took[1:]) < 1.0 < took[0]


def timed(call: Callable[[], object]) -> float:
    began = clock.monotonic()
    call()
    return clock.monotonic() - began


def test_teams_are_listed_with_the_shards_that_are_unknown(
    cluster: RedisCluster, settings: Settings, dead: int
) -> None:
    """Their entries and turns counted as none, without a word."""
    gone = cluster.primaries[dead]
    with connect(settings=replace(settings, team=next(cluster.teams_on(cluster.primaries[1])))) as tb:
        expected = len(on_others(tb, cluster, gone, open_turns(tb, 600.0)))
        unknown = [shard for shard in tb.context.layout.all if cluster.owner(slot_of(shard.key("due"))) is gone]
        gone.kill()
        [row] = Teams(tb.context.database).rows([tb.context.layout.team])
        assert (row.open_turns, row.unknown_shards) == (expected, len(unknown))
        assert f"{len(unknown)} shards unknown" in _state_text(row)


def test_deliveries_come_where_the_primary_lives(cluster: RedisCluster, settings: Settings, dead: int) -> None:
    gone = cluster.primaries[dead]
    with connect(settings=settings) as tb:
        turns = open_turns(tb, 600.0)
        for turn in turns:
            turn.respond(OutgoingResponse.text_only("yes"))
        expected = set(on_others(tb, cluster, gone, turns))
        gone.kill()
        came = {delivery.turn_id for delivery in tb.outbox("web", wait=1.0) if delivery.settle(SENT) == "delivered"}
    assert came == expected


def test_commands_run_where_the_primary_lives(cluster: RedisCluster, settings: Settings, dead: int) -> None:
    """A record on a living primary was stored, and counted as lost after two minutes, because of the other's queues."""
    gone = cluster.primaries[dead]
    who = JobClaimant(ANY_POOL, seconds=60.0, worker="w@test", host="h")
    with closing(Database(settings.redis_url)) as database:
        layout = open_layout(database, "default", 12)
        ids = {shard: [queue_one(database, layout, shard) for _ in range(2)] for shard in layout.all}
        jobs = Jobs(database, layout)
        expected = {
            id_ for shard in ids if cluster.owner(slot_of(shard.key("pools"))) is not gone for id_ in ids[shard]
        }
        lease = jobs.lease(who)
        while lease is not None and lease.command_id not in expected:
            lease = jobs.lease(who)
        gone.kill()
        ran = set[str]()
        while lease is not None:
            ran.add(lease.command_id)
            stored, lease = jobs.finish_and_lease(lease, ended(lease), who, retry_seconds=5.0)
            assert stored
    assert ran == expected


def queue_one(database: Database, layout: Layout, shard: Shard) -> str:
    """Queue a command of this shard; return its id."""
    intake, session = (
        Intake(database, layout),
        next(name for name in map(str, range(1_000)) if layout.of(name) == shard),
    )
    lease = intake.take_lease(shard, Family.COMMANDS, 300)
    assert lease is not None
    submitted = submission(session)
    assert database.run(enqueue_call(lease, IntakeEntry("1-1", submitted, 1), submitted, None, 10_000)) == b"ok"
    intake.release(lease)
    return submitted.command_id


def test_who_asks_a_node_after_the_end_leaves_no_connection(cluster: RedisCluster) -> None:
    """Requirement A-498: as the thread does that asks again beside the work, perhaps a node that is new to it."""
    node = cluster.primaries[0]
    with closing(Database(node.url)) as database:

        def connected() -> int:
            return len(database.command("CLIENT", "LIST").splitlines())

        before = connected()
        connections = connect_to(cluster.url, call_deadline=0.5)
        assert isinstance(connections, ClusterConnections)
        connections.close()
        connections._pools.clear()
        connections._ask_again(("127.0.0.1", node.port))
        wait_until(lambda: connected() == before, "none stays")


def test_a_silent_node_stays_one_where_no_thread_can_ask_it_again(
    cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RuntimeError reached who asked which shards answer."""

    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with closing(connect_to(cluster.url, call_deadline=5.0)) as connections:
        assert isinstance(connections, ClusterConnections)
        connections.each_primary()
        connections._silent = dict.fromkeys(connections._pools, 0.0)
        monkeypatch.setattr(threading.Thread, "start", none)
        assert not connections.answers(0)


def test_a_command_waits_once_for_a_node_that_hangs_and_names_it(
    cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited up to three times, 17 s in all, and named every node."""
    monkeypatch.setattr("tellback.state.call_deadline.OPEN_SECONDS", 60.0)
    first, _, node = (f"127.0.0.1:{node.port}" for node in cluster.primaries)
    other, _, key = (Layout(next(cluster.teams_on(node)), 1).shard(0).key("team") for node in cluster.primaries)
    with closing(Database(cluster.url, call_deadline=2.0, breaker=CircuitBreaker())) as database:
        assert database.command("EXISTS", key) == 0
        cluster.primaries[2].suspend()
        try:
            for reason in (".+", "a call just before got no reply"):
                with pytest.raises(Unavailable, match=rf"Redis at {node} did not answer in time \({reason}\)"):
                    database.command("EXISTS", key)
            assert database.command("EXISTS", other) == 0
        finally:
            cluster.primaries[2].resume()
    cluster.primaries[0].kill()
    with (
        closing(Database(cluster.url)) as database,
        pytest.raises(Unavailable, match=rf"Can't reach Redis at {first} .*Start this node of the cluster"),
    ):
        database.command("EXISTS", other)


@pytest.fixture
def whole_or_down(tmp_path: Path) -> Iterator[RedisCluster]:
    """A cluster as Redis has it by default: without one primary, the others refuse all calls."""
    with RedisCluster(tmp_path / "whole", "--cluster-require-full-coverage", "yes") as cluster:
        yield cluster


def test_a_cluster_that_is_down_says_so_and_the_next_step(
    whole_or_down: RedisCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy host, it was said now and then that no node answers, as if none ran."""
    cluster, gone = whole_or_down, whole_or_down.primaries[2]
    living = next(cluster.teams_on(cluster.primaries[0]))
    key, sleep = Layout(living, 1).shard(0).key("team"), clock.sleep
    gone.kill()
    cluster.give_up_after(SHORT_MS)
    wait_until(
        lambda: b"cluster_state:fail" in cluster.client(cluster.primaries[0]).command("CLUSTER", "INFO"),
        "the others know of it",
    )
    monkeypatch.setattr(cluster_module, "REPEAT_SECONDS", 0.2)

    def oversleep(seconds: float) -> None:
        sleep(seconds + 0.2)

    monkeypatch.setattr(clock, "sleep", oversleep)
    with (
        closing(Database(cluster.url)) as database,
        pytest.raises(Unavailable, match=r"The cluster is down\. .* `tellback doctor` names the node"),
    ):
        database.command("EXISTS", key)
    settings = Settings(redis_url=cluster.url, broker_url="redis://127.0.0.1:1", data_dir=str(tmp_path), team=living)
    found = {finding.check: finding.found for finding in run_checks(settings, url_given=True)}
    assert found["nodes"].startswith(f"Can't reach Redis at 127.0.0.1:{gone.port}")


def test_a_login_that_is_refused_is_named_also_if_a_node_is_away(
    cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the node that is away was asked last, it was said that Redis is away: start it."""
    cluster.primaries[2].kill()

    def in_order(known: list[Any], _: int) -> list[Any]:
        return known

    monkeypatch.setattr("random.sample", in_order)
    url = cluster.url.replace("//", "//nobody:wrong@")
    with closing(Database(url)) as database, pytest.raises(Unavailable, match="Check the user and the password"):
        database.command("EXISTS", KEY)


def test_a_hook_asks_the_next_node_if_one_hangs(cluster: RedisCluster, settings: Settings) -> None:
    """As the first of the URL it took all of the time, and each event of the host was kept on disk."""
    with socket.create_server(("127.0.0.1", 0)) as hanging:  # it accepts connections, and never answers
        url = cluster.url.replace("//", f"//127.0.0.1:{hanging.getsockname()[1]},")
        started = tool_event(None, hook_event_name="SessionStart")
        run_hook(settings, started, f"--redis-url={url}", "--wait=5", event="session-start")
    assert troubles(settings) == ""
    with connect(settings=settings) as tb:
        assert tb.context.database.command("XLEN", tb.context.layout.of("s1").key("in", "events")) == 1
