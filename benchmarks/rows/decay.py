"""The weekly decay of 1,000,000 scores: how many a second, and the longest call that Redis itself has measured.

Redis measures elapsed time: on a machine that is busy otherwise a call may be interrupted in the middle. So a loop that
takes as long as the median call is called as often, and its longest stands beside.
"""

from __future__ import annotations

import random
import struct
import time
from statistics import median
from typing import Any

from benchmarks.measure import RowResult, spread
from benchmarks.system import BenchmarkSystem
from tellback.state.decay import Decay
from tellback.state.keys import Layout
from tellback.state.script_calls import Command

SCORES = 1_000_000
FACTS = 100_000
EACH = 45  # scores of a cluster
CLUSTERS = (SCORES - FACTS) // EACH
RUNS = 3
BUDGET_RATE = 300_000
BUDGET_MS = 10
AGED_MS = 30 * 86_400_000
BANK = "bench"


def measure(system: BenchmarkSystem) -> tuple[RowResult, RowResult]:
    layout = Layout("decay", 1)
    bank = _DecayedBank(system, layout)
    bank.build()
    rates: list[float] = []
    longest: list[float] = []
    calls: list[float] = []
    controls: list[float] = []
    for _ in range(RUNS):
        bank.age()
        seconds, slow = bank.decay()
        rates.append(SCORES / seconds)
        longest.append(max(slow) / 1e3)
        calls.append(median(slow) / 1e3)
        controls.append(max(bank.control(len(slow), median(slow))) / 1e3)
    return (
        RowResult(
            name="decay",
            what=f"scores decayed a second, of {SCORES:,} in one bank, against {BUDGET_RATE:,}",
            ratios=[rate / BUDGET_RATE for rate in rates],
            budget=1,
            sense="at least",
            details=[f"scores a second: {spread(rates)};  {FACTS:,} facts and {CLUSTERS:,} clusters of {EACH}"],
        ),
        RowResult(
            name="decay_call",
            what=f"the longest call of that decay, by Redis' slow log, against {BUDGET_MS} ms",
            ratios=[each / BUDGET_MS for each in longest],
            budget=1,
            sense="at most",
            details=[
                f"milliseconds, longest: {spread(longest, 1)};  median: {spread(calls, 2)}",
                f"a loop of the median's length, called as often, longest: {spread(controls, 1)}",
            ],
        ),
    )


class _DecayedBank:
    """One bank with a million scores, all of them before this week."""

    def __init__(self, system: BenchmarkSystem, layout: Layout) -> None:
        self._db = system.database
        self._layout = layout
        self._shard = layout.shard(0)
        self._random = random.Random(1)

    def build(self) -> None:
        shard = self._shard
        self._db.command("ZADD", shard.key("banks"), 1, BANK)
        self._db.command("HSET", shard.key("bank", BANK), "version", CLUSTERS)
        self._fill(shard.key("factscore", BANK), FACTS, struct.Struct("<8d"))
        for slot in range(CLUSTERS):
            self._db.command("ZADD", shard.key("clusterver", BANK), slot + 1, slot)

    def age(self) -> None:
        """Write the scores of the clusters, and those of the facts, as they stood a month ago."""
        shard, form = self._shard, struct.Struct("<4d")
        self._fill(shard.key("factscore", BANK), FACTS, struct.Struct("<8d"))
        for start in range(0, CLUSTERS, 100):
            slots = range(start, min(start + 100, CLUSTERS))
            self._db.pipeline([self._some(shard.key("cluster", BANK, str(slot)), 0, EACH, form) for slot in slots])
        self._db.command("DEL", shard.key("decay"))

    def decay(self) -> tuple[float, list[int]]:
        """Seconds of a whole pass, and the microseconds of each of its calls."""
        store = Decay(self._db, self._layout)
        self._watch()
        start = time.perf_counter()
        outcome = store.run(self._shard, "bench", _never)
        seconds = time.perf_counter() - start
        slow = self._watched()
        [state] = store.states()
        assert (outcome, state.scores) == ("done", CLUSTERS * EACH + FACTS), (outcome, state)
        return seconds, slow

    def control(self, times: int, micros: float) -> list[int]:
        """Microseconds of so many calls that do nothing for about so long."""
        loop = "for i = 1, ARGV[1] do local x = i ^ 0.5 end"
        sha = self._db.command("SCRIPT", "LOAD", loop)
        self._watch()
        for _ in range(20):
            self._db.command("EVALSHA", sha, 0, 10_000)
        rounds = round(10_000 * micros / median(self._watched()))
        self._watch()
        for _ in range(times):
            self._db.command("EVALSHA", sha, 0, rounds)
        return self._watched()

    def _watch(self) -> None:
        self._db.command("CONFIG", "SET", "slowlog-max-len", 100_000)
        self._db.command("CONFIG", "SET", "slowlog-log-slower-than", 0)
        self._db.command("SLOWLOG", "RESET")

    def _watched(self) -> list[int]:
        self._db.command("CONFIG", "SET", "slowlog-log-slower-than", -1)
        log: list[Any] = self._db.command("SLOWLOG", "GET", -1)
        return [int(entry[2]) for entry in log if entry[3][0] == b"EVALSHA"]

    def _fill(self, key: str, count: int, form: struct.Struct) -> None:
        for start in range(0, count, 10_000):
            self._db.pipeline([self._some(key, at, 1_000, form) for at in range(start, start + 10_000, 1_000)])

    def _some(self, key: str, start: int, count: int, form: struct.Struct) -> Command:
        at = time.time() * 1e3 - AGED_MS  # the server runs on this host
        rest = (at,) + (1.0,) * (form.size // 8 - 3)
        pairs = [
            part for i in range(start, start + count) for part in (f"f{i}", form.pack(self._random.random(), at, *rest))
        ]
        return ("HSET", key, *pairs)


def _never() -> bool:
    return False
