"""A process that lingers applies the entries of a few sessions at a time, and in between what has come meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tellback import clock
from tellback.errors import Unavailable
from tellback.state.database import Database
from tellback.state.intake_lease import Lease, Read
from tellback.state.keys import Layout
from tellback_workers import linger as module
from tellback_workers.linger import SESSIONS, Lingerer, QueuePressure
from tellback_workers.wakeups import NotPublished
from tests.support.lingering import FAMILY, JointRecorder, LingerBench

MANY = 3 * SESSIONS


@pytest.fixture
def recorder(database: Database) -> JointRecorder:
    return JointRecorder(database)


@pytest.fixture
def bench(database: Database, layout: Layout, recorder: JointRecorder) -> LingerBench:
    return LingerBench(database, layout, recorder)


def append_sessions(bench: LingerBench) -> None:
    """Append two calls of each of many sessions, before anybody lingers, so that they are read at once."""
    for number in range(MANY):
        bench.append(number % 2, f"{number}a", f"{number}b", session=f"session-{number}")


def fail_second_part(recorder: JointRecorder, error: Exception) -> None:
    """Raise the error at the second part that is applied."""
    parts = iter([False, True])

    def fail() -> None:
        if next(parts, False):
            raise error

    recorder.when_together = fail


def in_order(tools: list[str]) -> bool:
    return all(tools.index(f"{number}a") < tools.index(f"{number}b") for number in range(MANY))


def test_a_call_waits_for_a_few_of_the_sessions_that_were_read_before_it(
    bench: LingerBench, recorder: JointRecorder
) -> None:
    """An agent may wait for its feedback: behind all that a host had sent just before, p99 was 2.2 x a bare task's."""
    append_sessions(bench)

    def late() -> None:
        recorder.when_together = lambda: None
        bench.append(3, "late", session="late")

    recorder.when_together = late
    assert bench.linger(idle_seconds=0.2) == []
    assert 2 * SESSIONS <= recorder.tools.index("late") < 4 * SESSIONS
    assert len(recorder.tools) == 2 * MANY + 1
    assert in_order(recorder.tools)


def test_a_session_with_more_calls_waits_for_two_batches_of_others_at_most(
    bench: LingerBench, recorder: JointRecorder
) -> None:
    """Those with the fewest come first, and new ones may come without end."""
    bench.append(0, *["long"] * 3, session="long")
    bench.append(1, *map(str, range(SESSIONS)), session="other")
    coming = iter(range(40))

    def more() -> None:
        if (turn := next(coming, None)) is not None:
            for number in range(SESSIONS):
                bench.append(2, f"{turn}-{number}", session=f"{turn}-{number}")

    recorder.when_together = more
    more()
    bench.linger(batch=20, idle_seconds=0.2)
    assert recorder.tools.index("long") <= 20 + 3 * SESSIONS
    assert len(recorder.tools) == 3 + SESSIONS + 40 * SESSIONS


def test_a_process_reads_on_after_a_batch(bench: LingerBench, recorder: JointRecorder) -> None:
    """Entries count as read ahead until all are applied, and then from none."""
    coming = iter(range(20))

    def more() -> None:
        if (number := next(coming, None)) is None:
            bench.other_work = True
        else:
            bench.append(2, str(number))

    recorder.when_together = more
    more()
    bench.linger(batch=2)  # it stays with quiet streams for a minute
    assert recorder.tools == [str(number) for number in range(20)]


def test_a_process_waits_for_no_entry_while_it_has_some(
    bench: LingerBench, recorder: JointRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_sessions(bench)
    read_next, waits = bench.intake.read_next, list[tuple[int, int]]()

    def noted(after: Mapping[Lease, bytes], count: int, block_ms: int, notified_after: str | None = None) -> Read:
        waits.append((len(recorder.tools), block_ms))
        return read_next(after, count, block_ms, notified_after)

    monkeypatch.setattr(bench.intake, "read_next", noted)
    bench.linger(idle_seconds=0.2)
    assert [waited for applied, waited in waits if applied < 2 * MANY] == [0, 0, 0]
    assert all(waited for applied, waited in waits if applied == 2 * MANY)


def test_a_stream_is_not_quiet_while_its_entries_wait(bench: LingerBench, recorder: JointRecorder) -> None:
    append_sessions(bench)
    recorder.when_together = lambda: clock.sleep(0.1)
    assert bench.linger(idle_seconds=0.05) == []
    assert len(recorder.tools) == len(set(recorder.tools)) == 2 * MANY


def test_what_waits_of_a_lost_lease_is_left_to_its_next_holder(
    bench: LingerBench, recorder: JointRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the lease a part would be refused, and applied once more."""
    append_sessions(bench)
    read_next = bench.intake.read_next

    def frozen(after: Mapping[Lease, bytes], *arguments: Any) -> Read:
        if recorder.tools:
            monkeypatch.setattr(bench.intake, "read_next", read_next)
            for lease in after:
                bench.database.command("DEL", lease.key)
            bench.append(0, "late 0", session="late")  # by which it meets the lost leases
            bench.append(1, "late 1", session="late")
        return read_next(after, *arguments)

    monkeypatch.setattr(bench.intake, "read_next", frozen)
    bench.linger(idle_seconds=0.2)
    assert len(recorder.tools) == len(set(recorder.tools))
    assert bench.linger(idle_seconds=0.2) == []
    assert len(recorder.tools) == len(set(recorder.tools)) == 2 * MANY + 2


def test_a_batch_that_fails_costs_the_sessions_that_were_read_with_it_no_call_and_repeats_none(
    bench: LingerBench, recorder: JointRecorder
) -> None:
    """To recover a stream applies what waits for its turn too."""
    append_sessions(bench)
    fail_second_part(recorder, OSError("a batch fails"))
    assert bench.linger(idle_seconds=0.2) == []
    assert len(recorder.tools) == len(set(recorder.tools)) == 2 * MANY
    assert in_order(recorder.tools)


def test_what_an_outage_leaves_is_recovered_by_the_next_consumer_in_order(
    bench: LingerBench, recorder: JointRecorder
) -> None:
    """It is pending then, whether it was being applied or waited for its turn."""
    append_sessions(bench)
    fail_second_part(recorder, Unavailable("Redis is away"))
    with pytest.raises(Unavailable):
        bench.linger()
    assert len(recorder.tools) == 2 * SESSIONS
    assert bench.linger(idle_seconds=0.2) == []
    assert len(recorder.tools) == len(set(recorder.tools)) == 2 * MANY
    assert in_order(recorder.tools)


def test_what_was_read_is_applied_before_its_process_does_other_work(
    bench: LingerBench, recorder: JointRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.0)  # after each part
    append_sessions(bench)

    def needed() -> None:
        bench.other_work = True

    recorder.when_together = needed
    assert bench.linger() == []
    assert len(recorder.tools) == 2 * MANY
    assert bench.lingered_on() == 0


def test_what_was_read_is_applied_before_its_process_leaves_without_a_broker(
    bench: LingerBench, recorder: JointRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that cannot be asked for messages left what had been read to the next visit, to be recovered alone."""
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.0)
    append_sessions(bench)

    def ask_broker() -> bool:
        if recorder.tools:
            raise NotPublished("the broker is away")
        return False

    pressure = QueuePressure(lambda: True, ask_broker)
    lingerer = Lingerer(
        bench.intake, bench.consumer, pressure.needs_worker, lease_seconds=5, idle_seconds=60, batch=500
    )
    assert lingerer.linger(bench.layout.all, FAMILY) == []
    assert len(recorder.tools) == 2 * MANY
