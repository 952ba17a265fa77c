"""A recall over 1,000 candidates in a bank of 100,000 clusters, its query's embedding known, against the bare product.

In the host's own process, where it has the model; through a worker, which adds the way there and back; and of facts
that the bank holds, which Redis searches in its vector set.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import msgspec
import numpy as np

from benchmarks.measure import RowResult, spread
from benchmarks.rows.sweep import used_memory
from benchmarks.signals import encode, queries, start_recalls
from benchmarks.system import BenchmarkSystem
from tellback import Bank, connect
from tellback.signals.matching import Vectors, as_bytes
from tellback.signals.models import PACKAGED, default_threshold
from tellback.state.database import Database
from tellback.state.keys import Shard
from tellback.state.script_calls import Command

CLUSTERS = 100_000
CANDIDATES = 1_000
HELD = 20_000
TEXTS = 512  # that the model embeds; every other vector is a mix of some of them, so that they lie as real ones do
NEAR = 16  # clusters that match the query, each with scores of a quarter of the facts
RUNS = 5
ROUNDS = 15
BANK = "bench"


def measure(system: BenchmarkSystem) -> RowResult:
    asked = queries(TEXTS)
    vectors = _mixed(encode(asked, 64).astype(np.float32), CLUSTERS)
    query = asked[0]
    filler = _Filler(system.database, vectors)
    here = msgspec.structs.replace(system.settings, recall_in_process=True)
    facts = [(f"f{i}", 1 - i / CANDIDATES) for i in range(CANDIDATES)]
    options: dict[str, Any] = {"boost_by_usefulness": True, "wait": 60}
    with connect(settings=here) as host, connect(settings=system.settings) as remote:
        shard = host.context.layout.of(BANK)
        filler.clusters(shard, vectors[0])
        filler.held(shard)
        start_recalls(system)
        banks: tuple[Bank, Bank] = host.bank(BANK), remote.bank(BANK)
        first = _seconds(lambda: banks[0].recall(query, facts, **options))
        hits = banks[1].recall(query, facts, **options)
        assert len(hits) == 10, hits
        assert {hit.scope for hit in hits} == {"cluster"}, hits
        bare, ours, through, held = _rounds(
            lambda: vectors @ vectors[0],
            lambda: banks[0].recall(query, facts, **options),
            lambda: banks[1].recall(query, facts, **options),
            lambda: banks[0].recall(query, **options),
        )
    return RowResult(
        name="recall",
        what=f"a recall over {CANDIDATES:,} candidates and {CLUSTERS:,} clusters against the bare numpy product",
        ratios=[our / product for our, product in zip(ours, bare, strict=True)],
        budget=2,
        sense="at most",
        details=[
            f"milliseconds: in process {spread(ours, 1)};  bare product {spread(bare, 1)}",
            f"milliseconds through a worker, there and back: {spread(through, 1)}",
            f"milliseconds over {HELD:,} facts that the bank holds, by a vector set: {spread(held, 1)}",
            f"the first in a process, which loads model and clusters: {first:.1f} s",
            f"a stored fact takes {filler.each:,.0f} bytes with a text of some 60",
        ],
    )


def _rounds(*calls: Callable[[], object]) -> list[list[float]]:
    """Median milliseconds of each call, in each run; the calls take turns."""
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(RUNS):
        times = [[_seconds(call) for call in calls] for _ in range(ROUNDS)]
        for each, column in zip(found, zip(*times, strict=True), strict=True):
            each.append(median(column) * 1e3)
    return found


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _mixed(texts: Vectors, count: int) -> Vectors:
    """So many vectors, the first of them those of the texts."""
    random = np.random.default_rng(1)
    shares = random.dirichlet((0.3,) * 4, count).astype(np.float32)
    rows = sum(shares[:, [i]] * texts[random.integers(0, len(texts), count)] for i in range(4))
    rows = np.asarray(rows) + random.normal(0, 0.02, (count, texts.shape[1])).astype(np.float32)
    rows[: len(texts)] = texts
    mixed: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return mixed


class _Filler:
    """Writes a bank as the scripts would have."""

    def __init__(self, database: Database, vectors: Vectors) -> None:
        self._db = database
        self._vectors = vectors
        self._now = time.time() * 1e3  # the server runs on this host
        self.each = 0.0

    def clusters(self, shard: Shard, query: Vectors) -> None:
        threshold = default_threshold(PACKAGED)
        self._db.command(
            *("HSET", shard.key("bank", BANK), "id", "bench", "model", PACKAGED, "dimension", len(query)),
            *("threshold", threshold, "version", CLUSTERS, "created_at", int(self._now)),
        )
        for start in range(0, CLUSTERS, 500):
            slots = range(start, min(start + 500, CLUSTERS))
            rows = [part for slot in slots for part in (slot, as_bytes(self._vectors[slot]))]
            versions = [part for slot in slots for part in (slot + 1, slot)]
            self._db.pipeline(
                [("HSET", shard.key("clustervec", BANK), *rows), ("ZADD", shard.key("clusterver", BANK), *versions)]
            )
        near = np.nonzero(self._vectors @ query >= threshold)[0][:NEAR].tolist()
        self._db.pipeline([self._scores(shard.key("cluster", BANK, str(slot)), at) for at, slot in enumerate(near)])
        self._db.command("HSET", shard.key("factscore", BANK), *self._packed(range(CANDIDATES), struct.Struct("<8d")))

    def held(self, shard: Shard) -> None:
        before = used_memory(self._db)
        names = ("factinfo", "facttext", "factver", "factset")
        factinfo, texts, versions, vectors = (shard.key(name, BANK) for name in names)
        self._db.command(
            "HSET", factinfo, "id", "bench", "kind", "set", "model", PACKAGED, "dimension", 384, "bytes", 0
        )
        for start in range(0, HELD, 100):
            commands: list[Command] = []
            for i in range(start, start + 100):
                commands += [
                    (
                        "HSET",
                        texts,
                        f"f{i}",
                        struct.pack("<d", self._now) + b"A fact of some sixty characters, as facts are. %8d" % i,
                    ),
                    ("ZADD", versions, i + 1, f"f{i}"),
                    ("VADD", vectors, "FP32", as_bytes(self._vectors[i]), f"f{i}", "NOQUANT"),
                ]
            self._db.pipeline(commands)
        self._db.command("HSET", factinfo, "version", HELD)
        self.each = (used_memory(self._db) - before) / HELD

    def _scores(self, key: str, at: int) -> Command:
        return ("HSET", key, *self._packed(range(at % 4, CANDIDATES, 4), struct.Struct("<4d")))

    def _packed(self, facts: range, form: struct.Struct) -> list[str | bytes]:
        rest = (self._now,) + (1.0,) * (form.size // 8 - 3)
        return [part for i in facts for part in (f"f{i}", form.pack(0.5 + (i % 100) / 200, self._now, *rest))]
