"""The cost of one evaluation with 10,000 recorded events against 10: load, step, commit, with a provider that fires."""

from __future__ import annotations

import time
from statistics import median

from benchmarks.measure import RowResult, spread
from benchmarks.system import BenchmarkSystem
from tellback.contracts.guidance import EvaluationBegun, FeedbackTrigger, ProviderSpec, ToolInvoked
from tellback.contracts.message import Message, new_event_id
from tellback.names import Family
from tellback.state.intake_lease import IntakeEntry, Lease
from tellback.state.keys import Shard
from tellback_workers.loops.guidance import GuidanceLoop
from tellback_workers.runtime import Runtime

FEW = 10
MANY = 10_000
EVALUATIONS = 12
ROUNDS = 40
RUNS = 5


def measure(system: BenchmarkSystem) -> RowResult:
    runtime = Runtime(system.settings)

    loop = GuidanceLoop(runtime)
    shard = runtime.layout("default").shard(0)
    bench = EvaluationBench(loop, shard, runtime)
    ratios: list[float] = []
    few: list[float] = []
    many: list[float] = []
    for run in range(RUNS):
        small = bench.prepare(f"few-{run}", FEW)
        large = bench.prepare(f"many-{run}", MANY)
        times = [(bench.once(small, n), bench.once(large, n)) for n in range(ROUNDS * EVALUATIONS)]
        few.append(median(small_time for small_time, _ in times) * 1e6)
        many.append(median(large_time for _, large_time in times) * 1e6)
        ratios.append(many[-1] / few[-1])
    runtime.database.close()
    return RowResult(
        name="evaluation_cost",
        what=f"one evaluation with {MANY:,} recorded events against {FEW}",
        ratios=ratios,
        budget=1.05,
        sense="at most",
        details=[f"microseconds with {FEW}: {spread(few)};  with {MANY:,}: {spread(many)}"],
    )


class EvaluationBench:
    def __init__(self, loop: GuidanceLoop, shard: Shard, runtime: Runtime) -> None:
        self._loop = loop
        self._lease = Lease(shard, Family.EVENTS, 1)
        self._runtime = runtime
        runtime.database.command("SET", self._lease.key, 1)
        self._ids = 0

    def prepare(self, name: str, recorded: int) -> list[str]:
        sessions = [f"{name}-{n}" for n in range(EVALUATIONS)]
        spec = ProviderSpec(
            name="StaticFeedback", trigger=FeedbackTrigger(every_n_calls=5), fields={"summary": "Mind the goal."}
        )
        for session in sessions:
            begun = EvaluationBegun(
                event_id=new_event_id(), session=session, prompt="p", evaluation="e", providers=[spec]
            )
            self._apply([begun])
            for start in range(0, recorded, 500):
                self._apply([self._call(session) for _ in range(min(500, recorded - start))])
        return sessions

    def once(self, sessions: list[str], n: int) -> float:
        """Seconds of one evaluation. After each event of every session the caller prepares the few again."""
        entry = self._entries([self._call(sessions[n % len(sessions)])])
        self._loop.forget([self._lease])  # or it would not be loaded
        start = time.perf_counter()
        self._loop.apply(self._lease, entry)
        return time.perf_counter() - start

    def _apply(self, messages: list[Message]) -> None:
        self._loop.apply(self._lease, self._entries(messages))

    def _entries(self, messages: list[Message]) -> list[IntakeEntry]:
        self._ids += len(messages)
        numbered = enumerate(messages)
        return [IntakeEntry(f"1-{self._ids + n}", m, 1) for n, m in numbered]  # type: ignore[arg-type]  # all of this family

    def _call(self, session: str) -> ToolInvoked:
        return ToolInvoked(
            event_id=new_event_id(),
            session=session,
            prompt="p",
            evaluation="e",
            tool="search",
            params={"query": "ruby creator"},
            result="found",
            duration_ms=12,
        )
