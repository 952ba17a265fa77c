"""One primary of a Redis Cluster is dead: what is on the others is visited, swept and delivered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tellback import OutgoingResponse, RoutingOutcome, Settings, Tellback, Turn, connect
from tellback.state.keys import FLEET, Layout
from tellback.state.slots import slot_of
from tellback.state.turns import Turns
from tellback_workers.app import app
from tellback_workers.runtime import Runtime
from tellback_workers.scheduler import TeamScheduler
from tests.support.redis_cluster import RedisCluster
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults

SENT = RoutingOutcome(attempted=True, sent_text=True)
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


def team_on(cluster: RedisCluster, node: RedisServer) -> str:
    """The name of a team whose layout is stored on this primary."""
    names = (f"team-{number}" for number in range(1_000))
    return next(name for name in names if cluster.owner(slot_of(Layout(name, 1).shard(0).key("team"))) is node)


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
    scheduler = TeamScheduler(app, Runtime(settings), lambda _: None)
    gone = cluster.primaries[dead]
    with connect(settings=settings, team=team_on(cluster, gone)) as tb:
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

        wait_until(all_answered, "each overdue turn on a living primary has its fallback", timeout=30)


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
