"""Standing by: a process that stays with drained streams, against a real Redis and in real workers."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import count

import pytest
from celery import Celery

from tellback import Tellback
from tellback.broker import KEY_PREFIX
from tellback.contracts.codec import encode
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.dead import DeadLetters
from tellback.state.evaluations import EvaluationId, Evaluations
from tellback.state.intake import Entry, Intake, Lease, committed
from tellback.state.keys import Layout, Shard, stream_of
from tellback.state.script import Script
from tellback_workers import standby as module
from tellback_workers.config import config
from tellback_workers.drain import Drainer
from tellback_workers.standby import LOOKS, Queue, Standby
from tellback_workers.wakeups import next_in_line
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

FAMILY = Family.EVENTS


class _Settle(Script):
    """The smallest commit: nothing but the acknowledgement."""

    @cached_property
    def source(self) -> str:
        return Script("lib/intake").source + "if fenced() then return 'fenced' end settle() return 'ok'"


SETTLE = _Settle("settle")


class Recorder:
    """Acknowledges what it is given, in the order in which it came."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.tools: list[str] = []
        self.lost: str | None = None

    def ready(self) -> None:
        """Always."""

    def apply(self, lease: Lease, entries: Sequence[Entry]) -> None:
        for entry in entries:
            assert isinstance(entry.message, ToolInvoked)
            if entry.message.tool == self.lost:
                self.lost = None
                self.database.command("DEL", lease.key)  # it ran out, as for a process that was stopped for long
            self.tools.append(entry.message.tool)
        committed(self.database.run(SETTLE.call(lease.keys, lease.args(entries))))


class Bench:
    """A standby in a thread, told from outside when it is needed elsewhere."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self.database = database
        self.layout = layout
        self.intake = Intake(database, layout)
        self.intake.ensure_groups()
        self.recorder = Recorder(database)
        self.drainer = Drainer(self.intake, DeadLetters(database, layout), self.recorder, lease_seconds=5, batch=500)
        self.needed = False
        self.due: list[Shard] | None = None

    def attend(self, *, quiet: float = 60, batch: int = 500, lease_seconds: float = 5) -> list[Shard]:
        standby = Standby(
            self.intake, self.drainer, lambda: self.needed, lease_seconds=lease_seconds, quiet=quiet, batch=batch
        )
        self.due = standby.attend(self.layout.all, FAMILY)
        return self.due

    @contextmanager
    def attending(self, **options: float) -> Generator[None]:
        """While all streams are attended to by a thread, which ends with the context."""
        thread = threading.Thread(target=self.attend, kwargs=options)
        thread.start()
        try:
            wait_until(lambda: self.attended() == len(self.layout.all), "all streams are attended to")
            yield
        finally:
            self.needed = True
            thread.join(10)
            assert not thread.is_alive()

    def attended(self) -> int:
        return sum(self.database.command("GET", shard.key("ring", FAMILY)) == b"attended" for shard in self.layout.all)

    def append(self, shard: int, *tools: str) -> None:
        for tool in tools:
            event = ToolInvoked(event_id=new_event_id(), session="s", evaluation="e", tool=tool)
            self.database.command("XADD", stream_of(self.layout.shard(shard), FAMILY), "*", "m", encode(event))


@pytest.fixture
def bench(database: Database, layout: Layout) -> Bench:
    return Bench(database, layout)


def test_what_comes_is_applied_in_order_without_a_wakeup(bench: Bench, layout: Layout) -> None:
    with bench.attending():
        for number in range(50):
            bench.append(0, f"a{number}")
            bench.append(3, f"b{number}")
            assert bench.intake.ring(layout.shard(0), FAMILY) == "attended"
        wait_until(lambda: len(bench.recorder.tools) == 100, "all are applied")
    assert [tool for tool in bench.recorder.tools if tool[0] == "a"] == [f"a{n}" for n in range(50)]
    assert [tool for tool in bench.recorder.tools if tool[0] == "b"] == [f"b{n}" for n in range(50)]
    assert bench.due == []
    assert not any(bench.intake.lengths().values())


def test_a_wakeup_that_comes_late_takes_no_token_away(bench: Bench, layout: Layout) -> None:
    with bench.attending():
        assert bench.intake.take_lease(layout.shard(0), FAMILY, 5) is None
        assert bench.intake.ring(layout.shard(0), FAMILY) == "attended"


def test_who_leaves_gives_streams_and_tokens_back(bench: Bench, layout: Layout) -> None:
    with bench.attending():
        pass
    assert bench.attended() == 0
    assert bench.intake.ring(layout.shard(1), FAMILY) == "due"
    assert bench.intake.take_lease(layout.shard(1), FAMILY, 5) is not None


def test_it_ends_when_it_is_quiet(bench: Bench) -> None:
    assert bench.attend(quiet=0.05) == []
    assert bench.attended() == 0


def test_a_message_that_is_on_its_way_ends_nothing_and_one_that_stays_does(bench: Bench) -> None:
    """Of those that follow each other some other process takes one after the other."""
    left = [{b"1"}, {b"2"}, {b"3", b"x"}, set[bytes](), {b"x"}, {b"4"}, {b"5"}, {b"6", b"5"}]
    queue = Queue(lambda: frozenset(left.pop(0)))
    standby = Standby(bench.intake, bench.drainer, queue.needs_more, lease_seconds=5, quiet=60, batch=500)
    standby.attend(bench.layout.all, FAMILY)
    assert left == []


def test_where_others_never_come_to_the_end_of_the_queue_one_more_is_needed() -> None:
    numbers = count()
    queue = Queue(lambda: frozenset([b"%d" % next(numbers)]))
    assert [queue.needs_more() for _ in range(LOOKS)] == [*[False] * (LOOKS - 1), True]


def test_what_is_next_in_each_queue_is_read_and_stays(tb: Tellback, settings: Settings) -> None:
    app = Celery(set_as_current=False)
    app.conf.update(config(settings))
    app.amqp.queues.select(["events", "turns"])
    assert next_in_line(app) == frozenset()
    for number in range(2):
        app.send_task("t", (number,), queue="events", ignore_result=True)
    app.send_task("t", queue="commands", ignore_result=True)
    (first,) = next_in_line(app)
    assert next_in_line(app) == {first}
    assert tb.context.database.command("RPOP", f"{KEY_PREFIX}events") == first
    (second,) = next_in_line(app)
    assert second != first
    app.close()


def test_a_stream_that_another_drains_is_left_until_it_is_free(bench: Bench, layout: Layout) -> None:
    other = bench.intake.take_lease(layout.shard(2), FAMILY, 60)
    assert other is not None
    thread = threading.Thread(target=bench.attend)
    thread.start()
    try:
        wait_until(lambda: bench.attended() == 3, "the others are attended to")
        bench.append(2, "later")
        bench.append(1, "first")
        wait_until(lambda: bench.recorder.tools == ["first"], "what is ours is applied")
        bench.intake.release(other)
        wait_until(lambda: bench.recorder.tools == ["first", "later"], "what was the other's is applied")
    finally:
        bench.needed = True
        thread.join(10)


def test_what_a_dead_drainer_left_is_applied_first(bench: Bench, layout: Layout) -> None:
    bench.append(0, "left", "fresh")
    lease = bench.intake.take_lease(layout.shard(0), FAMILY, 60)
    assert lease is not None
    assert len(bench.intake.read_new(lease, 1)) == 1
    bench.intake.release(lease)
    with bench.attending():
        wait_until(lambda: len(bench.recorder.tools) == 2, "both are applied")
    assert bench.recorder.tools == ["left", "fresh"]


def test_a_lease_that_was_lost_costs_its_stream_only_for_the_moment(bench: Bench) -> None:
    bench.recorder.lost = "b"
    with bench.attending():
        bench.append(0, "a", "b")
        bench.append(1, "c")
        wait_until(lambda: {"a", "b", "c"} <= set(bench.recorder.tools), "each is applied")
        wait_until(lambda: not any(bench.intake.lengths().values()), "each is acknowledged")


def test_leases_are_kept_for_as_long_as_it_stays(bench: Bench, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    extended: list[int] = []
    extend = bench.intake.extend

    def counted(leases: Sequence[Lease], seconds: float) -> list[Lease]:
        extended.append(len(leases))
        return extend(leases, seconds)

    monkeypatch.setattr(bench.intake, "extend", counted)
    with bench.attending(lease_seconds=0.5):
        lease = layout.shard(0).key("lease", FAMILY)
        fence = bench.database.command("GET", lease)
        wait_until(lambda: len(extended) >= 8, "twice the lease has passed")
        assert bench.database.command("GET", lease) == fence
        assert bench.attended() == 4


def test_a_backlog_is_left_to_several_processes(bench: Bench, layout: Layout) -> None:
    bench.append(0, *map(str, range(40)))
    bench.append(1, *map(str, range(60)))
    assert bench.attend(batch=20) == [layout.shard(0), layout.shard(1)]
    assert bench.attended() == 0


def test_a_stream_that_nobody_serves_is_found_when_a_standby_died(bench: Bench, layout: Layout) -> None:
    """Its token and lease end with it; then the rounds find the stream, as they find any other."""
    assert len(bench.intake.attend(layout.all, FAMILY, 0.2)) == 4
    bench.append(0, "a")
    assert bench.intake.idle() == []
    wait_until(lambda: bench.intake.idle() == [(layout.shard(0), FAMILY)], "the round finds it")


def publish(tb: Tellback, count: int) -> None:
    for _ in range(count):
        tb.context.publisher.publish(
            ToolInvoked(event_id=new_event_id(), session="s", prompt="p", evaluation="e", tool="t")
        )
        tb.flush()


def calls(tb: Tellback) -> int:
    return Evaluations(tb.context.database, tb.context.layout.of("s")).counts(EvaluationId("s", "p", "e")).calls


def attended_by_worker(tb: Tellback) -> bool:
    shard = tb.context.layout.of("s")
    return bool(tb.context.database.command("GET", shard.key("ring", FAMILY)) == b"attended")


def test_a_worker_stands_by_and_its_death_loses_and_repeats_nothing(
    tb: Tellback, start_workers: StartWorkers, settings_env: dict[str, str]
) -> None:
    first = start_workers(queues="events,sweeps", env=settings_env)
    publish(tb, 1)
    wait_until(lambda: attended_by_worker(tb), "the worker stands by")
    publish(tb, 20)
    wait_until(lambda: calls(tb) == 21, "what came is applied")
    assert first.log().count(" received") < 10, "each entry had a wake-up of its own"
    first.kill()
    publish(tb, 20)
    start_workers(queues="events,sweeps", env=settings_env)
    wait_until(lambda: calls(tb) == 41, "the next worker goes on", timeout=30)


@pytest.fixture
def settings_env() -> dict[str, str]:
    return {"TELLBACK_STANDBY": "30"}


def test_a_worker_that_is_told_to_stop_does_not_stay(
    tb: Tellback, start_workers: StartWorkers, settings_env: dict[str, str]
) -> None:
    workers = start_workers(queues="events", env=settings_env)
    publish(tb, 1)
    wait_until(lambda: attended_by_worker(tb), "the worker stands by")
    process = workers.processes[0]
    process.terminate()
    assert process.wait(timeout=20) == 0
    assert not attended_by_worker(tb)


def test_other_work_of_the_worker_takes_the_process_that_stands_by(
    tb: Tellback, start_workers: StartWorkers, settings_env: dict[str, str]
) -> None:
    """Of two processes one runs a command for long, and the other stands by: a second command does not wait for it."""
    start_workers(queues="events,commands", env=settings_env)
    long = tb.submit(["sleep", "60"], session="s")
    wait_until(lambda: tb.context.database.command("ZCARD", tb.context.layout.of("s").key("running")), "it runs")
    publish(tb, 1)
    wait_until(lambda: attended_by_worker(tb), "the other process stands by")
    assert tb.submit(["true"], session="s").wait(timeout=20).succeeded
    long.cancel()
    long.wait(timeout=20)


def test_a_worker_of_one_process_does_not_stand_by(
    tb: Tellback, start_workers: StartWorkers, settings_env: dict[str, str], database: Database
) -> None:
    workers = start_workers(queues="events", env=settings_env, concurrency=1)
    publish(tb, 3)
    wait_until(lambda: calls(tb) == 3, "they are applied")
    wait_until(lambda: database.command("LLEN", f"{KEY_PREFIX}events") == 0, "no wake-up is left")
    wait_until(lambda: workers.log().count("succeeded") == workers.log().count("received"), "no task goes on")
    assert not attended_by_worker(tb)


def test_more_streams_than_one_reads_are_left_to_others(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STREAMS", 2)
    bench.append(0, "a")
    bench.append(3, "b")
    bench.attend(quiet=0.05)
    assert bench.recorder.tools == ["a"]
