"""Events with more worker processes, and with more nodes of a Redis Cluster."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from benchmarks.capacity.figures import Growth, Unit, measure_load
from benchmarks.capacity.loads import LOADS
from benchmarks.system import BenchmarkSystem, system
from tellback.state.database import Database
from tests.support.redis_cluster import RedisCluster

PROCESSES = (1, 2, 4, 8)
NODES = (1, 2, 3)
SHARDS = 16
"""Streams: one process at a time consumes each, so that there are more of them than processes."""


def measured_unit(job: tuple[int, int]) -> Unit:
    """Return the figures of one load, by its place, with so many runs."""
    place, runs = job
    with system() as fresh:
        return measure_load(LOADS[place], fresh, runs=runs)


def measured_processes(job: tuple[int, int]) -> Growth:
    """Return events with a number of worker processes."""
    count, runs = job
    with system() as fresh:
        unit = measure_load(LOADS[0], _with_shards(fresh), processes=count, runs=runs)
    return _growth("worker processes", count, unit)


def measured_nodes(job: tuple[int, int]) -> Growth:
    """Return events with the state on a number of nodes, and the broker on a Redis of its own, with two processes."""
    count, runs = job
    with _clustered(count) as fresh:
        unit = measure_load(LOADS[0], fresh, processes=2, runs=runs)
    return _growth("Redis nodes", count, unit)


def _with_shards(fresh: BenchmarkSystem) -> BenchmarkSystem:
    return replace(fresh, settings=msgspec.structs.replace(fresh.settings, shards=SHARDS))


@contextmanager
def _clustered(primaries: int) -> Generator[BenchmarkSystem]:
    with (
        system() as broker,
        TemporaryDirectory(prefix="tellback-bench-") as name,
        RedisCluster(Path(name), primaries=primaries) as cluster,
    ):
        database = Database(cluster.nodes[0].url)
        url = broker.settings.redis_url
        os.environ["TELLBACK_BROKER_URL"] = url  # of the worker; this process is for one measurement
        settings = msgspec.structs.replace(broker.settings, redis_url=cluster.url, broker_url=url, shards=SHARDS)
        try:
            yield replace(broker, settings=settings, database=database)
        finally:
            database.close()
            broker.stack.close()  # the worker, before its cluster


def _growth(of: str, count: int, unit: Unit) -> Growth:
    return Growth(of=of, count=count, rate=unit.rate, worker_us=unit.worker_us, redis_us=unit.redis_us)
