"""The state on a Redis Cluster of three nodes: calls find their node, while slots move and primaries die."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import MovedError

from tellback import Settings, Tellback, Turn, aio, connect
from tellback.broker import broker_config
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.contracts.turns import OutgoingResponse
from tellback.errors import ConfigurationError, Unavailable
from tellback.state import cluster as cluster_module
from tellback.state.all_scripts import all_scripts
from tellback.state.database import Database
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tellback.state.keys import Layout, Shard
from tellback.state.scripts import common as scripts
from tellback.state.slots import slot_of
from tests.support.hooks import run_hook, tool_event, troubles
from tests.support.redis_cluster import SHORT_MS, RedisCluster
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until
from tests.support.workers import Workers

pytestmark = pytest.mark.faults

SHARDS = Layout("default", 12).all
KEYS = [shard.key("done", "x") for shard in SHARDS]


@pytest.fixture(params=[None, 5.0], ids=["waits", "bounded"])
def database(cluster: RedisCluster, request: pytest.FixtureRequest) -> Iterator[Database]:
    with closing(Database(cluster.url, call_deadline=request.param)) as database:
        database.command("PING")
        yield database


@pytest.fixture
def settings(cluster: RedisCluster, tmp_path: Path) -> Settings:
    return Settings(redis_url=cluster.url, data_dir=str(tmp_path / "data"))


def other_than(cluster: RedisCluster, node: RedisServer) -> RedisServer:
    return next(other for other in cluster.primaries if other is not node)


def test_one_pipeline_reaches_every_node_and_its_replies_keep_their_order(
    cluster: RedisCluster, database: Database
) -> None:
    values = [str(number).encode() for number in range(len(KEYS))]
    database.pipeline([("SET", key, value) for key, value in zip(KEYS, values, strict=True)])
    assert database.pipeline([("GET", key) for key in KEYS]) == values
    assert all(cluster.client(node).command("DBSIZE") for node in cluster.primaries), "each node has some"
    refused = database.pipeline([("GET", KEYS[0]), ("INCR",), ("GET", KEYS[1])], raise_on_error=False)
    assert (refused[0], refused[2]) == (values[0], values[1])
    assert isinstance(refused[1], Exception)


def test_scripts_are_loaded_into_every_node(cluster: RedisCluster, database: Database) -> None:
    for node in cluster.primaries:
        cluster.client(node).command("SCRIPT", "FLUSH")
    calls = [scripts.small_write(key=key, command="SET", parts=["1"]) for key in KEYS]
    assert database.run_all(calls) == [b"OK"] * len(KEYS)


def test_what_workers_load_is_in_every_primary(cluster: RedisCluster, database: Database) -> None:
    """Requirement A-94. A primary that forgot its scripts gets them again, whatever the others have."""
    wanted = [script.sha for script in all_scripts()]
    database.load_scripts(all_scripts())
    cluster.client(cluster.primaries[1]).command("SCRIPT", "FLUSH")
    database.load_scripts(all_scripts())
    for node in cluster.primaries:
        assert all(cluster.client(node).command("SCRIPT", "EXISTS", *wanted))


def test_a_slot_that_has_moved_is_found(cluster: RedisCluster, database: Database) -> None:
    database.pipeline([("RPUSH", key, "here") for key in KEYS])
    slot = slot_of(KEYS[0])
    cluster.move(slot, other_than(cluster, cluster.owner(slot)))
    assert database.blocking(0.01, "BLMOVE", KEYS[0], KEYS[0], "LEFT", "LEFT") == b"here"
    cluster.move(slot, other_than(cluster, cluster.owner(slot)))
    assert database.pipeline([("LRANGE", key, 0, -1) for key in KEYS]) == [[b"here"]] * len(KEYS)


def test_a_redirection_without_a_host_leads_to_the_host_that_sent_it(cluster: RedisCluster) -> None:
    """It led to the first host of the URL: with an unknown endpoint, nodes name only the port of each other."""
    slot = slot_of(KEYS[0])
    for node in cluster.nodes:
        cluster.client(node).command("CONFIG", "SET", "cluster-preferred-endpoint-type", "unknown-endpoint")
    url = cluster.url.replace("//", "//127.0.0.9:1,")  # nobody answers at the first
    try:
        with closing(Database(url, call_deadline=5.0)) as database:  # a call that is sent to nobody is not repeated
            assert database.command("RPUSH", KEYS[0], "here") == 1
            cluster.move(slot, other_than(cluster, cluster.owner(slot)))
            assert database.pipeline([("LRANGE", KEYS[0], 0, -1), ("LLEN", KEYS[1])]) == [[b"here"], 0]
    finally:
        for node in cluster.nodes:
            cluster.client(node).command("CONFIG", "SET", "cluster-preferred-endpoint-type", "ip")


def test_a_redirection_hides_no_primary_from_who_asks_each(cluster: RedisCluster, database: Database) -> None:
    """Another thread had a refusal and forgot which node has which slot; then this one's slot alone was known."""
    connections: Any = database._connections
    connections.drop_idle()
    connections._redirected(MovedError(f"1 127.0.0.1:{cluster.primaries[0].port}"), ("127.0.0.1", 1))
    assert len(connections.each_primary()) == len(cluster.primaries)


def test_a_walk_over_the_keys_of_a_cluster_that_is_away_is_unavailable() -> None:
    with closing(Database("redis+cluster://127.0.0.1:1")) as database, pytest.raises(Unavailable):
        list(database.scan("*", 10))


def test_keys_of_a_slot_that_is_moving_are_found_at_either_node(cluster: RedisCluster, database: Database) -> None:
    shard = SHARDS[0]
    keys = [shard.key("done", str(number)) for number in range(20)]
    slot = slot_of(keys[0])
    database.pipeline([("RPUSH", key, "here") for key in keys[:10]])
    target = other_than(cluster, cluster.owner(slot))
    source = cluster.begin_move(slot, target)
    cluster.client(source).command("MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", *keys[:5])
    try:
        database.pipeline([("RPUSH", key, "new") for key in keys])
        assert [len(found) for found in database.pipeline([("LRANGE", key, 0, -1) for key in keys])] == (
            [2] * 10 + [1] * 10
        )
        blocked = database.blocking(0.01, "BLMOVE", keys[0], keys[0], "LEFT", "LEFT")
        assert blocked == b"here", "its key has moved already"
        followed = scripts.drop_missing(index=keys[1], key=keys[0], member="nobody")  # a key that is there: no effect
        assert database.blocking(0.01, "BLMOVE", keys[0], keys[0], "LEFT", "LEFT", then=followed) == 0
    finally:
        cluster.move_keys(slot, source, target)
        cluster.end_move(slot, target)
    assert database.command("LLEN", keys[19]) == 1


@pytest.mark.parametrize(
    ("setting", "refusing", "usual", "said"),
    [
        (("CONFIG", "SET", "maxmemory"), 1, 0, "is full"),
        (("CONFIG", "SET", "min-replicas-to-write"), 1, 0, "refused the call: NOREPLICAS"),
        (("ACL", "SETUSER", "default"), "-set", "+set", "refused the call: .* no permissions"),
    ],
)
def test_a_node_that_refuses_a_call_is_named(
    cluster: RedisCluster, database: Database, setting: tuple[str, ...], refusing: str, usual: str, said: str
) -> None:
    node = cluster.owner(slot_of(KEYS[0]))
    cluster.client(node).command(*setting, refusing)
    try:
        with pytest.raises(Unavailable, match=f"Redis at 127.0.0.1:{node.port} {said}"):
            database.command("SET", KEYS[0], 1)
    finally:
        cluster.client(node).command(*setting, usual)


def begin_half_move(
    cluster: RedisCluster, database: Database, shard: Shard, *, all_keys: bool = False
) -> Callable[[], None]:
    """Start the move of a shard's slot; a script on two keys is refused until the returned function ends it."""
    slot = slot_of(shard.key("clock"))
    database.command("SET", shard.key("beat"), 1)
    target = other_than(cluster, cluster.owner(slot))
    source = cluster.begin_move(slot, target)
    if all_keys:
        cluster.move_keys(slot, source, target)

    def end() -> None:
        cluster.move_keys(slot, source, target)
        cluster.end_move(slot, target)

    return end


def two_keys(database: Database, shard: Shard) -> Any:
    """A call of two keys, of which one is not there."""
    return database.command("EVAL", "return 'ran'", 2, shard.key("beat"), shard.key("done", "none"))


def test_a_call_of_several_keys_waits_until_its_slot_has_moved(
    cluster: RedisCluster, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "REPEAT_SECONDS", 60.0)
    end = begin_half_move(cluster, database, SHARDS[1])
    source = cluster.client(cluster.owner(slot_of(SHARDS[1].key("beat"))))
    source.command("CONFIG", "RESETSTAT")

    def end_once_refused() -> None:
        wait_until(lambda: b"TRYAGAIN" in source.command("INFO", "errorstats"), "the call is refused")
        end()

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(end_once_refused)
        assert two_keys(database, SHARDS[1]) == b"ran"
        ended.result()


@pytest.mark.parametrize("moved", ["no key", "all keys"])
@pytest.mark.parametrize("deadline", [None, 0.2])
def test_a_call_whose_slot_moves_for_too_long_is_unavailable(
    cluster: RedisCluster, deadline: float | None, moved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last answer is ASK half of the time where all keys have moved; it became advice to change the URL."""
    monkeypatch.setattr(cluster_module, "REPEAT_SECONDS", 0.1)
    with closing(Database(cluster.url, call_deadline=deadline)) as database:
        end = begin_half_move(cluster, database, SHARDS[2], all_keys=moved == "all keys")
        try:
            for _ in range(8):
                with pytest.raises(Unavailable, match="The slot is moving") as raised:
                    two_keys(database, SHARDS[2])
                assert sum(str(node.port) in str(raised.value) for node in cluster.nodes) == 1, "the one that refused"
        finally:
            end()
    with closing(Database(cluster.url)) as database:
        assert two_keys(database, SHARDS[2]) == b"ran"


def test_a_node_that_is_away_fails_its_own_calls_only(cluster: RedisCluster) -> None:
    with closing(Database(cluster.url, call_deadline=3.0)) as database:
        database.pipeline([("SET", key, 1) for key in KEYS])
        gone = cluster.primaries[1]
        gone.suspend()
        try:
            replies = database.pipeline([("GET", key) for key in KEYS], raise_on_error=False)
        finally:
            gone.resume()
        lost = [cluster.owner(slot_of(key)) is gone for key in KEYS]
        assert [isinstance(reply, Exception) for reply in replies] == lost
        assert any(lost)
        cluster.wait_until_serving()


def test_a_short_wait_leaves_time_to_ask_which_node_has_the_slot(cluster: RedisCluster, database: Database) -> None:
    """With none, no node was asked, and the error said that none answers."""
    database.command("RPUSH", KEYS[0], "here")
    connections: Any = database._connections
    connections.drop_idle()
    assert database.blocking(0.0, "BLMOVE", KEYS[0], KEYS[0], "LEFT", "LEFT") == b"here"


def test_hooks_and_aio_follow_a_slot_while_it_moves_and_after(cluster: RedisCluster, settings: Settings) -> None:
    with connect(settings=settings) as tb:
        layout = tb.context.layout
        slot = slot_of(layout.of("s1").key("clock"))
        streams = [shard.key("in", "events") for shard in layout.all]

        def arrived() -> int:
            return int(sum(tb.context.database.pipeline([("XLEN", stream) for stream in streams])))

        run_hook(settings, tool_event("toolu_1"), "--wait=1")
        first = arrived()
        assert first == 2, troubles(settings)  # the evaluation's beginning, and the call
        cluster.move(slot, other_than(cluster, cluster.owner(slot)))
        run_hook(settings, tool_event("toolu_2"), "--wait=1")
        assert arrived() == 2 * first, troubles(settings)

        async def answer() -> bool:
            async with aio.connect(settings=settings) as client:
                turn = await client.open_turn(channel="web", conversation="c", message_id="m", text="?")
                moving = slot_of(layout.of_turn("web", "c").key("clock"))
                cluster.move(moving, other_than(cluster, cluster.owner(moving)))
                return bool(await turn.respond(OutgoingResponse.text_only("yes")))

        asyncio.run(answer())
        assert tb.open_turn(channel="web", conversation="c", message_id="m", text="?").duplicate


def test_a_plain_url_of_a_node_says_which_form_a_cluster_needs(cluster: RedisCluster) -> None:
    with closing(Database(cluster.primaries[0].url)) as database, pytest.raises(ConfigurationError, match="cluster://"):
        database.pipeline([("GET", key) for key in KEYS])


def test_celery_is_refused_a_cluster_as_its_broker(settings: Settings) -> None:
    with pytest.raises(ConfigurationError, match="TELLBACK_BROKER_URL"):
        broker_config(settings)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["a slot moves", "a primary dies"])
def test_work_goes_on_while_a_slot_moves_or_a_primary_dies(fault: str, tmp_path: Path) -> None:
    """Events of many sessions, with a worker; all are applied once, and the turns of the time are all answered."""
    (tmp_path / "broker").mkdir()
    with (
        RedisCluster(tmp_path / "cluster", replicas=1) as cluster,
        RedisServer.start(tmp_path / "broker") as broker,
    ):
        settings = Settings(redis_url=cluster.url, broker_url=broker.url, data_dir=str(tmp_path / "data"))
        workers = Workers(settings, tmp_path)
        try:
            workers.start()
            with connect(settings=settings) as tb:
                answered = work(tb, cluster, fault)
                wait_until(lambda: calls_of(tb) == [CALLS] * SESSIONS, f"applied once {workers.logs[0]}", timeout=90)
                wait_until(lambda: {turn_state(turn) for turn in answered} == {"responded"}, "all answered")
            assert workers.processes[0].poll() is None
        finally:
            workers.kill_all()


SESSIONS, CALLS = 12, 30


def work(tb: Tellback, cluster: RedisCluster, fault: str) -> list[Turn]:
    """Publish calls of each session in rounds, and answer a turn in each; the fault comes after a third of them."""
    turns: list[Turn] = []
    moving = threading.Thread(target=make_fault, args=(cluster, tb.context.layout, fault))
    for number in range(CALLS):
        if number == CALLS // 3:
            moving.start()
        for session in range(SESSIONS):
            event = ToolInvoked(
                event_id=new_event_id(), session=f"s{session}", prompt="p", evaluation="e", tool=f"t{number}"
            )
            tb.context.publisher.publish(event)
        tb.flush()
        with suppress(Unavailable):  # its user would write again
            turn = tb.open_turn(channel="web", conversation=f"c{number}", message_id="m", text="?", answer_within=600)
            turn.respond(OutgoingResponse.text_only("yes"))
            turns.append(turn)
    moving.join()
    return turns


def make_fault(cluster: RedisCluster, layout: Layout, fault: str) -> None:
    slot = slot_of(layout.of("s0").key("clock"))
    owner = cluster.owner(slot)
    if fault == "a slot moves":
        cluster.move(slot, other_than(cluster, owner))
        return
    owner.kill()
    cluster.give_up_after(SHORT_MS)
    living = [node for node in cluster.nodes if node.running]
    wait_until(
        lambda: (
            all(b"cluster_state:ok" in cluster.client(node).command("CLUSTER", "INFO") for node in living)
            and cluster.owner(slot).running
        ),
        "its replica has been promoted",
    )


def calls_of(tb: Tellback) -> list[int]:
    try:
        return [
            Evaluations(tb.context.database, tb.context.layout.of(f"s{session}"))
            .counts(EvaluationId(f"s{session}", "p", "e"))
            .calls
            for session in range(SESSIONS)
        ]
    except Unavailable:
        return []


def turn_state(turn: Turn) -> str:
    try:
        return turn.state
    except Unavailable:
        return ""
