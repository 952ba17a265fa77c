"""`true` as a job, from submission to record, against a bare Celery task that calls `subprocess.run`."""

from __future__ import annotations

import time
from functools import partial

from benchmarks import bare
from benchmarks.bare import Bare
from benchmarks.measure import RowResult, Work, spread
from benchmarks.system import BenchmarkSystem, cpu_seconds, wait
from tellback import Tellback, connect

RUNS = 5
SESSIONS = 16
JOBS = 768  # forty-eight a session: its newest records are all there to be looked at
TASKS = 1_200


def measure(system: BenchmarkSystem) -> RowResult:
    theirs_at_work = Bare(system, bare.command)
    system.worker("tellback_workers.app", "commands", "-E")
    ours: list[Work] = []
    theirs: list[Work] = []
    with connect(settings=system.settings) as tb:
        _jobs(tb, JOBS // 4)
        theirs_at_work.run(TASKS // 4)
        for _ in range(RUNS):
            theirs.append(theirs_at_work.run(TASKS))
            ours.append(_jobs(tb, JOBS))
    return RowResult(
        name="command_throughput",
        what="`true` as a job, submitted, run and recorded, against a bare Celery task that runs it",
        ratios=[our.rate / their.rate for our, their in zip(ours, theirs, strict=True)],
        budget=1.2,
        sense="at least",
        details=[
            f"a second: jobs {spread([w.rate for w in ours])};  bare tasks {spread([w.rate for w in theirs])}",
            f"processor time of a job, submitted and recorded: {spread([w.cpu_us for w in ours])} µs",
            f"processor time of a bare task, published before: {spread([w.cpu_us for w in theirs])} µs",
        ],
    )


def _jobs(tb: Tellback, jobs: int) -> Work:
    """The work from the first submission until the last record."""
    stamp = time.time_ns()
    sessions = [f"bench-{stamp}-{n}" for n in range(SESSIONS)]
    layout = tb.context.layout
    recorded = [layout.of(session).key("recorded", session) for session in sessions]
    start, cpu = time.perf_counter(), cpu_seconds()
    for _ in range(jobs // SESSIONS):
        for session in sessions:
            tb.submit(["true"], session=session)
    tb.flush()
    for key in recorded:  # one after the other: a look costs as little as one at the bare tasks' counter
        wait(partial(_has, tb, key, jobs // SESSIONS), 60)
    seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu
    assert all(record.succeeded for session in sessions for record in tb.records(session, last=200)), "a job failed"
    return Work(jobs / seconds, cpu / jobs * 1e6)


def _has(tb: Tellback, key: str, records: int) -> bool:
    return int(tb.context.database.command("GET", key) or 0) >= records
