"""Tool events, published by one host, evaluated and counted exactly once, against B's tasks a second.

Their processor time is a row of its own. What Redis itself could do with them is a detail of the first.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.bare import Bare
from benchmarks.measure import RowResult, Work, spread
from benchmarks.raw_redis import events_a_second
from benchmarks.system import BenchmarkSystem, cpu_by_process, wait
from tellback import FeedbackProviderConfig, FeedbackTrigger, Prompt, StaticFeedback, Tellback, connect
from tellback.contracts.codec import encode
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.names import Family
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import EvaluationCounts, Evaluations
from tellback.state.keys import stream_of

RUNS = 5
SESSIONS = 16
EVENTS = 48_000
TASKS = 1_500
EVERY = 10
CPU_US = 30
PARAMS: Mapping[str, object] = {"query": "ruby creator"}


def measure(system: BenchmarkSystem) -> tuple[RowResult, RowResult]:
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
        could = could_do(system, tb)
    return _rate_result(ours, theirs, could), _cpu_result(ours, theirs)


def _rate_result(ours: Sequence[Work], theirs: Sequence[Work], could: float) -> RowResult:
    rates = [work.rate for work in ours]
    share = spread([100 * rate / could for rate in rates])
    return RowResult(
        name="tool_events",
        what="tool events published, evaluated and counted exactly once, against a bare Celery task's rate",
        ratios=[our.rate / their.rate for our, their in zip(ours, theirs, strict=True)],
        budget=50,
        sense="at least",
        details=[
            f"a second: events {spread(rates)};  bare tasks {spread([w.rate for w in theirs])}",
            f"Redis itself, the same commands and bytes without scripts: {could:,.0f} a second; ours: {share} %",
        ],
    )


def _cpu_result(ours: Sequence[Work], theirs: Sequence[Work]) -> RowResult:
    return RowResult(
        name="tool_event_cpu",
        what=f"processor time of an event in host and worker, published and applied, against {CPU_US} µs",
        ratios=[work.of_ours_us / CPU_US for work in ours],
        budget=1.0,
        sense="at most",
        details=[
            f"µs: host and worker {spread([w.of_ours_us for w in ours])}",
            f"µs with Redis: {spread([w.cpu_us for w in ours])}",
            f"µs in the last run: {ours[-1].shares}",
            f"processor time of a bare task, published before: {spread([w.cpu_us for w in theirs])} µs",
        ],
    )


def could_do(system: BenchmarkSystem, tb: Tellback) -> float:
    """Return how many events Redis takes a second, with the bytes of one that was just applied."""
    prompt = begin(tb, "raw", 1)[0]
    names = (prompt.session, prompt.name, prompt.evaluation)
    call: dict[str, Any] = {"params": {**PARAMS, "page": 1_000}, "result": "found", "duration_ms": 12}
    for _ in range(EVERY * 10):
        prompt.tool_invoked("search", **call)
    applied(tb)
    key = tb.context.layout.of(prompt.session).key("eval", *names)
    state, line = tb.context.database.command("HMGET", key, "state", "call:1")
    session, name, evaluation = names
    event = ToolInvoked(
        event_id=new_event_id(), session=session, prompt=name, evaluation=evaluation, tool="search", **call
    )
    return events_a_second(system, encode(event), line, state, EVENTS)


def begin(tb: Tellback, label: str, prompts: int) -> list[Prompt]:
    """Begin evaluations in which each tenth call earns feedback."""
    reminder = FeedbackProviderConfig(StaticFeedback("Mind the goal."), FeedbackTrigger(every_n_calls=EVERY))
    found = [tb.prompt(f"bench-{label}-{n}", "p", feedback_providers=[reminder]) for n in range(prompts)]
    tb.flush()
    return found


def applied(tb: Tellback) -> None:
    """Wait until everything that was published is applied: an entry leaves with the commit that counts it."""
    tb.flush()
    streams = [("XLEN", stream_of(shard, Family.EVENTS)) for shard in tb.context.layout.all]
    wait(lambda: not any(tb.context.database.pipeline(streams)), 60)


def work(tb: Tellback, events: int) -> Work:
    """The work from the first publish until the last is counted; each tenth call of a prompt earns feedback."""
    prompts = begin(tb, str(time.time_ns()), SESSIONS)
    start, begun = time.perf_counter(), cpu_by_process()
    for n in range(events // SESSIONS):
        for prompt in prompts:
            prompt.tool_invoked("search", params={**PARAMS, "page": n}, result="found", duration_ms=12)
    applied(tb)
    seconds, now = time.perf_counter() - start, cpu_by_process()
    due = [EvaluationCounts(events // SESSIONS, events // SESSIONS // EVERY, 0, 0)] * SESSIONS
    assert [counts_of(tb, prompt) for prompt in prompts] == due, "an event was lost or counted twice"
    ours = now.host - begun.host + now.workers - begun.workers
    all_of_it = ours + now.redis - begun.redis
    return Work(events / seconds, all_of_it / events * 1e6, ours / events * 1e6, now.of_each(begun, events))


def counts_of(tb: Tellback, prompt: Prompt) -> EvaluationCounts:
    store = Evaluations(tb.context.database, tb.context.layout.of(prompt.session))
    return store.counts(EvaluationId(prompt.session, prompt.name, prompt.evaluation))
