"""`tellback hook` on a Redis Cluster: other nodes go on while one hangs, and calls follow a slot that moves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tellback import Settings, Tellback, clock, connect
from tellback.errors import Unavailable
from tellback.hook.resp import RespConnection
from tellback.hook.several_servers import ClusterConnection, open_several
from tellback.names import Family
from tellback.state.keys import FLEET, Layout, stream_of
from tellback.state.slots import slot_of
from tests.support.hooks import run_hook, tool_event, troubles
from tests.support.redis_cluster import SHORT_MS, RedisCluster
from tests.support.redis_server import RedisServer
from tests.support.spools import waiting
from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults

WAIT = 8.0  # seconds that a hook has, of which a node that hangs takes half


@pytest.fixture
def tb(cluster: RedisCluster, tmp_path: Path) -> Iterator[Tellback]:
    """A client on the hooks' host, which so knows the team; its key is on the third primary, the fleet's on another."""
    settings = Settings(redis_url=cluster.url, shards=12, data_dir=str(tmp_path / "data"), team="acme")
    with connect(settings=settings) as tb:
        yield tb


def owner_of(cluster: RedisCluster, key: str) -> RedisServer:
    return cluster.owner(slot_of(key))


def session_on(cluster: RedisCluster, layout: Layout, wanted: Callable[[RedisServer], bool]) -> str:
    return next(
        name for name in map(str, range(1_000)) if wanted(owner_of(cluster, stream_of(layout.of(name), Family.EVENTS)))
    )


@contextmanager
def suspended(node: RedisServer) -> Generator[None]:
    node.suspend()
    try:
        yield
    finally:
        node.resume()


def start_session(tb: Tellback, session: str, wait: float = WAIT) -> float:
    """Run the hook of a session's start; return its seconds."""
    began = clock.monotonic()
    started = tool_event(None, hook_event_name="SessionStart", session_id=session)
    run_hook(tb.context.settings, started, "--team=acme", f"--wait={wait}", event="session-start")
    return clock.monotonic() - began


def arrived(tb: Tellback, session: str) -> int:
    return int(tb.context.database.command("XLEN", stream_of(tb.context.layout.of(session), Family.EVENTS)))


def test_events_kept_for_a_node_that_hangs_leave_a_hook_half_of_its_time(cluster: RedisCluster, tb: Tellback) -> None:
    """They took all of it, so that a tool's call got no feedback."""
    team, layout = owner_of(cluster, tb.context.layout.shard(0).key("team")), tb.context.layout
    hanging = next(node for node in cluster.primaries if node not in (team, owner_of(cluster, FLEET.key("teams"))))
    there = session_on(cluster, layout, lambda node: node is hanging)
    here = session_on(cluster, layout, lambda node: node is not hanging)
    with suspended(hanging):
        start_session(tb, there, 0.5)
        assert len(waiting(tb.context.settings.data_path)) == 1
        assert start_session(tb, here) < WAIT
    assert arrived(tb, here) == 1
    start_session(tb, here)
    assert arrived(tb, there) >= 1, "the node may have appended what it was sent while it hung; workers apply it once"


def test_a_hook_publishes_while_the_node_with_its_team_hangs(cluster: RedisCluster, tb: Tellback) -> None:
    """The events of all sessions were kept on disk, though the host knew the team and their node answered."""
    team = owner_of(cluster, tb.context.layout.shard(0).key("team"))
    session = session_on(cluster, tb.context.layout, lambda node: node is not team)
    with suspended(team):
        start_session(tb, session)
    assert (arrived(tb, session), troubles(tb.context.settings)) == (1, "")


def test_a_hook_does_not_wait_long_for_a_notification(cluster: RedisCluster, tb: Tellback) -> None:
    """A node that hangs with the notifications took all of the time."""
    fleet = owner_of(cluster, FLEET.key("notifications"))
    team = owner_of(cluster, tb.context.layout.shard(0).key("team"))
    assert fleet is not team
    session = session_on(cluster, tb.context.layout, lambda node: node is not fleet)
    with suspended(fleet):
        assert start_session(tb, session) < WAIT
    assert (arrived(tb, session), troubles(tb.context.settings)) == (1, "")


def test_the_log_of_a_hook_names_the_node_that_hangs_or_is_full(cluster: RedisCluster, tb: Tellback) -> None:
    """It said TimeoutError, or that Redis is full, and nobody knew which node."""
    node = cluster.primaries[0]
    session, client = session_on(cluster, tb.context.layout, lambda owner: owner is node), cluster.client(node)
    with suspended(node):
        start_session(tb, session, 0.5)
    client.command("CONFIG", "SET", "maxmemory", 1)
    try:
        start_session(tb, session)
    finally:
        client.command("CONFIG", "SET", "maxmemory", 0)
    hanging, full = troubles(tb.context.settings).splitlines()
    assert hanging.endswith(f" at 127.0.0.1:{node.port}") or f"Redis at 127.0.0.1:{node.port} did not" in hanging
    assert f"Redis at 127.0.0.1:{node.port} is full (at its maxmemory)" in full


def test_a_hook_repeats_its_calls_while_a_slot_moves(cluster: RedisCluster, tb: Tellback) -> None:
    """It gave up after 10 ms, and kept the events on disk."""
    key = stream_of(tb.context.layout.of("s1"), Family.EVENTS)
    start_session(tb, "s1")
    slot = slot_of(key)
    target = next(node for node in cluster.primaries if node is not cluster.owner(slot))
    source = cluster.begin_move(slot, target)
    cluster.client(source).command("MIGRATE", "127.0.0.1", target.port, key, 0, 5_000)  # the others stay for now

    def end_move() -> None:
        clock.sleep(0.5)
        cluster.move_keys(slot, source, target)
        cluster.end_move(slot, target)

    moving = threading.Thread(target=end_move)
    moving.start()
    try:
        start_session(tb, "s1")
    finally:
        moving.join()
    assert (arrived(tb, "s1"), troubles(tb.context.settings)) == (2, "")


def test_a_node_that_left_a_hooks_call_unanswered_is_not_asked_again(
    cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others name it as the owner of its slots, and it would take the rest of the hook's time too."""
    asked, ask, open_socket = list[int](), ClusterConnection._ask, RespConnection._connect

    def noted(self: ClusterConnection, address: tuple[str, int], *rest: Any) -> list[Any]:
        asked.append(address[1])
        return ask(self, address, *rest)

    monkeypatch.setattr(ClusterConnection, "_ask", noted)
    _, living, hanging = cluster.primaries  # the first is asked for the slots of the others
    keys = [next(key for key in map(str, range(100)) if owner_of(cluster, key) is node) for node in (hanging, living)]

    def closed_at_the_end(self: RespConnection, url: str) -> Any:
        return sockets.enter_context(closing(open_socket(self, url)))

    monkeypatch.setattr(RespConnection, "_connect", closed_at_the_end)
    with suspended(hanging), ExitStack() as sockets:  # a hook leaves them open until its process ends
        replies = open_several(cluster.url, clock.monotonic() + 2.0).run_commands([("GET", key) for key in keys])
    assert (type(replies[0]), replies[1], asked.count(hanging.port)) == (Unavailable, None, 1)


@pytest.mark.parametrize("coverage", [pytest.param("no", marks=pytest.mark.slow), "yes"])
def test_a_hook_asks_another_node_if_the_first_still_names_a_dead_primary(tmp_path: Path, coverage: str) -> None:
    """A node that imports a slot takes no notice of who has it since; with full coverage it then refuses all calls."""
    options = ("--cluster-require-full-coverage", coverage)
    with RedisCluster(tmp_path / "cluster", *options, replicas=1) as cluster:
        settings = Settings(redis_url=cluster.url, shards=12, data_dir=str(tmp_path / "data"), team="acme")
        with connect(settings=settings) as tb:
            key = stream_of(tb.context.layout.of("s1"), Family.EVENTS)
            start_session(tb, "s1")
        slot = slot_of(key)
        importing = next(node for node in cluster.primaries if node is not cluster.owner(slot))
        source = cluster.begin_move(slot, importing)
        source.kill()
        cluster.give_up_after(SHORT_MS)
        others = [node for node in cluster.nodes if node.running and node is not importing]
        wait_until(lambda: source.port not in {owner_at(cluster, node, slot) for node in others}, "a replica took over")
        wait_until(lambda: all(b"cluster_state:ok" in info(cluster, node) for node in others), "the others serve")
        url = "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in [importing, *others])
        with connect(settings=replace(settings, redis_url=url)) as tb:
            start_session(tb, "s1")
            assert (arrived(tb, "s1"), troubles(settings)) == (2, "")


def owner_at(cluster: RedisCluster, node: RedisServer, slot: int) -> int:
    """The port of a slot's primary as this node knows it."""
    shared = cluster.client(node).command("CLUSTER", "SLOTS")
    return next(int(port) for first, last, (_, port, *_), *_ in shared if first <= slot <= last)


def info(cluster: RedisCluster, node: RedisServer) -> bytes:
    return bytes(cluster.client(node).command("CLUSTER", "INFO"))
