"""Who wakes a consumer: the dispatcher at once, and the rounds where a wake-up or its dispatcher was lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from celery import Celery

from tellback import Settings, Tellback, connect
from tellback.broker import KEY_PREFIX
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.names import SWEEPS_QUEUE, Family, Task
from tellback.state.database import Database
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tellback.state.intake import Intake
from tellback.state.keys import Layout
from tellback_workers import wakeups
from tellback_workers.app import config
from tests.support.redis_server import RedisServer, free_port
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, Workers, environment

ID = EvaluationId("s", "p", "e")
FAST = {"TELLBACK_BEAT_PERIOD": "0.1"}  # else the decay is first looked at after a minute


def publish(tb: Tellback, count: int) -> None:
    for _ in range(count):
        event = ToolInvoked(event_id=new_event_id(), session="s", prompt="p", evaluation="e", tool="t")
        tb.context.publisher.publish(event)
    tb.flush()


def calls(tb: Tellback) -> int:
    return Evaluations(tb.context.database, tb.context.layout.of("s")).counts(ID).calls


@pytest.fixture
def beat(settings: Settings, database: Database, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:  # noqa: ARG001 - stopped before the keys are checked
    command = [sys.executable, "-m", "celery", "-A", "tellback_beat.app", "beat", "-s", str(tmp_path / "schedule")]
    process = subprocess.Popen(command, env=environment(settings, FAST), stderr=subprocess.DEVNULL, cwd=tmp_path)
    yield process
    process.terminate()
    process.wait(timeout=10)


def test_an_entry_that_a_dead_dispatcher_heard_of_is_found_by_the_next(
    tb: Tellback, start_workers: StartWorkers
) -> None:
    intake = Intake(tb.context.database, tb.context.layout)
    intake.ensure_groups()
    publish(tb, 3)
    assert intake.wait_for_notifications(
        tb.context.layout.all, 10
    )  # heard, and then it died before it published a wake-up
    start_workers(queues="events")
    wait_until(lambda: calls(tb) == 3, "the entries are applied", timeout=20)


def test_a_wakeup_that_the_broker_lost_is_published_again(
    tb: Tellback, start_workers: StartWorkers, database: Database
) -> None:
    start_workers(queues="events")
    shard = tb.context.layout.of("s")
    assert (
        Intake(database, tb.context.layout).try_mark_pending(shard, Family.EVENTS) == "due"
    )  # a token, and no message behind it
    publish(tb, 3)
    wait_until(lambda: calls(tb) == 3, "the entries are applied", timeout=20)


def test_a_queue_that_nobody_reads_does_not_grow_for_ever(
    tb: Tellback, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A family without workers, for days: its stream is idle in every round, and its wake-ups stay in the broker."""
    monkeypatch.setattr(wakeups, "MAX_QUEUED", 3)
    intake, shard = Intake(database, tb.context.layout), tb.context.layout.of("s")
    publish(tb, 1)
    with Celery("test", set_as_current=False) as app:
        app.conf.update(config(settings))
        for _ in range(5):
            wakeups.wake_idle(app, intake)
            database.command("DEL", shard.key("wakeup", Family.EVENTS))
        assert wakeups.queue_length(app, Family.EVENTS) == 3
    assert database.command("LLEN", f"{KEY_PREFIX}{Family.EVENTS}") == 3


@pytest.mark.usefixtures("beat")
def test_beat_sends_every_sweep_of_every_team(database: Database) -> None:
    queue = f"{KEY_PREFIX}{SWEEPS_QUEUE}"

    def sent() -> set[str]:
        messages = [msgspec.json.decode(raw) for raw in database.command("LRANGE", queue, 0, -1)]
        return {message["headers"]["task"] for message in messages}

    expected = {Task.WAKE_STREAMS.value, Task.SWEEP_TURNS.value, Task.SWEEP_JOBS.value, Task.DECAY.value}
    wait_until(lambda: sent() >= expected, "each sweep was sent", timeout=20)


def test_the_state_on_a_cluster_node_keeps_each_call_in_one_slot(tmp_path: Path) -> None:
    """A node of a Redis Cluster refuses what crosses slots; the broker is another Redis."""
    node_folder, broker_folder = tmp_path / "node", tmp_path / "broker"
    node_folder.mkdir()
    broker_folder.mkdir()
    with (
        RedisServer.start(node_folder, "--cluster-enabled", "yes", "--cluster-port", str(free_port())) as node,
        RedisServer.start(broker_folder) as broker,
    ):
        database = Database(node.url)
        database.command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: b"cluster_state:ok" in database.command("CLUSTER", "INFO"), "the cluster serves")
        settings = Settings(redis_url=node.url, broker_url=broker.url, data_dir=str(tmp_path / "data"))
        workers = Workers(settings, tmp_path, queues="events,sweeps")
        try:
            workers.start()
            with connect(settings=settings) as tb:
                publish(tb, 5)
                wait_until(lambda: calls(tb) == 5, "the entries are applied", timeout=20)
                assert len(tb.history("s")) == 5
            assert "CROSSSLOT" not in workers.log()
        finally:
            workers.stop()


def test_layout_is_fixed_by_the_first_user_of_a_team(database: Database, settings: Settings) -> None:
    with connect(settings=msgspec.structs.replace(settings, team="acme", shards=8)) as first:
        assert first.context.layout == Layout("acme", 8)
    with connect(settings=msgspec.structs.replace(settings, team="acme", shards=2)) as second:
        assert second.context.layout == Layout("acme", 8)
    assert database.command("DEL", "tb:{acme.0}:team") == 1
