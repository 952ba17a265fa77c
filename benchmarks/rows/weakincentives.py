"""The same tool calls, recorded and evaluated, in the PyPI package `weakincentives` and here; and who counts right.

Cost is the processor time of one call in one process: the same two providers, due every ten calls, with 100, 1,000 and
10,000 calls before.
Eight threads with 500 calls each on one prompt should fire 400 times.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import benchmarks.peers
from benchmarks.measure import RowResult
from benchmarks.peers.environment import PeerMissingError, environment
from benchmarks.rows.evaluation_cost import EvaluationBench
from benchmarks.rows.tool_events import counts_of
from benchmarks.system import BenchmarkSystem, wait
from tellback import DeadlineFeedback, FeedbackProviderConfig, FeedbackTrigger, StaticFeedback, Tellback, connect
from tellback.contracts.guidance import EvaluationBegun, Feedback, ProviderSpec, ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.guidance.evaluation import ProviderInvoker, apply_event
from tellback.guidance.provider import FeedbackContext, invoke_provider, provider_spec
from tellback.guidance.registry import ProviderRegistry
from tellback.guidance.state import BatchEffects, new_evaluation
from tellback_workers.loops.guidance import GuidanceLoop
from tellback_workers.runtime import Runtime

PEERS = ("weakincentives==0.24.0", "weakincentives")
SIZES = (100, 1_000, 10_000)
RUNS = 3
WINDOW = 100
EVERY = 10
THREADS = 8
CALLS = 500
TRIGGER = FeedbackTrigger(every_n_calls=EVERY)


def measure(system: BenchmarkSystem) -> tuple[RowResult, ...]:
    try:
        pythons = [environment(requirement) for requirement in PEERS]
    except PeerMissingError as missing:
        print(f"weakincentives: skipped, {missing}", file=sys.stderr)
        return ()
    theirs = [[_peer(python) for _ in range(RUNS)] for python in pythons]
    ours = [_cost() for _ in range(RUNS)]
    plane = _plane_cost(system)
    fires = _fires(system)
    return tuple(_result(runs, ours, plane, fires) for runs in theirs)


def _result(
    theirs: Sequence[dict[str, Any]], ours: Sequence[dict[int, float]], plane: dict[int, float], fires: Sequence[int]
) -> RowResult:
    version = theirs[0]["version"]
    largest = SIZES[-1]
    return RowResult(
        name=f"weakincentives_{version}",
        what=f"a call's evaluation with {largest:,} recorded: weakincentives {version} against ours, in one process",
        ratios=[their["cost"][str(largest)] / our[largest] for their, our in zip(theirs, ours, strict=True)],
        budget=1.0,
        sense="at least",
        details=[*(_line(size, theirs, ours, plane) for size in SIZES), _fired(theirs, fires)],
    )


def _line(
    size: int, theirs: Sequence[dict[str, Any]], ours: Sequence[dict[int, float]], plane: dict[int, float]
) -> str:
    peer, mine = _range([their["cost"][str(size)] for their in theirs]), _range([our[size] for our in ours])
    return f"microseconds with {size:,}: theirs {peer};  ours {mine};  a worker, Redis included, {plane[size]:.0f}"


def _fired(theirs: Sequence[dict[str, Any]], fires: Sequence[int]) -> str:
    peer, mine = ", ".join(str(their["fires"]) for their in theirs), ", ".join(map(str, fires))
    due = THREADS * CALLS // EVERY
    return (
        f"fires of {THREADS} threads with {CALLS} calls each, {due} due: theirs {peer};  ours, by real workers, {mine}"
    )


def _range(values: Sequence[float]) -> str:
    return f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def _peer(python: Path) -> dict[str, Any]:
    script = Path(next(iter(benchmarks.peers.__path__))) / "weakincentives_run.py"
    sizes = ",".join(map(str, SIZES))
    ended = subprocess.run(
        [str(python), str(script), sizes], stdout=subprocess.PIPE, text=True, timeout=300, check=True
    )
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


class _Providers(ProviderInvoker):
    """Asks providers as a worker does."""

    def __init__(self) -> None:
        self._registry = ProviderRegistry()

    def ask(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        return invoke_provider(self._registry.build(spec), context)


def _configs() -> list[FeedbackProviderConfig]:
    return [FeedbackProviderConfig(one, TRIGGER) for one in (DeadlineFeedback(), StaticFeedback("Mind the goal."))]


def _cost() -> dict[int, float]:
    """Microseconds of processor time of a call, recorded and evaluated in memory, by how many were recorded before."""
    state, providers = new_evaluation("s", "p", "e", time.time_ns() // 1_000_000), _Providers()
    specs = [provider_spec(config) for config in _configs()]
    begun = EvaluationBegun(
        event_id=new_event_id(), session="s", prompt="p", evaluation="e", providers=specs, deadline_in=3600.0
    )
    apply_event(state, begun, time.time_ns() // 1_000_000, providers, BatchEffects())
    found: dict[int, float] = {}
    for size in SIZES:
        while state.calls < size:
            apply_event(state, _call(state.calls), time.time_ns() // 1_000_000, providers, BatchEffects())
        start = time.process_time()
        for _ in range(WINDOW):
            apply_event(state, _call(state.calls), time.time_ns() // 1_000_000, providers, BatchEffects())
        found[size] = (time.process_time() - start) / WINDOW * 1e6
    return found


def _call(number: int) -> ToolInvoked:
    return ToolInvoked(
        event_id=new_event_id(),
        session="s",
        prompt="p",
        evaluation="e",
        tool="search",
        params={"query": "ruby creator", "page": number},
        result="found",
    )


def _plane_cost(system: BenchmarkSystem) -> dict[int, float]:
    """Microseconds that a worker takes for one call alone: loaded from Redis, stepped, committed."""
    runtime = Runtime(system.settings)
    bench = EvaluationBench(GuidanceLoop(runtime), runtime.layout("default").shard(0), runtime)
    found: dict[int, float] = {}
    for size in SIZES:
        sessions = bench.prepare(f"peer-{size}", size)
        found[size] = median(bench.once(sessions, number) for number in range(WINDOW)) * 1e6
    runtime.database.command("FLUSHALL")
    runtime.database.close()
    return found


def _fires(system: BenchmarkSystem) -> list[int]:
    """Of several threads on one prompt, each run, evaluated by real workers."""
    system.worker("tellback_workers.app", "events", "-E")
    with connect(settings=system.settings) as tb:
        return [_fires_of_threads(tb) for _ in range(RUNS)]


def _fires_of_threads(tb: Tellback) -> int:
    prompt = tb.prompt(f"s-{time.time_ns()}", "p", feedback_providers=_configs()[1:])

    def work() -> None:
        for number in range(CALLS):
            prompt.tool_invoked("search", params={"page": number}, result="found")

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tb.flush()
    wait(lambda: counts_of(tb, prompt).calls == THREADS * CALLS, 60)
    return counts_of(tb, prompt).fires
