"""From a tool call's publishing until its feedback is in the agent's hands, against a bare Celery task's INCR.

Both sides arrive open-loop at a tenth of what they were just measured to do, and time counts from when an arrival was
due. Of ours as many calls a second as B has tasks are measured; the rest of the tenth is a load beneath them.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from statistics import median, quantiles
from typing import Literal

from benchmarks.arrivals import each
from benchmarks.bare import Bare, timed
from benchmarks.measure import RowResult
from benchmarks.rows.tool_events import work
from benchmarks.system import BenchmarkSystem, wait
from tellback import FeedbackProviderConfig, FeedbackTrigger, Prompt, StaticFeedback, Tellback, connect
from tellback.names import Family
from tellback.state.keys import stream_of

RUNS = 5
SAMPLES = 1_000
SHARE = 0.1
LONGEST = 30.0

Quantile = Literal["p50", "p99"]
BUDGETS: dict[Quantile, tuple[int, float]] = {"p50": (0, 1.0), "p99": (1, 1.5)}  # each with its place in `_tail`


def measure(system: BenchmarkSystem) -> tuple[RowResult, RowResult]:
    bare = Bare(system, timed)
    system.worker("tellback_workers.app", "events", "-E")
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    with connect(settings=system.settings) as tb:
        bare.run(300)
        work(tb, 6_000)
        tasks, events = SHARE * bare.run(1_500).rate, SHARE * work(tb, 24_000).rate
        for run in range(RUNS):
            gc.collect()  # of this process, which publishes for both: not while a call is under way
            theirs.append(_tail(bare.latencies(tasks, SAMPLES, run)))
            prompts = _begun(tb)
            gc.collect()
            with _load(system, events - tasks, 20 * SAMPLES / tasks):
                ours.append(_tail(_feedback(prompts, tasks, run)))
    loads = f"a tenth of capacity: {events:,.0f} calls a second ({tasks:.0f} await feedback), {tasks:.0f} bare tasks"
    return _result("p50", ours, theirs, loads), _result("p99", ours, theirs, loads)


def _result(
    name: Quantile, ours: Sequence[tuple[float, float]], theirs: Sequence[tuple[float, float]], loads: str
) -> RowResult:
    at, budget = BUDGETS[name]
    mine, bare = [one[at] for one in ours], [one[at] for one in theirs]
    return RowResult(
        name=f"feedback_{name}",
        what=f"{name} from a tool call's publishing until its feedback is taken, against a bare task's until done",
        ratios=[our / their for our, their in zip(mine, bare, strict=True)],
        budget=budget,
        sense="at most",
        details=[f"milliseconds: feedback {_ms(mine)};  bare task {_ms(bare)}", loads],
    )


def _ms(seconds: Sequence[float]) -> str:
    return f"{1e3 * median(seconds):.2f} ({1e3 * min(seconds):.2f} to {1e3 * max(seconds):.2f})"


def _tail(seconds: Sequence[float]) -> tuple[float, float]:
    return median(seconds), quantiles(seconds, n=100)[98]


def _begun(tb: Tellback) -> list[Prompt]:
    """A prompt for each call, so that none takes what another has earned; workers know all of them."""
    reminder = FeedbackProviderConfig(StaticFeedback("Mind the goal."), FeedbackTrigger(every_n_calls=1))
    stamp = time.time_ns()
    prompts = [tb.prompt(f"bench-{stamp}-{n}", "p", feedback_providers=[reminder]) for n in range(SAMPLES)]
    tb.flush()
    streams = [("XLEN", stream_of(shard, Family.EVENTS)) for shard in tb.context.layout.all]
    wait(lambda: not any(tb.context.database.pipeline(streams)), 60)
    return prompts


def _feedback(prompts: Sequence[Prompt], rate: float, seed: int) -> list[float]:
    """Seconds of each call: every one of them earns feedback."""

    def call(number: int, due: int) -> float:
        prompts[number].tool_invoked("search", params={"query": "ruby creator", "page": number}, result="found")
        assert prompts[number].feedback(wait=LONGEST), "a call earned no feedback"
        return (time.time_ns() - due) / 1e9

    return each(rate, SAMPLES, seed, call)


@contextmanager
def _load(system: BenchmarkSystem, rate: float, seconds: float) -> Generator[None]:
    command = [sys.executable, "-m", "benchmarks.hosts", str(rate), str(seconds)]
    environment = {
        **os.environ,
        "TELLBACK_REDIS_URL": system.settings.redis_url,
        "TELLBACK_DATA_DIR": system.settings.data_dir,
    }
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            assert process.poll() is None, "the load ended before what was measured above it"
            process.terminate()
