"""lingering: a process that stays with consumed streams, against a real Redis and in real workers."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from tempfile import TemporaryFile
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from billiard import Pipe, Process
from billiard.connection import Connection
from billiard.process import current_process
from celery import Celery

from tellback import Tellback
from tellback.broker import KEY_PREFIX
from tellback.contracts.codec import encode
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.messaging.append_call import notification
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.dead_letters import DeadLetters
from tellback.state.intake import Intake, WakeupState, mark_pending
from tellback.state.intake_entry import IntakeEntry
from tellback.state.intake_lease import Lease, committed
from tellback.state.keys import Layout, Shard, stream_of
from tellback_workers import linger as module
from tellback_workers import pool_locks as locks_module
from tellback_workers.app import config
from tellback_workers.consumer import Consumer
from tellback_workers.linger import Lingerer, NewStreams, QueuePressure
from tellback_workers.pool_locks import PoolLocks, PoolThreads, pool_locks
from tellback_workers.runtime import Runtime
from tellback_workers.wakeups import NotPublished, has_messages
from tests.support.acknowledge import acknowledge
from tests.support.clocks import later
from tests.support.intake_entries import idle_streams, read_new
from tests.support.redis_server import free_port
from tests.support.tool_calls import calls
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

FAMILY = Family.EVENTS


class OrderRecorder:
    """Acknowledges what it is given, in the order in which it came."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.tools: list[str] = []
        self.lost: str | None = None
        self.when_applied: Callable[[], None] = lambda: None

    def ready(self) -> None:
        """Return at once: this loop is always ready."""

    def apply(self, lease: Lease, entries: Sequence[IntakeEntry]) -> None:
        for entry in entries:
            assert isinstance(entry.message, ToolInvoked)
            if entry.message.tool == self.lost:
                self.lost = None
                self.database.command("DEL", lease.key)  # it ran out, as for a process that was stopped for long
            self.tools.append(entry.message.tool)
            self.when_applied()
        committed(self.database.run(acknowledge(lease, entries)))


class LingerBench:
    """A lingerer in a thread, and a switch for when other work needs its process."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self.database = database
        self.layout = layout
        self.intake = Intake(database, layout)
        self.recorder = OrderRecorder(database)
        self.consumer = Consumer(self.intake, DeadLetters(database, layout), self.recorder, lease_seconds=5, batch=500)
        self.other_work = False
        self.due: list[Shard] | None = None

    def linger(
        self, *, idle_seconds: float = 60, batch: int = 500, lease_seconds: float = 5, news: NewStreams | None = None
    ) -> list[Shard]:
        lingerer = Lingerer(
            self.intake,
            self.consumer,
            lambda: self.other_work,
            lease_seconds=lease_seconds,
            idle_seconds=idle_seconds,
            batch=batch,
            news=news,
        )
        self.due = lingerer.linger(self.layout.all, FAMILY)
        return self.due

    @contextmanager
    def lingering(self, **options: Any) -> Generator[None]:
        """While all streams are lingered on by a thread, which ends with the context."""
        thread = threading.Thread(target=self.linger, kwargs=options)
        thread.start()
        try:
            wait_until(lambda: self.lingered_on() == len(self.layout.all), "all streams are lingered on")
            yield
        finally:
            self.other_work = True
            thread.join(10)
            assert not thread.is_alive()

    def lingered_on(self) -> int:
        return sum(
            self.database.command("GET", shard.key("wakeup", FAMILY)) == b"lingering" for shard in self.layout.all
        )

    def pending(self, shard: Shard) -> WakeupState:
        """Mark a stream as a dispatcher does that was notified of it."""
        [state] = mark_pending(self.database, [(shard, FAMILY)])
        return state

    def append(self, shard: int | Shard, *tools: str) -> None:
        place = shard if isinstance(shard, Shard) else self.layout.shard(shard)
        for tool in tools:
            event = ToolInvoked(event_id=new_event_id(), session="s", evaluation="e", tool=tool)
            self.database.command("XADD", stream_of(place, FAMILY), "*", "m", encode(event))


@pytest.fixture
def bench(database: Database, layout: Layout) -> LingerBench:
    return LingerBench(database, layout)


def test_what_comes_is_applied_in_order_without_a_wakeup(bench: LingerBench, layout: Layout) -> None:
    with bench.lingering():
        for number in range(50):
            bench.append(0, f"a{number}")
            bench.append(3, f"b{number}")
            assert bench.pending(layout.shard(0)) == "lingering"
        wait_until(lambda: len(bench.recorder.tools) == 100, "all are applied")
    assert [tool for tool in bench.recorder.tools if tool[0] == "a"] == [f"a{n}" for n in range(50)]
    assert [tool for tool in bench.recorder.tools if tool[0] == "b"] == [f"b{n}" for n in range(50)]
    assert bench.due == []
    assert not any(bench.intake.lengths().values())


def test_a_wakeup_that_comes_late_takes_no_pending_marker_away(bench: LingerBench, layout: Layout) -> None:
    with bench.lingering():
        assert bench.intake.take_lease(layout.shard(0), FAMILY, 5) is None
        assert bench.pending(layout.shard(0)) == "lingering"


def test_streams_that_notifications_name_are_taken_whatever_their_team(
    bench: LingerBench, layout: Layout, settings: Settings
) -> None:
    """While it lingers, nobody has to publish a wake-up for them. What it does not serve is left to others."""
    process = Runtime(msgspec.structs.replace(settings, teams=f"{layout.team},zoo"))
    zoo, other = process.layout("zoo"), process.layout("other")
    with bench.lingering(news=NewStreams(process, FAMILY)):
        bench.append(zoo.shard(2), "a")
        bench.append(other.shard(0), "b")
        notify(
            bench.database,
            stream_of(zoo.shard(1), Family.TURNS), "tb:{zoo.99}:in:events", "tb:{nobody.0}:in:events", "zoo",
            stream_of(other.shard(0), FAMILY), stream_of(zoo.shard(2), FAMILY),
        )  # fmt: skip
        wait_until(lambda: bench.recorder.tools == ["a"], "it is applied")
        assert bench.pending(zoo.shard(2)) == "lingering"
        bench.append(zoo.shard(2), "c")
        wait_until(lambda: bench.recorder.tools == ["a", "c"], "so is what comes next")
        assert bench.pending(other.shard(0)) == bench.pending(zoo.shard(1)) == "due"
    assert bench.pending(zoo.shard(2)) == "due", "it has left"


def test_a_stream_that_was_named_while_another_consumed_it_is_taken_when_it_is_free(
    bench: LingerBench, settings: Settings
) -> None:
    process = Runtime(settings)
    zoo = process.layout("zoo").shard(2)
    lease = bench.intake.take_lease(zoo, FAMILY, 60)
    assert lease is not None
    with bench.lingering(news=NewStreams(process, FAMILY)):
        notify(bench.database, stream_of(zoo, FAMILY))
        bench.append(zoo, "a")
        bench.intake.release(lease)
        wait_until(lambda: bench.recorder.tools == ["a"], "it is applied")


def test_a_stream_that_is_quiet_makes_room_for_others(
    bench: LingerBench, layout: Layout, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is released while one that is busy is kept, and what comes into it later needs a wake-up."""
    monkeypatch.setattr(module, "MAX_STREAMS", 4)
    process = Runtime(settings)
    zoo = process.layout("zoo").shard(0)
    busy = threading.Event()

    def keep_busy() -> None:
        while not busy.wait(0.05):
            bench.append(0, "busy")

    load = threading.Thread(target=keep_busy)
    load.start()
    try:
        with bench.lingering(news=NewStreams(process, FAMILY), idle_seconds=2.0):
            wait_until(lambda: bench.lingered_on() == 1, "the quiet ones are released")
            assert bench.pending(layout.shard(0)) == "lingering"
            assert bench.pending(layout.shard(1)) == "due"
            bench.append(zoo, "a")
            notify(bench.database, stream_of(zoo, FAMILY))
            wait_until(lambda: "a" in bench.recorder.tools, "there is room for the new one")
    finally:
        busy.set()
        load.join(10)


def test_it_takes_no_more_streams_than_one_read_may_name(
    bench: LingerBench, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_STREAMS", 5)
    process = Runtime(settings)
    zoo = process.layout("zoo")
    with bench.lingering(news=NewStreams(process, FAMILY)):
        for shard in zoo.all:
            bench.append(shard, "a")
        notify(bench.database, *(stream_of(shard, FAMILY) for shard in zoo.all))
        wait_until(lambda: bench.recorder.tools == ["a"], "the first is taken")
    assert sum(bench.pending(shard) == "due" for shard in zoo.all) == 4
    assert bench.recorder.tools == ["a"]


def notify(database: Database, *names: str) -> None:
    database.pipeline([notification(name) for name in names])


def test_who_leaves_gives_streams_and_markers_back(bench: LingerBench, layout: Layout) -> None:
    with bench.lingering():
        pass
    assert bench.lingered_on() == 0
    assert bench.pending(layout.shard(1)) == "due"
    assert bench.intake.take_lease(layout.shard(1), FAMILY, 5) is not None


def test_it_ends_when_it_is_quiet(bench: LingerBench) -> None:
    assert bench.linger(idle_seconds=0.05) == []
    assert bench.lingered_on() == 0


def test_messages_that_wait_while_no_other_process_is_free_end_it(bench: LingerBench) -> None:
    """One that a process fetches which has just become free does not, nor any while another process is free."""
    checks = [(True, True), (True, False), (False, True), (True, True), (False, True), (True, True), (True, True)]
    seen = iter(checks)
    busy, waiting = False, False

    def next_check() -> bool:
        nonlocal busy, waiting
        busy, waiting = next(seen)
        return busy

    queue = QueuePressure(next_check, lambda: waiting)
    lingerer = Lingerer(bench.intake, bench.consumer, queue.needs_worker, lease_seconds=5, idle_seconds=60, batch=500)
    lingerer.linger(bench.layout.all, FAMILY)
    assert list(seen) == []


def test_the_broker_is_asked_only_while_no_other_process_is_free() -> None:
    assert not QueuePressure(lambda: False, lambda: pytest.fail("asked")).needs_worker()


def test_messages_of_the_worker_s_queues_are_seen_and_stay(tb: Tellback, settings: Settings) -> None:
    app = Celery(set_as_current=False)
    app.conf.update(config(settings))
    app.amqp.queues.select(["events", "turns"])
    assert not has_messages(app)
    app.send_task("t", queue="commands", ignore_result=True)
    assert not has_messages(app), "this worker does not read it"
    app.send_task("t", queue="turns", ignore_result=True)
    assert has_messages(app)
    assert has_messages(app)
    assert tb.context.database.command("LLEN", f"{KEY_PREFIX}turns") == 1
    app.close()


def test_a_broker_that_is_away_is_not_taken_for_empty_queues(settings: Settings) -> None:
    app = Celery(set_as_current=False)
    app.conf.update(config(msgspec.structs.replace(settings, broker_url=f"redis://127.0.0.1:{free_port()}/0")))
    with pytest.raises(NotPublished):
        has_messages(app)
    app.close()


def test_a_stream_that_another_consumes_is_left_until_it_is_free(bench: LingerBench, layout: Layout) -> None:
    other = bench.intake.take_lease(layout.shard(2), FAMILY, 60)
    assert other is not None
    thread = threading.Thread(target=bench.linger)
    thread.start()
    try:
        wait_until(lambda: bench.lingered_on() == 3, "the others are lingered on")
        bench.append(2, "later")
        bench.append(1, "first")
        wait_until(lambda: bench.recorder.tools == ["first"], "what is ours is applied")
        bench.intake.release(other)
        wait_until(lambda: bench.recorder.tools == ["first", "later"], "what was the other's is applied")
    finally:
        bench.other_work = True
        thread.join(10)


def test_what_a_dead_consumer_left_is_applied_first(bench: LingerBench, layout: Layout) -> None:
    bench.append(0, "left", "fresh")
    lease = bench.intake.take_lease(layout.shard(0), FAMILY, 60)
    assert lease is not None
    assert len(read_new(bench.intake, lease, 1)) == 1
    bench.intake.release(lease)
    with bench.lingering():
        wait_until(lambda: len(bench.recorder.tools) == 2, "both are applied")
    assert bench.recorder.tools == ["left", "fresh"]


def test_a_stream_whose_recovery_takes_long_is_given_up_before_new_entries_are_read(
    bench: LingerBench, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New entries would be applied before the rest of those that a dead consumer left."""
    bench.append(0, "left", "left too", "fresh")
    lease = bench.intake.take_lease(layout.shard(0), FAMILY, 60)
    assert lease is not None
    assert len(read_new(bench.intake, lease, 2)) == 2
    bench.intake.release(lease)
    bench.recorder.when_applied = lambda: later(monkeypatch, 2)  # of a lease of five seconds
    assert bench.linger(idle_seconds=1) == [layout.shard(0)]
    assert bench.recorder.tools == ["left"]
    bench.recorder.when_applied = lambda: None
    assert bench.linger(idle_seconds=0.1) == []
    assert bench.recorder.tools == ["left", "left too", "fresh"]


def test_a_lease_that_was_lost_costs_its_stream_only_the_rest_of_it(bench: LingerBench) -> None:
    bench.recorder.lost = "b"
    with bench.lingering():
        bench.append(0, "a", "b")
        bench.append(1, "c")
        wait_until(lambda: {"a", "b", "c"} <= set(bench.recorder.tools), "each is applied")
        wait_until(lambda: not any(bench.intake.lengths().values()), "each is acknowledged")


def test_leases_are_kept_for_as_long_as_it_stays(
    bench: LingerBench, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    extended: list[int] = []
    extend = bench.intake.renew_lingering

    def counted(leases: Sequence[Lease], seconds: float) -> list[Lease]:
        extended.append(len(leases))
        return extend(leases, seconds)

    monkeypatch.setattr(bench.intake, "renew_lingering", counted)
    with bench.lingering(lease_seconds=1.5):
        lease = layout.shard(0).key("lease", FAMILY)
        fence = bench.database.command("GET", lease)
        wait_until(lambda: len(extended) >= 8, "twice the lease has passed", timeout=30)
        assert bench.database.command("GET", lease) == fence
        assert bench.lingered_on() == 4


def test_a_backlog_is_left_to_several_processes(bench: LingerBench, layout: Layout) -> None:
    bench.append(0, *map(str, range(40)))
    bench.append(1, *map(str, range(60)))
    assert bench.linger(batch=20) == [layout.shard(0), layout.shard(1)]
    assert bench.lingered_on() == 0


def test_a_stream_that_nobody_serves_is_found_when_a_lingerer_died(bench: LingerBench, layout: Layout) -> None:
    """Its marker and lease end with it; then a visit of its team finds the stream, as it finds any other."""
    assert len(bench.intake.take_to_linger(layout.all, FAMILY, 0.2, 0)) == 4
    bench.append(0, "a")
    assert idle_streams(bench.database, layout) == []
    wait_until(lambda: idle_streams(bench.database, layout) == [(layout.shard(0), FAMILY)], "the visit finds it")


def publish(tb: Tellback, count: int) -> None:
    for _ in range(count):
        tb.context.publisher.publish(
            ToolInvoked(event_id=new_event_id(), session="s", prompt="p", evaluation="e", tool="t")
        )
        tb.flush()


def worker_lingers(tb: Tellback) -> bool:
    shard = tb.context.layout.of("s")
    return bool(tb.context.database.command("GET", shard.key("wakeup", FAMILY)) == b"lingering")


def test_a_worker_lingers_and_its_death_loses_and_repeats_nothing(
    tb: Tellback, start_workers: StartWorkers, settings_env: dict[str, str]
) -> None:
    first = start_workers(queues="events,sweeps", env=settings_env)
    publish(tb, 1)
    wait_until(lambda: worker_lingers(tb), "the worker lingers")
    publish(tb, 20)
    wait_until(lambda: calls(tb) == 21, "what came is applied")
    assert first.log().count(" received") < 10, "each entry had a wake-up of its own"
    first.kill()
    publish(tb, 20)
    start_workers(queues="events,sweeps", env=settings_env)
    wait_until(lambda: calls(tb) == 41, "the next worker continues", timeout=30)


@pytest.fixture
def settings_env() -> dict[str, str]:
    return {"TELLBACK_LINGER": "30"}


def test_a_worker_that_is_asked_to_stop_does_not_stay(
    tb: Tellback, start_workers: StartWorkers, settings_env: dict[str, str]
) -> None:
    workers = start_workers(queues="events", env=settings_env)
    publish(tb, 1)
    wait_until(lambda: worker_lingers(tb), "the worker lingers")
    process = workers.processes[0]
    process.terminate()
    assert process.wait(timeout=20) == 0
    assert not worker_lingers(tb)


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_tool_events_are_applied_in_other_pools(
    tb: Tellback, start_workers: StartWorkers, settings_env: dict[str, str], pool: str
) -> None:
    """One of several threads lingers, as one of several processes does; a worker that runs alone stays available."""
    workers = start_workers(queues="events", pool=pool, env=settings_env)
    publish(tb, 1)
    wait_until(lambda: calls(tb) == 1, "it is applied")
    if pool == "threads":
        wait_until(lambda: worker_lingers(tb), "a thread lingers")
    publish(tb, 20)
    wait_until(lambda: calls(tb) == 21, "what came is applied")
    assert worker_lingers(tb) is (pool == "threads")
    process = workers.processes[0]
    process.terminate()
    assert process.wait(timeout=20) == 0
    assert not worker_lingers(tb)


def test_a_pool_of_threads_knows_who_lingers_and_who_is_free() -> None:
    threads = PoolThreads(2)
    with ThreadPoolExecutor(1) as other:
        threads.begin_task()
        assert not threads.all_others_busy()
        assert threads.try_linger()
        assert not other.submit(threads.try_linger).result()
        other.submit(threads.begin_task).result()
        assert threads.all_others_busy()
        other.submit(threads.end_task).result()
        assert not threads.all_others_busy()
        threads.end_linger()
        assert other.submit(threads.try_linger).result()


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_other_work_of_the_worker_ends_the_linger(
    tb: Tellback, start_workers: StartWorkers, settings_env: dict[str, str], pool: str
) -> None:
    """Of two processes one runs a command for long, and the other lingers: a second command does not wait for it."""
    start_workers(queues="events,commands", pool=pool, env=settings_env)
    long = tb.submit(["sleep", "60"], session="s")
    wait_until(lambda: tb.context.database.command("ZCARD", tb.context.layout.of("s").key("running")), "it runs")
    publish(tb, 1)
    wait_until(lambda: worker_lingers(tb), "the other process lingers")
    assert tb.submit(["true"], session="s").wait(timeout=20).succeeded
    long.cancel()
    long.wait(timeout=20)


@pytest.fixture
def locks(monkeypatch: pytest.MonkeyPatch) -> Generator[PoolLocks]:
    """The locks of a pool of three processes, of which this one is the third."""
    with TemporaryFile(buffering=0) as file:
        monkeypatch.setattr(locks_module, "TemporaryFile", Mock(return_value=file))
        monkeypatch.setattr(current_process(), "index", 2, raising=False)
        pool_locks.open(SimpleNamespace(concurrency=3))
        yield pool_locks
        pool_locks.open(SimpleNamespace(concurrency=1))


def hold_a_task(index: int, pipe: Connection) -> None:
    """Run in a pool's process: begin a task, end it at the first message, and exit at the second."""
    process: Any = current_process()
    process.name, process.index = f"ForkPoolWorker-{index}", index
    pool_locks.begin_task()
    pipe.send(pool_locks.all_others_busy())
    pipe.recv()
    pool_locks.end_task()
    pipe.send("ended")
    pipe.recv()


@contextmanager
def process_with_a_task(index: int) -> Generator[Connection]:
    """Start a process of the pool that holds a task; kill it when the block ends."""
    ours, theirs = Pipe()
    process: Any = Process(target=hold_a_task, args=(index, theirs), daemon=True)
    process.start()
    try:
        assert ours.recv() is False, "as that process sees it, this one is free"
        yield ours
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.join(20)


def test_a_process_of_the_pool_knows_which_others_run_a_task(locks: PoolLocks) -> None:
    assert not locks.all_others_busy()
    with process_with_a_task(0):
        assert not locks.all_others_busy()
        with process_with_a_task(1) as pipe:
            assert locks.all_others_busy()
            pipe.send("end your task")
            assert pipe.recv() == "ended"
            assert not locks.all_others_busy()


def test_a_process_that_died_in_its_task_is_not_busy(locks: PoolLocks) -> None:
    """The kernel releases its lock."""
    with process_with_a_task(0):
        with process_with_a_task(1):
            assert locks.all_others_busy()
        assert not locks.all_others_busy()


def test_a_worker_of_one_process_does_not_linger(
    tb: Tellback, start_workers: StartWorkers, settings_env: dict[str, str], database: Database
) -> None:
    workers = start_workers(queues="events", env=settings_env, concurrency=1)
    publish(tb, 3)
    wait_until(lambda: calls(tb) == 3, "they are applied")
    wait_until(lambda: database.command("LLEN", f"{KEY_PREFIX}events") == 0, "no wake-up is left")
    wait_until(lambda: workers.log().count("succeeded") == workers.log().count("received"), "no task continues")
    assert not worker_lingers(tb)


def test_more_streams_than_one_reads_are_left_to_others(bench: LingerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STREAMS", 2)
    bench.append(0, "a")
    bench.append(3, "b")
    bench.linger(idle_seconds=0.05)
    assert bench.recorder.tools == ["a"]
