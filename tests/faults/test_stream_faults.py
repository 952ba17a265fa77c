"""A stream of events while workers and Redis die: every event is counted, none twice."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tellback import Settings, Tellback, connect
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tellback.state.intake import Intake
from tests.support.publishing import Publishing
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until
from tests.support.workers import Workers

pytestmark = [pytest.mark.faults, pytest.mark.slow]

SESSIONS = 6
IDS = [EvaluationId(f"s{number}", "p", "e") for number in range(SESSIONS)]


class Stream(Publishing):
    """Publishes events at a steady pace on a thread, one in twenty of them twice, and knows what it published."""

    def __init__(self, tb: Tellback) -> None:
        super().__init__(tb)
        self.published = dict.fromkeys(IDS, 0)

    @property
    def total(self) -> int:
        return sum(self.published.values())

    def applied(self) -> dict[EvaluationId, int]:
        context = self.tb.context
        return {id_: Evaluations(context.database, context.layout.of(id_.session)).counts(id_).calls for id_ in IDS}

    def wait_for_progress(self) -> None:
        """Return when events were applied since the call."""
        before = sum(self.applied().values())
        wait_until(lambda: sum(self.applied().values()) > before, "events are applied")

    def publish(self) -> None:
        publisher = self.tb.context.publisher
        for id_ in IDS:
            event = ToolInvoked(
                event_id=new_event_id(), session=id_.session, prompt=id_.prompt, evaluation=id_.evaluation, tool="t"
            )
            publisher.publish(event)
            self.published[id_] += 1
            if self.published[id_] % 20 == 0:
                publisher.publish(event)


def assert_each_counted_once(stream: Stream, tb: Tellback) -> None:
    intake = Intake(tb.context.database, tb.context.layout)
    wait_until(lambda: not any(intake.lengths().values()), "the intake is empty")
    assert stream.applied() == stream.published
    assert tb.dead.count() == 0


@pytest.fixture
def settings(redis_server: RedisServer, tmp_path: Path) -> Settings:
    """Short leases, so that fifty deaths fit into a test."""
    return Settings(redis_url=redis_server.url, data_dir=str(tmp_path / "data"), consumer_lease=1.0, beat_period=0.5)


@pytest.fixture
def workers(_emptied: None, settings: Settings, tmp_path: Path) -> Iterator[Workers]:
    workers = Workers(settings, tmp_path, queues="events,sweeps", concurrency=1)
    yield workers
    workers.stop()


def kill_tree(workers: Workers, index: int) -> None:
    workers.kill(index)
    workers.launch()


def kill_pool_child(workers: Workers, index: int) -> None:
    for child in workers.children(index):
        child.kill()


def kill_main(workers: Workers, index: int) -> None:
    """The main process alone: its pool finds out by itself."""
    orphans = workers.children(index)
    workers.processes[index].kill()
    workers.processes.pop(index).wait()
    workers.launch()
    _, left = psutil.wait_procs(orphans, timeout=30)
    for orphan in left:
        orphan.send_signal(signal.SIGABRT)  # it prints where it is
    psutil.wait_procs(left, timeout=10)
    assert not left, f"{left} outlived their worker: {workers.log()[-8_000:]}"


@pytest.mark.timeout(420)
def test_fifty_deaths_of_workers_lose_no_event_and_count_none_twice(tb: Tellback, workers: Workers) -> None:
    """Each death comes at a random moment after the stream was seen to move since the one before."""
    chance = random.Random(20)
    workers.start(3)
    with Stream(tb) as stream:
        for _ in range(50):
            stream.wait_for_progress()
            time.sleep(chance.uniform(0, 0.2))
            kill: Callable[[Workers, int], None] = chance.choice([kill_tree, kill_pool_child, kill_main])
            kill(workers, chance.randrange(len(workers.processes)))
        wait_until(lambda: stream.total > 1_000, "much is published")
    assert_each_counted_once(stream, tb)


@pytest.mark.timeout(180)
def test_a_consumer_that_slept_past_its_lease_is_fenced_off(tb: Tellback, workers: Workers) -> None:
    """Ten times a pool process is stopped for longer than its lease, others take over, then it wakes up."""
    chance = random.Random(10)
    workers.start(2)
    with Stream(tb) as stream:
        for round_ in range(10):
            stream.wait_for_progress()
            (child,) = workers.children(round_ % 2)
            time.sleep(chance.uniform(0, 0.1))
            child.suspend()
            time.sleep(1.3)
            child.resume()
    assert_each_counted_once(stream, tb)


@pytest.mark.timeout(240)
def test_redis_killed_and_restarted_in_a_stream_of_events_loses_none(tmp_path: Path) -> None:
    with RedisServer.start(tmp_path) as server:
        settings = Settings(redis_url=server.url, data_dir=str(tmp_path / "data"), consumer_lease=1.0, beat_period=0.5)
        workers = Workers(settings, tmp_path, queues="events,sweeps", concurrency=1)
        try:
            workers.start(2)
            with connect(settings=settings) as tb:
                with Stream(tb) as stream:
                    for _ in range(5):
                        stream.wait_for_progress()
                        server.kill()
                        time.sleep(1.5)
                        server.launch()
                assert_each_counted_once(stream, tb)
        finally:
            workers.stop()
