"""Tool events, published by one host, evaluated and counted exactly once, against B's tasks a second."""

from __future__ import annotations

import time

from benchmarks.bare import Bare
from benchmarks.measure import Result, spread
from benchmarks.system import System, wait
from tellback import FeedbackProviderConfig, FeedbackTrigger, Prompt, StaticFeedback, Tellback, connect
from tellback.names import Family
from tellback.state.evaluations import Counts, EvaluationId, Evaluations
from tellback.state.keys import stream_of

RUNS = 5
SESSIONS = 16
EVENTS = 48_000
TASKS = 1_500
EVERY = 10


def measure(system: System) -> Result:
    bare = Bare(system)
    system.worker("tellback_workers.app", "events", "-E")
    ours: list[float] = []
    theirs: list[float] = []
    with connect(settings=system.settings) as tb:
        _events(tb, EVENTS // 8)
        bare.rate(TASKS // 4)
        for _ in range(RUNS):
            theirs.append(bare.rate(TASKS))
            ours.append(_events(tb, EVENTS))
    return Result(
        name="tool_events",
        what="tool events published, evaluated and counted exactly once, against a bare Celery task's rate",
        ratios=[our / their for our, their in zip(ours, theirs, strict=True)],
        budget=25,
        sense="at least",
        details=[f"events a second {spread(ours)};  bare tasks a second {spread(theirs)}"],
    )


def _events(tb: Tellback, events: int) -> float:
    """Events a second from the first publish until the last is counted; each tenth call of a prompt earns feedback."""
    reminder = FeedbackProviderConfig(StaticFeedback("Mind the goal."), FeedbackTrigger(every_n_calls=EVERY))
    stamp = time.time_ns()
    prompts = [tb.prompt(f"bench-{stamp}-{n}", "p", feedback_providers=[reminder]) for n in range(SESSIONS)]
    tb.flush()
    start = time.perf_counter()
    for n in range(events // SESSIONS):
        for prompt in prompts:
            prompt.tool_invoked("search", params={"query": "ruby creator", "page": n}, result="found", duration_ms=12)
    tb.flush()
    streams = [("XLEN", stream_of(shard, Family.EVENTS)) for shard in tb.context.layout.all]
    wait(lambda: not any(tb.context.database.pipeline(streams)), 60)  # an entry leaves with the commit that counts it
    seconds = time.perf_counter() - start
    due = [Counts(events // SESSIONS, events // SESSIONS // EVERY, 0, 0)] * SESSIONS
    assert [_counts(tb, prompt) for prompt in prompts] == due, "an event was lost or counted twice"
    return events / seconds


def _counts(tb: Tellback, prompt: Prompt) -> Counts:
    store = Evaluations(tb.context.database, tb.context.layout.of(prompt.session))
    return store.counts(EvaluationId(prompt.session, prompt.name, prompt.evaluation))
