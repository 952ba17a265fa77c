"""Signals whose queries a cache has, published by one host and applied, against B's tasks a second."""

from __future__ import annotations

from benchmarks.bare import Bare
from benchmarks.measure import RowResult, Work, spread
from benchmarks.peers.celery_signals import Peer
from benchmarks.signals import apply, queries, signals, start_worker
from benchmarks.system import BenchmarkSystem
from tellback import connect

RUNS = 3
QUERIES = 400
FACTS = 50
TASKS = 1_500


def measure(system: BenchmarkSystem) -> RowResult:
    bare, peer = Bare(system), Peer(system)
    start_worker(system)
    asked = queries(QUERIES)
    ours: list[Work] = []
    theirs: list[Work] = []
    peers: list[Work] = []
    with connect(settings=system.settings) as tb:
        apply(tb, signals(asked, 1))
        peer.run(signals(asked, 1))
        bare.run(TASKS // 4)
        for _ in range(RUNS):
            theirs.append(bare.run(TASKS))
            ours.append(apply(tb, signals(asked, FACTS)))
            peers.append(peer.run(signals(asked, 3)))
    return RowResult(
        name="signals_known",
        what="signals with known queries, published and applied exactly once, against a bare Celery task's rate",
        ratios=[our.rate / their.rate for our, their in zip(ours, theirs, strict=True)],
        budget=75,
        sense="at least",
        details=[
            f"a second: signals {spread([w.rate for w in ours])};  bare tasks {spread([w.rate for w in theirs])}",
            f"a second as Celery tasks, one a signal, published before: {spread([w.rate for w in peers])}",
            f"processor time of a signal, published and applied: {spread([w.cpu_us for w in ours])} µs",
            f"processor time of a signal as a task: {spread([w.cpu_us for w in peers])} µs",
        ],
    )
