"""The peer B: a bare Celery task that does one INCR, one message an event; and one that runs a command before it."""

from __future__ import annotations

import subprocess
import time
from functools import cache
from typing import Any, cast

import redis
from celery import Celery

from benchmarks.arrivals import arrivals
from benchmarks.measure import Work
from benchmarks.system import BenchmarkSystem, cpu_seconds, wait
from tellback.settings import load

QUEUE = "bare"
COUNTER = "bare:count"
TIMES = "bare:times"

app = Celery("bare", broker=load().redis_url)
app.conf.update(
    task_ignore_result=True,
    task_serializer="json",
    accept_content=["json"],
    task_default_queue=QUEUE,
    broker_transport_options={"global_keyprefix": "bare:"},
    broker_connection_retry_on_startup=True,
)


@cache
def _client() -> redis.Redis:
    connect = cast("Any", redis.Redis).from_url  # its kwargs are untyped
    client: redis.Redis = connect(load().redis_url)
    return client


@app.task(name="bare.count")
def count() -> None:
    _client().incr(COUNTER)


@app.task(name="bare.command")
def command() -> None:
    subprocess.run(["true"], stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
    _client().incr(COUNTER)


@app.task(name="bare.timed")
def timed(published: int | None = None) -> None:
    _client().incr(COUNTER)
    if published is not None:
        _client().rpush(TIMES, time.time_ns() - published)


class Bare:
    """B's work, at its best: what is measured is the work alone, all messages lie in the queue before."""

    def __init__(self, system: BenchmarkSystem, task: Any = count) -> None:
        self._db = system.database
        self._task = task
        app.conf.update(broker_url=system.settings.redis_url)
        system.worker("benchmarks.bare", QUEUE)

    def run(self, tasks: int) -> Work:
        app.control.cancel_consumer(QUEUE, reply=True, timeout=5)
        self._db.command("DEL", COUNTER)
        with app.producer_pool.acquire(block=True) as producer:
            for _ in range(tasks):
                self._task.apply_async(producer=producer)
        app.control.add_consumer(QUEUE)
        early = tasks // 10
        wait(lambda: self._done() >= early, 60)
        begun, start, cpu = self._done(), time.perf_counter(), cpu_seconds()
        wait(lambda: self._done() >= tasks, 120)
        amount, seconds = tasks - begun, time.perf_counter() - start
        return Work(amount / seconds, (cpu_seconds() - cpu) / amount * 1e6)

    def latencies(self, rate: float, tasks: int, seed: int) -> list[float]:
        """Seconds from when each task was due to be published until its INCR is done; arrival is open-loop."""
        self._db.command("DEL", TIMES)
        with app.producer_pool.acquire(block=True) as producer:
            for due in arrivals(rate, tasks, seed):
                self._task.apply_async((due,), producer=producer)
        wait(lambda: int(self._db.command("LLEN", TIMES)) >= tasks, 60)
        return [int(time) / 1e9 for time in self._db.command("LRANGE", TIMES, 0, -1)]

    def _done(self) -> int:
        return int(self._db.command("GET", COUNTER) or 0)
