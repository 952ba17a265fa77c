"""Workers of each pool that linger: which process stays, when it leaves, and what a death costs."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from tempfile import TemporaryFile
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from billiard import Pipe, Process
from billiard.connection import Connection
from billiard.process import current_process
from celery import Celery

from tellback import Tellback
from tellback.broker import KEY_PREFIX
from tellback.names import Family
from tellback.state.database import Database
from tellback_workers import pool_locks as locks_module
from tellback_workers.linger import QueuePressure
from tellback_workers.pool_locks import PoolLocks, PoolThreads, pool_locks
from tellback_workers.wakeups import NotPublished, has_messages
from tests.support.tool_calls import calls, publish
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers


def test_the_broker_is_asked_only_while_no_other_process_is_free() -> None:
    assert not QueuePressure(lambda: False, lambda: pytest.fail("asked")).needs_worker()


def test_messages_of_the_worker_s_queues_are_seen_and_stay(tb: Tellback, app: Celery) -> None:
    app.amqp.queues.select(["events", "turns"])
    assert not has_messages()
    app.send_task("t", queue="commands", ignore_result=True)
    assert not has_messages(), "this worker does not read it"
    app.send_task("t", queue="turns", ignore_result=True)
    assert has_messages()
    assert has_messages()
    assert tb.context.database.command("LLEN", f"{KEY_PREFIX}turns") == 1


@pytest.mark.usefixtures("broker_away")
def test_a_broker_that_is_away_is_not_taken_for_empty_queues() -> None:
    with pytest.raises(NotPublished):
        has_messages()


def worker_lingers(tb: Tellback) -> bool:
    shard = tb.context.layout.of("s")
    return bool(tb.context.database.command("GET", shard.key("wakeup", Family.EVENTS)) == b"lingering")


def test_a_worker_lingers_and_its_death_loses_and_repeats_nothing(
    tb: Tellback, start_workers: StartWorkers, settings_env: dict[str, str]
) -> None:
    first = start_workers(queues="events,sweeps", env=settings_env)
    publish(tb, 1)
    wait_until(lambda: worker_lingers(tb), "the worker lingers")
    for _ in range(20):
        publish(tb, 1)
    wait_until(lambda: calls(tb) == 21, "what came is applied")
    assert first.log().count(" received") < 10, "each entry had a wake-up of its own"
    first.kill()
    for _ in range(20):
        publish(tb, 1)
    start_workers(queues="events,sweeps", env=settings_env)
    wait_until(lambda: calls(tb) == 41, "the next worker continues")


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
    assert process.wait(timeout=60) == 0
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
    for _ in range(20):
        publish(tb, 1)
    wait_until(lambda: calls(tb) == 21, "what came is applied")
    assert worker_lingers(tb) is (pool == "threads")
    process = workers.processes[0]
    process.terminate()
    assert process.wait(timeout=60) == 0
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
    assert tb.submit(["true"], session="s").wait(timeout=60).succeeded
    long.cancel()
    long.wait(timeout=60)


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
        process.join(60)


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
    for _ in range(3):
        publish(tb, 1)
    wait_until(lambda: calls(tb) == 3, "they are applied")
    wait_until(lambda: database.command("LLEN", f"{KEY_PREFIX}events") == 0, "no wake-up is left")
    wait_until(lambda: workers.log().count("succeeded") == workers.log().count("received"), "no task continues")
    assert not worker_lingers(tb)
