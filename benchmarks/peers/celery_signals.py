"""Signals as a plain Celery task: one signal a message, embedded, matched and scored by itself.

It does less than Tellback: no order, histories, statistics or caps, no batches, and what is delivered twice counts
twice. It remembers embeddings in its process, and takes a lock of Redis where it may begin a cluster.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import numpy as np
import redis
from celery import Celery

from benchmarks.measure import Work
from benchmarks.signals import encode
from benchmarks.system import BenchmarkSystem, cpu_seconds
from tellback.settings import load

QUEUE = "peer-signals"
COUNTER = "peer:count"
THRESHOLD = 0.81
STEPS = {"used": 0.1, "ignored": -0.05, "helpful": 0.15, "not_helpful": -0.1}
# KEYS: hashes of the global and of the cluster's scores. ARGV: fact, change, now in ms.
SCORE = """
for _, key in ipairs(KEYS) do
  local score, at = 0.5, tonumber(ARGV[3])
  local kept = redis.call('HGET', key, ARGV[1])
  if kept then score, at = string.match(kept, '(.*) (.*)') end
  local faded = 0.5 + (score - 0.5) * 0.95 ^ math.max(0, (ARGV[3] - at) / 604800000)
  redis.call('HSET', key, ARGV[1], math.max(0, math.min(1, faded + ARGV[2])) .. ' ' .. ARGV[3])
end
return redis.call('INCR', 'peer:count')
"""

app = Celery("peer", broker=load().redis_url)
app.conf.update(
    task_ignore_result=True,
    task_serializer="json",
    accept_content=["json"],
    task_default_queue=QUEUE,
    broker_transport_options={"global_keyprefix": "peer:"},
    broker_connection_retry_on_startup=True,
)
_guard = threading.Lock()
_model = threading.Lock()
_vectors: dict[str, Any] = {}
_clusters: dict[str, Any] = {}


@cache
def _client() -> Any:
    connect = cast("Any", redis.Redis).from_url  # its kwargs are untyped
    return connect(load().redis_url)


@app.task(name="peer.signal")
def signal(bank: str, fact: str, kind: str, query: str) -> None:
    vector = _vectors.get(query)
    if vector is None:
        with _model:
            [vector] = encode([query], 1)
        _vectors[query] = vector
    slot = _match(bank, vector)
    _client().eval(SCORE, 2, f"{bank}:facts", f"{bank}:ctx:{slot}", fact, STEPS[kind], time.time_ns() // 1_000_000)


def _match(bank: str, vector: Any) -> int:
    slot = _best(bank, vector)
    if slot is not None:
        return slot
    with _client().lock(f"{bank}:lock", timeout=30):
        slot = _best(bank, vector)
        return int(_client().rpush(f"{bank}:clusters", vector.tobytes())) - 1 if slot is None else slot


def _best(bank: str, vector: Any) -> int | None:
    with _guard:
        known = _clusters.get(bank, np.empty((0, len(vector)), np.float32))
        new = _client().lrange(f"{bank}:clusters", len(known), -1)
        if new:
            known = _clusters[bank] = np.vstack([known, *(np.frombuffer(raw, np.float32) for raw in new)])
    if not len(known):
        return None
    cosines = known @ vector
    best = int(cosines.argmax())
    return best if cosines[best] >= THRESHOLD else None


class Peer:
    """The task at work; all messages lie in the queue before, as with B."""

    def __init__(self, system: BenchmarkSystem) -> None:
        self._db = system.database
        app.conf.update(broker_url=system.settings.redis_url)
        system.worker("benchmarks.peers.celery_signals", QUEUE, "--pool=threads", "--concurrency=4")

    def run(self, signals: Sequence[tuple[str, str, str, str]]) -> Work:
        app.control.cancel_consumer(QUEUE, reply=True, timeout=5)
        self._db.command("DEL", COUNTER)
        with app.producer_pool.acquire(block=True) as producer:
            for arguments in signals:
                signal.apply_async(arguments, producer=producer)
        start, cpu = time.perf_counter(), cpu_seconds()
        app.control.add_consumer(QUEUE)
        while int(self._db.command("GET", COUNTER) or 0) < len(signals):
            time.sleep(0.02)
        return Work(len(signals) / (time.perf_counter() - start), (cpu_seconds() - cpu) / len(signals) * 1e6)
