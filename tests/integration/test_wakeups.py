"""Wake-ups of a consumer: by the dispatcher at once, and by visits after a wake-up or its dispatcher was lost."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from celery import Celery
from structlog.testing import capture_logs

from tellback import Settings, Tellback, connect
from tellback.broker import KEY_PREFIX
from tellback.broker_transport import check_task
from tellback.errors import NotFound
from tellback.names import SWEEPS_QUEUE, Family, Task
from tellback.state.database import Database
from tellback.state.intake import Notifications, mark_pending
from tellback.state.intake_lease import IntakeEntry, Lease
from tellback.state.job_keys import ANY_POOL
from tellback.state.keys import Layout, stream_of
from tellback_workers import decay, due_timers, loops, tasks, wakeups
from tellback_workers.consumer import Consumer, Deferred
from tellback_workers.loops.guidance import GuidanceLoop
from tellback_workers.runtime import Runtime
from tests.support.clocks import later
from tests.support.commands import running_beat
from tests.support.redis_server import RedisServer, free_port
from tests.support.tool_calls import calls, publish
from tests.support.turns import HELLO, opened, store
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, Workers


@pytest.fixture
def beat(settings: Settings, _emptied: None, tmp_path: Path) -> Iterator[None]:
    with running_beat(msgspec.structs.replace(settings, beat_period=0.1), tmp_path):
        yield


def test_an_entry_that_a_dead_dispatcher_heard_of_is_found_by_the_next(
    tb: Tellback, start_workers: StartWorkers
) -> None:
    dead = Notifications(tb.context.database)
    dead.wait(1)
    publish(tb, 3)
    assert dead.wait(10)  # heard, and then it died before it published a wake-up
    start_workers(queues="events")
    wait_until(lambda: calls(tb) == 3, "the entries are applied")


def test_a_wakeup_that_the_broker_lost_is_published_again(
    tb: Tellback, start_workers: StartWorkers, database: Database
) -> None:
    start_workers(queues="events")
    shard = tb.context.layout.of("s")
    assert mark_pending(database, [(shard, Family.EVENTS)]) == ["due"]  # a marker, and no message behind it
    publish(tb, 3)
    wait_until(lambda: calls(tb) == 3, "the entries are applied")


@pytest.mark.usefixtures("app")
def test_a_queue_that_nobody_reads_does_not_grow_for_ever(
    tb: Tellback, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A family has no workers for days: each visit finds its stream idle, and its wake-ups stay in the broker."""
    monkeypatch.setattr(wakeups, "MAX_QUEUED", 3)
    shard = tb.context.layout.of("s")
    publish(tb, 1)
    for _ in range(5):
        wakeups.publish_wakeups(database, [(shard, Family.EVENTS)], again=True)
        database.command("DEL", shard.key("wakeup", Family.EVENTS))
    assert wakeups.queue_length(Family.EVENTS) == 3
    assert database.command("LLEN", f"{KEY_PREFIX}{Family.EVENTS}") == 3


@pytest.mark.usefixtures("beat")
def test_beat_sends_one_tick_for_all_teams(tb: Tellback, database: Database, settings: Settings) -> None:
    queue = f"{KEY_PREFIX}{SWEEPS_QUEUE}"
    with connect(settings=msgspec.structs.replace(settings, team="zoo")) as other:
        publish(tb, 1)
        publish(other, 1)
        wait_until(lambda: database.command("LLEN", queue) >= 3, "some ticks were sent")
    messages = [msgspec.json.decode(raw) for raw in database.command("LRANGE", queue, 0, -1)]
    assert {message["headers"]["task"] for message in messages} == {Task.VISIT_TEAMS}
    assert [message["body"] for message in messages] == [messages[0]["body"]] * len(messages)
    check_task(messages[0])


def test_a_new_team_is_served_by_workers_that_run(
    tb: Tellback, start_workers: StartWorkers, settings: Settings
) -> None:
    """Its first event is applied, and no process had to learn of the team before."""
    start_workers(queues="events,sweeps", env={"TELLBACK_BEAT_PERIOD": "60"})
    publish(tb, 2)
    wait_until(lambda: calls(tb) == 2, "the team of before is served")
    with connect(settings=msgspec.structs.replace(settings, team="new-team")) as other:
        publish(other, 3)
        wait_until(lambda: calls(other) == 3, "so is the new one")
    assert calls(tb) == 2


@pytest.fixture
def in_worker(settings: Settings, app: Celery, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """Tasks run here, as in a process of a worker, and never linger."""
    del app
    # A consumer ends with half its lease: one of 5 s was over on a busy machine.
    runtime = Runtime(msgspec.structs.replace(settings, consume_batch=10, linger=0.0, consumer_lease=60.0))
    monkeypatch.setattr(tasks, "current_runtime", lambda: runtime)
    yield runtime
    runtime.database.close()


def queued(database: Database, family: Family = Family.EVENTS) -> list[list[Any]]:
    """The arguments of the wake-ups in a family's queue, oldest first."""
    messages = [msgspec.json.decode(raw) for raw in database.command("LRANGE", f"{KEY_PREFIX}{family}", 0, -1)]
    return [msgspec.json.decode(base64.b64decode(message["body"]))[0] for message in reversed(messages)]


def test_a_big_backlog_does_not_hold_up_the_other_streams_of_its_message(
    tb: Tellback, settings: Settings, in_worker: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each gives a share of a batch at a time; what is left gets another wake-up, behind those of others."""
    apply = GuidanceLoop.apply_together

    def slow(
        loop: GuidanceLoop, batches: Mapping[Lease, Sequence[IntakeEntry]], *, or_release: bool = False
    ) -> Deferred:
        deferred = apply(loop, batches, or_release=or_release)
        later(monkeypatch, in_worker.settings.consumer_lease)
        return deferred

    monkeypatch.setattr(GuidanceLoop, "apply_together", slow)
    big, shard = tb.context.layout.team, tb.context.layout.of("s").index
    with connect(settings=msgspec.structs.replace(settings, team="zoo")) as other:
        publish(tb, 100)
        publish(other, 5)
        tasks.consume("events", [(big, shard), ("zoo", shard)])
        assert (calls(tb), calls(other)) == (5, 5)
    assert queued(in_worker.database) == [["events", [[big, shard]]]]
    monkeypatch.setattr(GuidanceLoop, "apply_together", apply)
    tasks.consume("events", [(big, shard)])
    assert calls(tb) == 100


def test_a_big_backlog_of_commands_is_left_after_a_slice(
    tb: Tellback, settings: Settings, in_worker: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These families apply one stream after the other, so none may have half a lease while others wait."""
    monkeypatch.setattr(tasks, "SLICE", 0.0)
    big, shard = tb.context.layout.team, tb.context.layout.of("s")

    def waiting(team: str) -> int:
        return int(in_worker.database.command("XLEN", stream_of(Layout(team, 4).shard(shard.index), Family.COMMANDS)))

    with connect(settings=msgspec.structs.replace(settings, team="zoo")) as other:
        for client, count in ((tb, 30), (other, 5)):
            for _ in range(count):
                client.submit(["true"], session="s")
            client.flush()
        assert (waiting(big), waiting("zoo")) == (30, 5)
        tasks.consume("commands", [(big, shard.index), ("zoo", shard.index)])
        assert (waiting(big), waiting("zoo")) == (20, 0)
        wakeups_of_big = queued(in_worker.database, Family.COMMANDS).count([big, shard.index, ANY_POOL])
        assert wakeups_of_big == 10 + 1, "one for each job, and one for what is left"
        for left in (10, 0):  # alone too: another team's message may have come meanwhile
            tasks.consume("commands", [(big, shard.index)])
            assert waiting(big) == left


def test_a_stream_that_cannot_be_consumed_costs_the_others_of_its_message_nothing(
    tb: Tellback, in_worker: Runtime
) -> None:
    """A forged message names such a stream, or one that is older than a change of its team."""
    shard = tb.context.layout.of("s").index
    publish(tb, 5)
    with pytest.raises(NotFound, match="there is no team nobody"):
        tasks.consume("events", [("nobody", 0), ("default", 99), ("default", shard)])
    assert calls(tb) == 5
    assert queued(in_worker.database) == []


@pytest.mark.parametrize("name", ["fence", "lease", "in", "clock"])
def test_a_team_that_broke_its_keys_costs_no_other_stream_of_its_message(
    break_type: Callable[[str], None], tb: Tellback, settings: Settings, in_worker: Runtime, name: str
) -> None:
    """A host may write all of them. The others' streams were left under leases that nobody used."""
    team, shard = tb.context.layout.team, tb.context.layout.of("s")
    with connect(settings=msgspec.structs.replace(settings, team="zoo")) as other:
        publish(tb, 1)
        publish(other, 5)
        break_type(shard.key(name) if name == "clock" else shard.key(name, Family.EVENTS))
        tasks.consume("events", [(team, shard.index), ("zoo", shard.index)])
        assert calls(other) == 5
    assert queued(in_worker.database) == []


@pytest.mark.parametrize("family", [Family.EVENTS, Family.TURNS])
def test_an_error_of_one_stream_ends_the_message_after_the_others(
    tb: Tellback, settings: Settings, in_worker: Runtime, monkeypatch: pytest.MonkeyPatch, family: Family
) -> None:
    def consumer_of(runtime: Runtime, team: str, family: Family) -> Consumer:
        if team == tb.context.layout.team:
            raise RuntimeError("of this team alone")
        return loops.consumer_of(runtime, team, family)

    monkeypatch.setattr(tasks, "consumer_of", consumer_of)
    with connect(settings=msgspec.structs.replace(settings, team="zoo")) as other:
        turn = opened(other)
        shard = store(other).shard(turn.id)
        turn.finish(HELLO)
        publish(other, 5)
        named = other.context.layout.of("s") if family is Family.EVENTS else shard
        with capture_logs() as lines, pytest.raises(RuntimeError, match="of this team alone"):
            tasks.consume(family.value, [("default", named.index), ("zoo", named.index)])
        assert [line["stream"] for line in lines if line["event"] == "consumer.failed"] == [f"default.{named.index}"]
        assert in_worker.database.command("XLEN", stream_of(named, family)) == 0


@pytest.mark.usefixtures("app")
def test_a_pending_marker_of_another_type_costs_no_other_stream_its_wakeup(
    break_type: Callable[[str], None], database: Database
) -> None:
    """It ended each visit of all teams before any turn got its fallback."""
    streams = [(Layout(f"t{number}", 1).shard(0), Family.EVENTS) for number in range(3)]
    break_type(streams[1][0].key("wakeup", Family.EVENTS))
    wakeups.publish_wakeups(database, streams, again=True)
    assert sorted(team for _, [[team, _]] in queued(database)) == ["t0", "t1", "t2"]


@pytest.mark.parametrize(
    "task",
    [
        partial(tasks.consume, "events", [("default", 0)]),
        partial(due_timers.fire_due_timers, "default", 0),
        partial(decay.decay, "default"),
    ],
)
def test_a_task_that_finds_no_redis_is_postponed(task: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wake-up of an outage failed with a traceback, and Flower counted it as a failed task."""
    away = Runtime(Settings(redis_url="redis://127.0.0.1:1/0"))
    for module in (tasks, due_timers, decay):
        monkeypatch.setattr(module, "current_runtime", lambda: away)
    with capture_logs() as logs:
        task()
    assert [entry["event"].partition(".")[2] for entry in logs] == ["postponed"]


@pytest.mark.usefixtures("app")
def test_a_burst_is_announced_in_few_messages_that_several_processes_share(database: Database) -> None:
    few = [(Layout(f"t{number}", 1).shard(0), Family.EVENTS) for number in range(5)]
    wakeups.publish_wakeups(database, few)
    assert len(queued(database)) == 5, "each process takes one"
    database.command("DEL", f"{KEY_PREFIX}{Family.EVENTS}")
    many = [(Layout(f"t{number}", 1).shard(0), Family.EVENTS) for number in range(400)]
    wakeups.publish_wakeups(database, many)
    named = [team for _, streams in queued(database) for team, _ in streams]
    assert sorted(named) == sorted(shard.team for shard, _ in many[5:]), "those that were pending are not named again"
    assert 8 <= len(queued(database)) <= 16
    assert max(len(streams) for _, streams in queued(database)) <= wakeups.MAX_STREAMS


def test_a_burst_that_the_broker_refuses_can_be_published_again(
    app: Celery, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [(Layout(f"t{number}", 1).shard(0), Family.EVENTS) for number in range(20)]
    with Celery("away", set_as_current=False) as away:
        away.conf.update(broker_url=f"redis://127.0.0.1:{free_port()}/0")
        monkeypatch.setattr(wakeups, "default_app", away)
        with pytest.raises(wakeups.NotPublished):
            wakeups.publish_wakeups(database, places)
    monkeypatch.setattr(wakeups, "default_app", app)
    wakeups.publish_wakeups(database, places)
    assert sum(len(streams) for _, streams in queued(database)) == 20


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
                wait_until(lambda: calls(tb) == 5, "the entries are applied")
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
