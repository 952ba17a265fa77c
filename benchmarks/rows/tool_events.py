"""Tool events, published by one host, evaluated and counted exactly once, against B's tasks a second."""

from __future__ import annotations

import time

from benchmarks.bare import Bare
from benchmarks.measure import RowResult, Work, spread
from benchmarks.system import BenchmarkSystem, cpu_seconds, wait
from tellback import FeedbackProviderConfig, FeedbackTrigger, Prompt, StaticFeedback, Tellback, connect
from tellback.names import Family
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import EvaluationCounts, Evaluations
from tellback.state.keys import stream_of

RUNS = 5
SESSIONS = 16
EVENTS = 48_000
TASKS = 1_500
EVERY = 10


def measure(system: BenchmarkSystem) -> RowResult:
    bare = Bare(system)
    system.worker("tellback_workers.app", "events", "-E")
    ours: list[Work] = []
    theirs: list[Work] = []
    with connect(settings=system.settings) as tb:
        work(tb, EVENTS // 8)
        bare.run(TASKS // 4)
        for _ in range(RUNS):
            theirs.append(bare.run(TASKS))
            ours.append(work(tb, EVENTS))
    return RowResult(
        name="tool_events",
        what="tool events published, evaluated and counted exactly once, against a bare Celery task's rate",
        ratios=[our.rate / their.rate for our, their in zip(ours, theirs, strict=True)],
        budget=50,
        sense="at least",
        details=[
            f"a second: events {spread([w.rate for w in ours])};  bare tasks {spread([w.rate for w in theirs])}",
            f"processor time of an event, published and applied: {spread([w.cpu_us for w in ours])} µs",
            f"processor time of a bare task, published before: {spread([w.cpu_us for w in theirs])} µs",
        ],
    )


def work(tb: Tellback, events: int) -> Work:
    """The work from the first publish until the last is counted; each tenth call of a prompt earns feedback."""
    reminder = FeedbackProviderConfig(StaticFeedback("Mind the goal."), FeedbackTrigger(every_n_calls=EVERY))
    stamp = time.time_ns()
    prompts = [tb.prompt(f"bench-{stamp}-{n}", "p", feedback_providers=[reminder]) for n in range(SESSIONS)]
    tb.flush()
    start, cpu = time.perf_counter(), cpu_seconds()
    for n in range(events // SESSIONS):
        for prompt in prompts:
            prompt.tool_invoked("search", params={"query": "ruby creator", "page": n}, result="found", duration_ms=12)
    tb.flush()
    streams = [("XLEN", stream_of(shard, Family.EVENTS)) for shard in tb.context.layout.all]
    wait(lambda: not any(tb.context.database.pipeline(streams)), 60)  # an entry leaves with the commit that counts it
    seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu
    due = [EvaluationCounts(events // SESSIONS, events // SESSIONS // EVERY, 0, 0)] * SESSIONS
    assert [counts_of(tb, prompt) for prompt in prompts] == due, "an event was lost or counted twice"
    return Work(events / seconds, cpu / events * 1e6)


def counts_of(tb: Tellback, prompt: Prompt) -> EvaluationCounts:
    store = Evaluations(tb.context.database, tb.context.layout.of(prompt.session))
    return store.counts(EvaluationId(prompt.session, prompt.name, prompt.evaluation))
