"""`python -m benchmarks.clusters [CLUSTERS ...]`: a bank's clusters, whole product, index, and the indexes of others.

Clusters are mixtures of real sentences' embeddings, and the queries others of them: of both alike, so that most queries
have matches. usearch is measured where it is installed, vector sets where the server has them, up to 20,000 clusters:
it takes some minutes for more. How long a bank takes from Redis, and what a process grows by, is measured in a fresh
one for each size. Beside each time stands its ratio to the bare product of the same vectors, called just before: on a
machine that does other work ratios say more than times.
"""

from __future__ import annotations

import csv
import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

from tellback.embedding.clusters import BankClusters
from tellback.embedding.encoder import SentenceEncoder
from tellback.signals import matching
from tellback.signals.matching import ClusterMatch, ClusterMatrix, Vectors, as_bytes
from tellback.state.banks import BankStore
from tellback.state.database import Database
from tellback.state.team import open_layout
from tests.support.redis_server import RedisServer

THRESHOLD = 0.81
LOAD = "--load"
TEAM, SHARDS, BANK = "default", 4, "b"


def real() -> Vectors:
    folder = os.environ.get("TELLBACK_TEST_DATA")
    if folder is None:
        sys.exit("benchmarks.clusters: set TELLBACK_TEST_DATA to a folder with the STS benchmark's stsb_pairs.csv")
    with (Path(folder) / "stsb_pairs.csv").open(encoding="utf-8") as file:
        texts = dict.fromkeys(text for row in csv.reader(file) for text in row[:2])
    return SentenceEncoder().encode(list(texts))


def mixed(seeds: Vectors, count: int, seed: int) -> Vectors:
    draw = np.random.default_rng(seed)
    one, other = (seeds[draw.integers(0, len(seeds), count)] for _ in range(2))
    share = draw.uniform(0.5, 1, (count, 1)).astype(np.float32)
    rows = share * one + (1 - share) * other
    unit: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


def milliseconds(call: Callable[[], object], times: int = 9) -> float:
    """The least of some calls: what else runs on the machine only ever adds."""
    spent: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        spent.append(time.perf_counter() - start)
    return min(spent) * 1000


def one_and_many(call: Callable[[Vectors], object], asked: Vectors) -> tuple[float, float]:
    """Milliseconds of a call with one query, and with all."""
    return milliseconds(lambda: call(asked[:1])), milliseconds(lambda: call(asked))


def bare(rows: Vectors, asked: Vectors) -> tuple[float, float]:
    """Milliseconds of one product with all rows, and its greatest: of one query, and of all."""
    return one_and_many(lambda some: (some @ rows.T).max(axis=1), asked)


def times(name: str, one: float, many: float, beside: tuple[float, float]) -> str:
    """A line's beginning: milliseconds of one query and of 500, and how often the bare product's."""
    return (
        f"  {name:14} 1: {one:7.1f} ms ({one / beside[0]:5.2f} x)   500: {many:7.0f} ms ({many / beside[1]:5.2f} x)   "
    )


def ours(rows: Vectors, asked: Vectors, *, prefiltered: bool) -> list[ClusterMatch | None]:
    cast("Any", matching).PREFILTER_FROM = 0 if prefiltered else sys.maxsize  # a constant, measured with both values
    matrix = ClusterMatrix(rows.shape[1])
    start = time.perf_counter()
    matrix.put_all(range(len(rows)), rows)
    matrix.best(asked[:1], THRESHOLD)
    built = time.perf_counter() - start
    beside = bare(rows, asked)
    one, many = one_and_many(lambda some: matrix.best(some, THRESHOLD), asked)
    name = "index" if prefiltered else "product"
    print(times(name, one, many, beside), f"ready in {built:.1f} s, {matrix.nbytes >> 20} MiB")
    return matrix.best(asked, THRESHOLD)


def usearch(rows: Vectors, asked: Vectors, exact: list[ClusterMatch | None]) -> None:
    try:
        index = importlib.import_module("usearch.index").Index(ndim=rows.shape[1], metric="ip", dtype="f32")
    except ImportError:
        print("  usearch is not installed")
        return
    start = time.perf_counter()
    index.add(np.arange(len(rows)), rows)
    built = time.perf_counter() - start
    near = [i for i, match in enumerate(exact) if match and match.cosine < THRESHOLD + 0.03]
    beside = bare(rows, asked)
    for effort in (64, 256):
        index.expansion_search = effort
        one, many = one_and_many(lambda some: index.search(some, 10), asked[:500])
        found: Any = index.search(asked, 10).keys
        hit = [i for i in near if any(float(rows[key] @ asked[i]) >= THRESHOLD for key in found[i])]
        print(
            times(f"usearch {effort}", one, many, beside),
            f"ready in {built:.1f} s, {index.memory_usage >> 20} MiB, finds {len(hit)} of {len(near)} near the border",
        )


def vector_set(database: Database, rows: Vectors, asked: Vectors) -> None:
    start = time.perf_counter()
    for first in range(0, len(rows), 500):
        part = rows[first : first + 500]
        database.pipeline(
            [("VADD", "set", "FP32", as_bytes(row), str(first + i), "NOQUANT") for i, row in enumerate(part)]
        )
    built = time.perf_counter() - start
    one = milliseconds(lambda: database.command("VSIM", "set", "FP32", as_bytes(asked[0]), "COUNT", 10))
    commands: list[Any] = [("VSIM", "set", "FP32", as_bytes(row), "COUNT", 10) for row in asked]
    many = milliseconds(lambda: database.pipeline(commands), 1)
    size = database.command("MEMORY", "USAGE", "set", "SAMPLES", 0) >> 20
    line = times("vector set", one, many, bare(rows, asked))
    print(line, f"ready in {built:.1f} s ({built / len(rows) * 1000:.1f} ms a cluster), {size} MiB of the server")


def held(database: Database, rows: Vectors) -> str:
    """Put clusters into Redis as a bank has them; what they take there, all together and by key."""
    shard = open_layout(database, TEAM, SHARDS).of(BANK)
    before = _memory(database)
    fixed: list[Any] = ["id", "i", "model", "m", "dimension", rows.shape[1], "threshold", THRESHOLD]
    database.command("HSET", shard.key("bank", BANK), *fixed, "version", len(rows))
    for first in range(0, len(rows), 500):
        slots = range(first, min(first + 500, len(rows)))
        commands: list[Any] = [
            ("HSET", shard.key("clustervec", BANK), *(x for i in slots for x in (i, as_bytes(rows[i])))),
            ("HSET", shard.key("clustertext", BANK), *(x for i in slots for x in (i, f"a query of some words, {i}"))),
            ("ZADD", shard.key("clusterver", BANK), *(x for i in slots for x in (i + 1, i))),
            ("ZADD", shard.key("clusterrecent", BANK), *(x for i in slots for x in (i + 1, i))),
        ]
        database.pipeline(commands)
    taken = _memory(database) - before
    names = ("clustervec", "clustertext", "clusterver", "clusterrecent")
    sizes = [database.command("MEMORY", "USAGE", shard.key(name, BANK), "SAMPLES", 0) for name in names]
    parts = ", ".join(f"{name} {size >> 20}" for name, size in zip(names, sizes, strict=True))
    return f"{taken >> 20} MiB there ({parts})"


class _WrittenModel:
    """The model of the bank that was written here."""

    model, weights = "m", ""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def load(self) -> None:
        """Return at once: these vectors need no model."""

    def encode(self, texts: object) -> Vectors:
        raise AssertionError(texts)


def load(url: str, dimension: int) -> None:
    """In a process of its own: a bank's clusters from Redis, then one query, which fits the index; how it has grown."""
    database = Database(url)
    store = BankStore(database, open_layout(database, TEAM, SHARDS).of(BANK), BANK)
    asked = np.eye(1, dimension, dtype=np.float32)
    small = ClusterMatrix(dimension)
    small.put(0, asked[0])
    small.best(asked, THRESHOLD)  # what numpy itself takes at its first product is no cluster's
    clusters, before = BankClusters(store, _WrittenModel(dimension)), _resident()
    start = time.perf_counter()
    clusters.sync()
    loaded = time.perf_counter() - start
    grown = _resident() - before
    clusters.matrix.best(asked, THRESHOLD)
    ready = time.perf_counter() - start
    print(
        f"from Redis in {loaded:.1f} s, matching after {ready:.1f} s; a fresh process grows by {grown >> 10} MiB, "
        f"with the index {_resident() - before >> 10} MiB, vectors and index {clusters.matrix.nbytes >> 20} MiB; "
        f"at the highest it had {_resident('VmHWM') - before >> 10} MiB more",
    )
    database.close()


def _resident(name: str = "VmRSS") -> int:
    """KiB of this process, as Linux reports it."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise AssertionError(name)


def _memory(database: Database) -> int:
    for line in database.command("INFO", "memory").splitlines():
        if line.startswith(b"used_memory:"):
            return int(line.partition(b":")[2])
    raise AssertionError("no memory is reported")


def main() -> None:
    if sys.argv[1:2] == [LOAD]:
        load(sys.argv[2], int(sys.argv[3]))
        return
    seeds = real()
    for count in map(int, sys.argv[1:] or ["20000", "100000"]):
        rows, asked = mixed(seeds, count, 1), mixed(seeds, 500, 2)
        print(f"{count:,} clusters")
        exact = ours(rows, asked, prefiltered=False)
        assert ours(rows, asked, prefiltered=True) == exact
        with tempfile.TemporaryDirectory() as folder, RedisServer.start(Path(folder)) as server:
            database = Database(server.url)
            taken = held(database, rows)
            fresh = [sys.executable, "-m", "benchmarks.clusters", LOAD, server.url, str(rows.shape[1])]
            print("  ", subprocess.check_output(fresh, text=True).strip(), f"; {taken}", sep="")
            if count <= 20_000:
                vector_set(database, rows, asked)
            database.close()
        usearch(rows, asked, exact)


if __name__ == "__main__":
    main()
