"""The checks by which a lingering process learns that it is needed, and what it does between two of them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest

from tellback.messaging.append_call import notification
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.intake import Intake
from tellback.state.intake_lease import Lease, Read
from tellback.state.keys import Layout, stream_of
from tellback_workers import linger as module
from tellback_workers.linger import Lingerer, NewStreams, QueuePressure
from tellback_workers.runtime import Runtime
from tests.support.clocks import in_this_thread
from tests.support.lingering import FAMILY, LingerBench


@pytest.fixture
def bench(database: Database, layout: Layout) -> LingerBench:
    return LingerBench(database, layout)


def test_messages_that_wait_while_no_other_process_is_free_end_it(bench: LingerBench) -> None:
    """One that a process fetches which has just become free does not, nor any while another process is free."""
    checks = [(True, True), (True, False), (False, True), (True, True), (False, True), (True, True), (True, True)]
    seen = iter(checks)
    busy, waiting = False, False

    def next_check() -> bool:
        nonlocal busy, waiting
        busy, waiting = next(seen)
        return busy

    queue = QueuePressure(next_check, lambda: waiting)
    lingerer = Lingerer(bench.intake, bench.consumer, queue.needs_worker, lease_seconds=5, idle_seconds=60, batch=500)
    lingerer.linger(bench.layout.all, FAMILY)
    assert list(seen) == []


def test_what_comes_between_the_two_checks_is_applied_before_the_second(bench: LingerBench) -> None:
    """It waited for 10 ms, whether or not the second check found that the process was needed."""
    applied: list[int] = []

    def all_others_busy() -> bool:
        applied.append(len(bench.recorder.tools))
        if len(applied) == 1:
            bench.append(0, "call")
        return True

    queue = QueuePressure(all_others_busy, lambda: True)
    lingerer = Lingerer(bench.intake, bench.consumer, queue.needs_worker, lease_seconds=5, idle_seconds=60, batch=500)
    assert lingerer.linger(bench.layout.all, FAMILY) == []
    assert applied == [0, 1]


def test_between_the_two_checks_it_reads_without_waiting(
    bench: LingerBench, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis may end a wait late, a notification moves the second check no nearer, and the next one comes soon."""
    now, slept, waits, checks = 0.0, list[float](), list[int](), list[float]()
    answers = iter([True, False, True, True])
    read_next = Intake.read_next

    def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    def read(self: Intake, after: Mapping[Lease, bytes], count: int, block_ms: int, notified: str | None) -> Read:
        nonlocal now
        waits.append(block_ms)
        assert len(waits) < 100, "it pauses between two reads"
        now += block_ms / 1_000
        return read_next(self, after, count, 0, notified)

    def has_other_work() -> bool:
        if not checks:
            bench.database.pipeline([notification(stream_of(bench.layout.shard(0), FAMILY))])
        checks.append(now)
        return next(answers)

    in_this_thread(monkeypatch, "monotonic", lambda: now)
    in_this_thread(monkeypatch, "sleep", sleep)
    monkeypatch.setattr(Intake, "read_next", read)
    lingerer = Lingerer(
        bench.intake, bench.consumer, has_other_work, lease_seconds=60, idle_seconds=60, batch=500,
        news=NewStreams(Runtime(settings), FAMILY),
    )  # fmt: skip
    assert lingerer.linger(bench.layout.all, FAMILY) == []
    gaps = [later - earlier for earlier, later in pairwise(checks)]
    soon = module.NOTIFIED_SECONDS
    assert gaps == pytest.approx([module.RECHECK_SECONDS, soon, module.RECHECK_SECONDS], abs=1.5 * soon)
    assert set(slept) == {soon}
    assert set(waits) == {0, round(soon * 1_000)}, "it waits only where no second check is due"
