"""Signals with distinct queries, against the bare model at its best batch size with the same texts."""

from __future__ import annotations

import time

from benchmarks.measure import RowResult, Work, spread
from benchmarks.peers.celery_signals import Peer
from benchmarks.signals import apply, encode, queries, signals, start_worker
from benchmarks.system import BenchmarkSystem, cpu_seconds
from tellback import connect

RUNS = 5  # pairs side by side: on a busy machine one side alone would be hit
TEXTS = 1_000
BATCHES = (32, 64, 128, 256)
TASKS = 24


def measure(system: BenchmarkSystem) -> RowResult:
    trial = queries(256)
    encode(trial, BATCHES[0])
    batch = max(BATCHES, key=lambda size: max(_raw(trial, size).rate for _ in range(2)))
    peer = Peer(system)
    start_worker(system)
    ours: list[Work] = []
    raw: list[Work] = []
    peers: list[Work] = []
    with connect(settings=system.settings) as tb:
        apply(tb, signals(queries(64), 1))
        peer.run(signals(queries(8), 1))
        for _ in range(RUNS):
            texts = queries(TEXTS)
            raw.append(_raw(texts, batch))
            ours.append(apply(tb, signals(texts, 1)))
            peers.append(peer.run(signals(queries(TASKS), 1)))
    return RowResult(
        name="signals_distinct",
        what="signals with distinct queries, published and applied, against bare SentenceTransformer.encode",
        ratios=[our.rate / bare.rate for our, bare in zip(ours, raw, strict=True)],
        budget=1.0,
        sense="at least",
        details=[
            f"a second: signals {spread([w.rate for w in ours])}",
            f"a second: bare texts, {batch} at once {spread([w.rate for w in raw])}",
            f"processor time of a signal, published and applied: {spread([w.cpu_us for w in ours])} µs",
            f"processor time of a bare text: {spread([w.cpu_us for w in raw])} µs",
            f"a second as Celery tasks, one a signal, published before: {spread([w.rate for w in peers])}",
        ],
    )


def _raw(texts: list[str], batch: int) -> Work:
    start, cpu = time.perf_counter(), cpu_seconds()
    encode(texts, batch)
    seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu
    return Work(len(texts) / seconds, cpu / len(texts) * 1e6)
