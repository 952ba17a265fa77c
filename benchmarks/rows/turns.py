"""Turns that hosts open and answer, from the user's message to the answer in the outbox, against a bare Celery task."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from benchmarks.bare import Bare
from benchmarks.measure import RowResult, Work, spread
from benchmarks.system import CONCURRENCY, BenchmarkSystem, cpu_seconds
from tellback import OutgoingResponse, connect
from tellback.settings import load

RUNS = 5
TURNS = 1_500  # of each host
TASKS = 3_000
CONVERSATIONS = 16


def measure(system: BenchmarkSystem) -> RowResult:
    theirs_at_work = Bare(system)
    ours: list[Work] = []
    theirs: list[Work] = []
    theirs_at_work.run(TASKS // 4)
    for _ in range(RUNS):
        theirs.append(theirs_at_work.run(TASKS))
        ours.append(_turns(system))
    return RowResult(
        name="turns",
        what="turns opened and answered, each a round trip, against a bare Celery task",
        ratios=[our.rate / their.rate for our, their in zip(ours, theirs, strict=True)],
        budget=4.0,
        sense="at least",
        details=[
            f"a second, {CONCURRENCY} processes: turns {spread([work.rate for work in ours])}",
            f"a second, {CONCURRENCY} processes: bare tasks {spread([work.rate for work in theirs])}",
            f"processor time of a turn: {spread([work.cpu_us for work in ours])} µs",
            f"processor time of a bare task, published before: {spread([work.cpu_us for work in theirs])} µs",
        ],
    )


def _turns(system: BenchmarkSystem) -> Work:
    """As many hosts as B has processes, which begin at once."""
    environment = {
        **os.environ,
        "TELLBACK_REDIS_URL": system.settings.redis_url,
        "TELLBACK_DATA_DIR": system.settings.data_dir,
    }
    hosts = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.rows.turns"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        for _ in range(CONCURRENCY)
    ]
    for host in hosts:
        assert host.stdout is not None
        host.stdout.readline()
    start, cpu = time.perf_counter(), cpu_seconds()
    for host in hosts:
        assert host.stdin is not None
        host.stdin.write(b"go\n")
        host.stdin.flush()
    for host in hosts:
        assert host.stdout is not None
        host.stdout.readline()
    seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu
    for host in hosts:
        host.communicate()
    amount = CONCURRENCY * TURNS
    return Work(amount / seconds, cpu / amount * 1e6)


def main() -> None:
    """One host: warms up, waits for the word, opens and answers."""
    stamp = time.time_ns()
    response = OutgoingResponse.text_only("It left the warehouse this morning.")
    with connect(settings=load()) as tb:

        def play(number: int) -> None:
            turn = tb.open_turn(
                channel="chat",
                conversation=f"{stamp}-{number % CONVERSATIONS}",
                message_id=str(number),
                text="Can you tell me where my order is?",
            )
            assert turn.respond(response) == "accepted"

        for number in range(50):
            play(-1 - number)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        for number in range(TURNS):
            play(number)
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
