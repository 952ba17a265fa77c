"""Nodes of a Redis Cluster that are slow just when a call, whose slot is moving, has little time left."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import pytest

from tellback import clock
from tellback.errors import Unavailable
from tellback.state.call_deadline import CircuitBreaker
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.slots import slot_of
from tests.support.redis_cluster import RedisCluster

pytestmark = pytest.mark.faults

SHARD = Layout("default", 12).all[3]


@pytest.mark.parametrize("while_asked", ["who has the slot", "again"])
def test_a_repeat_without_time_for_a_reply_names_the_refusal_and_doubts_no_node(
    cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch, while_asked: str
) -> None:
    """Requirement A-639. It said that a healthy node did not answer, whose calls then failed for half a second."""
    key, absent, sleep = SHARD.key("beat"), SHARD.key("done", "none"), clock.sleep
    slot = slot_of(key)
    with closing(Database(cluster.url, call_deadline=2.0, breaker=CircuitBreaker())) as database:
        connections: Any = database.cluster
        read = connections._read_primaries

        def suspend() -> None:  # as slow as on a busy machine
            for node in cluster.primaries:
                node.suspend()

        def read_then_suspend(end: float) -> Any:
            found = read(end)
            suspend()
            return found

        def oversleep(seconds: float) -> None:
            if threading.current_thread() is not threading.main_thread():
                sleep(seconds)
                return
            sleep(1.5)  # of two seconds
            if while_asked == "again":
                monkeypatch.setattr(connections, "_read_primaries", read_then_suspend)
            else:
                suspend()

        database.command("SET", key, 1)
        target = next(node for node in cluster.primaries if node is not cluster.owner(slot))
        source = cluster.begin_move(slot, target)
        try:
            monkeypatch.setattr(clock, "sleep", oversleep)
            with pytest.raises(Unavailable, match="The slot is moving"):
                database.command("EVAL", "return 'ran'", 2, key, absent)
        finally:
            monkeypatch.undo()
            for node in cluster.primaries:
                node.resume()
        assert connections._silent == {}
        assert database.command("EXISTS", key) == 1, "no circuit breaker is open"
        cluster.move_keys(slot, source, target)
        cluster.end_move(slot, target)
