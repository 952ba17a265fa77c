"""`python -m benchmarks.contexts [CONTEXTS ...]`: a bank's contexts, whole product, index, and the indexes of others.

Contexts are mixtures of real sentences' embeddings. usearch is measured where it is installed, vector sets where the
server has them, up to 20,000 contexts: it takes some minutes for more.
"""

from __future__ import annotations

import csv
import importlib
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from tellback.embedding.contexts import BankContexts
from tellback.embedding.encoder import encoder_of
from tellback.signals import matching
from tellback.signals.matching import ContextMatrix, Match, Vectors, as_bytes
from tellback.state.banks import BankStore
from tellback.state.database import Database
from tellback.state.team import open_layout
from tests.support.redis_server import RedisServer

PAIRS = Path(__file__).resolve().parents[2] / "shared" / "data" / "stsb_pairs.csv"
THRESHOLD = 0.81


def real() -> Vectors:
    with PAIRS.open(encoding="utf-8") as file:
        texts = dict.fromkeys(text for row in csv.reader(file) for text in row[:2])
    return encoder_of("").encode(list(texts))


def mixed(seeds: Vectors, count: int, seed: int) -> Vectors:
    draw = np.random.default_rng(seed)
    one, other = (seeds[draw.integers(0, len(seeds), count)] for _ in range(2))
    share = draw.uniform(0.5, 1, (count, 1)).astype(np.float32)
    rows = share * one + (1 - share) * other
    unit: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


def milliseconds(call: Callable[[], object], times: int = 5) -> float:
    spent: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        spent.append(time.perf_counter() - start)
    return min(spent) * 1000


def ours(rows: Vectors, asked: Vectors, *, screened: bool) -> list[Match | None]:
    matching.SCREENED_FROM = 0 if screened else sys.maxsize  # type: ignore[misc]  # pyright: ignore[reportConstantRedefinition, reportAttributeAccessIssue]  # one or the other
    matrix = ContextMatrix(rows.shape[1])
    start = time.perf_counter()
    matrix.put_all(range(len(rows)), rows)
    matrix.best(asked[:1], THRESHOLD)
    built = time.perf_counter() - start
    one, many = (milliseconds(lambda n=n: matrix.best(asked[:n], THRESHOLD)) for n in (1, 500))  # type: ignore[misc]  # its own n
    name = "index" if screened else "product"
    print(f"  {name:12} ready {built:6.1f} s   1: {one:7.1f} ms   500: {many:7.0f} ms   {matrix.nbytes >> 20} MiB")
    return matrix.best(asked, THRESHOLD)


def usearch(rows: Vectors, asked: Vectors, exact: list[Match | None]) -> None:
    try:
        index = importlib.import_module("usearch.index").Index(ndim=rows.shape[1], metric="ip", dtype="f32")
    except ImportError:
        print("  usearch is not installed")
        return
    start = time.perf_counter()
    index.add(np.arange(len(rows)), rows)
    built = time.perf_counter() - start
    near = [i for i, match in enumerate(exact) if match and match.cosine < THRESHOLD + 0.03]
    for effort in (64, 256):
        index.expansion_search = effort
        one, many = (milliseconds(lambda n=n: index.search(asked[:n], 10)) for n in (1, 500))  # type: ignore[misc]  # as above
        found: Any = index.search(asked, 10).keys
        hit = [i for i in near if any(float(rows[key] @ asked[i]) >= THRESHOLD for key in found[i])]
        print(
            f"  usearch {effort:4} ready {built:6.1f} s   1: {one:7.1f} ms   500: {many:7.0f} ms   "
            f"{index.memory_usage >> 20} MiB, finds {len(hit)} of {len(near)} near the border"
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
    print(f"  vector set   ready {built:6.1f} s   1: {one:7.1f} ms   500: {many:7.0f} ms   {size} MiB of the server")


def loading(database: Database, rows: Vectors) -> None:
    """How long a worker that starts takes to have a bank's contexts from Redis, and what they take there."""
    shard = open_layout(database, "default", 4).of("b")
    before = _memory(database)
    fixed: list[Any] = ["id", "i", "model", "m", "dimension", rows.shape[1], "threshold", THRESHOLD]
    database.command("HSET", shard.key("bank", "b"), *fixed, "version", len(rows))
    for first in range(0, len(rows), 500):
        slots = range(first, min(first + 500, len(rows)))
        commands: list[Any] = [
            ("HSET", shard.key("ctxvec", "b"), *(x for i in slots for x in (i, as_bytes(rows[i])))),
            ("HSET", shard.key("ctxtext", "b"), *(x for i in slots for x in (i, f"a query of some words, {i}"))),
            ("ZADD", shard.key("ctxver", "b"), *(x for i in slots for x in (i + 1, i))),
            ("ZADD", shard.key("ctxrecent", "b"), *(x for i in slots for x in (i + 1, i))),
        ]
        database.pipeline(commands)
    taken = _memory(database) - before

    class Known:
        model, weights, dimension = "m", "", rows.shape[1]

        def load(self) -> None:
            """It is there."""

        def encode(self, texts: object) -> Vectors:
            raise AssertionError(texts)

    contexts, memory = BankContexts(BankStore(database, shard, "b"), Known()), psutil.Process().memory_info().rss
    start = time.perf_counter()
    contexts.sync()
    spent, grown = time.perf_counter() - start, psutil.Process().memory_info().rss - memory
    print(f"  from Redis in {spent:.1f} s; {taken >> 20} MiB there, {grown >> 20} MiB more in the process")


def _memory(database: Database) -> int:
    for line in database.command("INFO", "memory").splitlines():
        if line.startswith(b"used_memory:"):
            return int(line.partition(b":")[2])
    raise AssertionError("no memory told")


def main() -> None:
    seeds = real()
    for count in map(int, sys.argv[1:] or ["20000", "100000"]):
        rows, asked = mixed(seeds, count, 1), mixed(seeds, 500, 2)
        print(f"{count:,} contexts")
        exact = ours(rows, asked, screened=False)
        assert ours(rows, asked, screened=True) == exact
        with tempfile.TemporaryDirectory() as folder, RedisServer.start(Path(folder)) as server:
            database = Database(server.url)
            loading(database, rows)
            if count <= 20_000:
                vector_set(database, rows, asked)
            database.close()
        usearch(rows, asked, exact)


if __name__ == "__main__":
    main()
