"""Lingering while messages wait: who has consumed a part of a burst takes the next message."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread
from types import SimpleNamespace

import msgspec
import pytest
from celery import Celery

from tellback import Settings, Tellback
from tellback.names import Family
from tellback.state.keys import Layout
from tellback_workers import tasks
from tellback_workers.pool_locks import pool_locks
from tellback_workers.runtime import Runtime
from tellback_workers.wakeups import publish_wakeups
from tests.support.tool_calls import calls, publish
from tests.support.waiting import wait_until

STAYS = 30.0


@pytest.fixture
def runtime(settings: Settings, app: Celery, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """A thread of a pool of two, of which the other is free."""
    runtime = Runtime(msgspec.structs.replace(settings, linger=STAYS))
    monkeypatch.setattr(tasks, "current_runtime", lambda: runtime)
    app.amqp.queues.select([Family.EVENTS.value])
    pool_locks.open(SimpleNamespace(concurrency=2, pool_cls="threads"))
    yield runtime
    pool_locks.open(SimpleNamespace(concurrency=1))
    runtime.database.close()
    runtime.short_database.close()


def lingers(runtime: Runtime, layout: Layout) -> bool:
    """Check whether anybody lingers on a stream of the team."""
    markers = [("GET", shard.key("wakeup", Family.EVENTS)) for shard in layout.all]
    return b"lingering" in runtime.database.pipeline(markers)


def consume(layout: Layout, streams: int) -> Thread:
    """Do in a thread of a pool what a message asks for that names the first streams of a team."""
    arguments = (Family.EVENTS.value, [(layout.team, index) for index in range(streams)])
    thread = Thread(target=tasks.consume.run, args=arguments, daemon=True)
    thread.start()
    return thread


def leaves(thread: Thread, runtime: Runtime, layout: Layout) -> bool:
    """Give the other thread a task, and the lingering one a message; return whether it leaves."""
    other = Thread(target=pool_locks.begin_task)
    other.start()
    other.join()
    publish_wakeups(runtime.database, [(layout.shard(3), Family.EVENTS)])
    thread.join(STAYS / 2)
    return not thread.is_alive()


# Of several streams, or on a cluster, it is a part of what waits.
PARTS = pytest.mark.parametrize(("streams", "cluster"), [(3, False), (1, True)])


@PARTS
def test_while_a_message_waits_nobody_lingers_on_a_part(
    tb: Tellback, runtime: Runtime, layout: Layout, *, streams: int, cluster: bool
) -> None:
    runtime.__dict__["is_cluster"] = cluster
    publish(tb, 3)
    publish_wakeups(runtime.database, [(layout.shard(3), Family.EVENTS)])
    thread = consume(layout, streams)
    thread.join(STAYS / 2)
    assert not thread.is_alive(), "it lingers, although the next message waits"
    assert not lingers(runtime, layout)


@PARTS
def test_without_a_message_it_lingers(
    tb: Tellback, runtime: Runtime, layout: Layout, *, streams: int, cluster: bool
) -> None:
    runtime.__dict__["is_cluster"] = cluster
    publish(tb, 3)
    thread = consume(layout, streams)
    wait_until(lambda: lingers(runtime, layout), "it lingers")
    assert leaves(thread, runtime, layout)


def test_on_all_streams_of_a_team_it_lingers_whatever_waits(tb: Tellback, runtime: Runtime, layout: Layout) -> None:
    """The message that waits may name a stream on which it lingers from now on."""
    publish(tb, 3)
    publish_wakeups(runtime.database, [(layout.of("s"), Family.EVENTS)])
    thread = consume(layout, 1)
    wait_until(lambda: lingers(runtime, layout) and calls(tb) == 3, "it lingers, and applies what waits")
    assert leaves(thread, runtime, layout)
