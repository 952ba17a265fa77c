"""Redis is killed and comes back with a shorter log, as `appendfsync everysec` may leave it; workers continue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from msgspec import structs

from tellback import Settings, Tellback
from tests.support.redis_server import RedisServer
from tests.support.signals import Angles, Bench, item, recall, serving, signal
from tests.support.vector_sets import settings_with

pytestmark = pytest.mark.faults


@pytest.fixture
def settings(settings: Settings, own_redis: RedisServer, vector_sets: str) -> Settings:
    """Settings for the server whose tail is lost."""
    return settings_with(own_redis, structs.replace(settings, redis_url=own_redis.url), vector_sets)


@pytest.fixture
def benches(tb: Tellback, settings: Settings) -> Iterator[list[Bench]]:
    """Three worker processes with the model."""
    with ExitStack() as stack:
        yield [stack.enter_context(closing(Bench(settings, tb.context.layout, Angles()))) for _ in range(3)]


def facts(tb: Tellback, bench: Bench) -> list[str]:
    with serving(bench):
        return [hit.fact_id for hit in tb.bank("b").recall("x", wait=20)]


def remember(tb: Tellback, bench: Bench, fact_id: str) -> None:
    tb.bank("b").remember(fact_id, "x")
    tb.flush()
    bench.consume()


@pytest.mark.parametrize("since", [1, 2], ids=["as many", "one more"])
def test_two_workers_agree_on_a_bank_after_a_lost_tail(
    tb: Tellback, benches: list[Bench], settings: Settings, own_redis: RedisServer, vector_sets: str, since: int
) -> None:
    """Each knows a cluster and a fact of the same version that the other does not; only one of them was kept."""
    bench, other, fresh = benches
    signal(tb, bench, [item("f", "a")])
    remember(tb, bench, "f")
    length = own_redis.log_bytes
    signal(tb, bench, [item("g", "b")])
    remember(tb, bench, "g")
    assert facts(tb, bench) == ["f", "g"]
    own_redis.lose_tail(length)
    settings_with(own_redis, settings, vector_sets)  # a login is not in the log
    kept = ["h", "i"][:since]
    signal(tb, other, [item(name, name) for name in kept])
    for name in kept:
        remember(tb, other, name)
    assert facts(tb, bench) == ["f", *kept]
    assert recall(bench, tb.bank("b"), "h", [("h", 0.5)])[0].scope == "cluster"
    signal(tb, bench, [item("late", "b")])
    assert recall(fresh, tb.bank("b"), "b", [("late", 0.5)])[0].scope == "cluster"
    assert recall(fresh, tb.bank("b"), "h", [("late", 0.5)])[0].scope == "global"
