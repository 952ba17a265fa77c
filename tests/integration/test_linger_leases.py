"""The leases of a process that lingers, which may run out."""

from __future__ import annotations

from typing import Any

import pytest

from tellback.state.database import Database
from tellback.state.dead_letters import DeadLetters
from tellback.state.intake_lease import Read
from tellback.state.keys import Layout, stream_of
from tellback.state.script_calls import Command
from tellback.state.scripts.intake import append_events
from tellback_workers.linger import SESSIONS, Lingerer
from tests.support.clocks import later
from tests.support.intake_entries import read_new
from tests.support.lingering import FAMILY, LEASE, JointRecorder, LingerBench, entry_of
from tests.support.waiting import wait_until


def test_what_came_while_a_process_was_frozen_is_applied_when_it_continues(
    database: Database, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more streams than one read asks, a stream that never had an entry ended the task with a KeyError."""
    monkeypatch.setattr("tellback.state.intake.FEW_STREAMS", 0)
    bench = LingerBench(database, layout)
    read_next, stays = bench.intake.read_next, 10

    def frozen(*arguments: Any) -> Read:
        read = read_next(*arguments)
        if bench.recorder.tools != ["before"]:
            return read
        later(monkeypatch, stays)  # as long as it stays with quiet streams
        for shard in layout.all:
            database.command("DEL", shard.key("lease", FAMILY), shard.key("wakeup", FAMILY))
        bench.append(1, "meanwhile")
        monkeypatch.setattr(bench.intake, "read_next", read_next)
        return read

    monkeypatch.setattr(bench.intake, "read_next", frozen)
    bench.append(1, "before")
    bench.recorder.when_applied = lambda: None if bench.has_applied("before") else later(monkeypatch, stays)
    assert bench.linger(idle_seconds=stays) == []
    assert bench.recorder.tools == ["before", "meanwhile"]
    assert bench.lingered_on() == 0


def test_a_lease_that_is_lost_before_a_dead_letter_costs_its_stream_alone_a_while(
    database: Database, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script that moves an entry to the dead letters checks the fence, and the other streams were read with it."""
    bench = LingerBench(database, layout)
    read_next = bench.intake.read_next
    broken = layout.shard(1)

    def frozen(*arguments: Any) -> Read:
        read = read_next(*arguments)
        if any(lease.shard == broken for lease in read.entries):
            database.command("DEL", broken.key("lease", FAMILY))
            monkeypatch.setattr(bench.intake, "read_next", read_next)
        return read

    monkeypatch.setattr(bench.intake, "read_next", frozen)
    with bench.lingering(idle_seconds=0.5):
        appended: list[Command] = [("XADD", stream_of(broken, FAMILY), "*", "m", "no event")]
        appended += [entry_of(shard, f"{shard.index}") for shard in (broken, layout.shard(2))]
        database.pipeline(appended)
        wait_until(lambda: len(bench.recorder.tools) == 2, "both events are applied")
    assert sorted(bench.recorder.tools) == ["1", "2"]
    assert [letter.raw for letter in DeadLetters(database, layout).newest()] == ["no event"]


def test_a_stream_that_begins_again_is_free_for_the_next_consumer(
    database: Database, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more streams than one read asks, a process waited for ids above the highest until its minute was over."""
    monkeypatch.setattr("tellback.state.intake.FEW_STREAMS", 0)
    bench = LingerBench(database, layout)
    _, stream, _, field, raw = entry_of(layout.shard(0), "b")
    append = append_events(intake=str(stream), max_entries=100, max_bytes=1 << 20, first=1, events=[raw])
    with bench.lingering():
        bench.append(0, "a")
        wait_until(lambda: bench.has_applied("a"), "the first is applied")
        database.command("XADD", stream, f"{2**64 - 1}-{2**64 - 1}", field, raw)
        wait_until(lambda: bench.has_applied("ab") and not database.command("XLEN", stream), "the last one too")
        assert database.run(append) == [b"appended", 0, 0, 1], "dispatchers must be notified"
        lease = bench.intake.take_lease(layout.shard(0), FAMILY, 60)
        assert lease is not None
        assert len(read_new(bench.intake, lease, 2)) == 1
    assert bench.recorder.tools == ["a", "b"], "it left the rest to that one"


def test_leases_are_renewed_until_all_that_was_read_is_applied(
    database: Database, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is needed elsewhere left the last calls to the sweep once a lease had run out."""
    recorder = JointRecorder(database)
    bench = LingerBench(database, layout, recorder)
    for number in range(8 * SESSIONS):
        bench.append(number % 4, str(number), session=f"session-{number}")
    leases = [shard.key("lease", FAMILY) for shard in layout.all]

    def pass_time() -> None:
        """Let a sixth of a lease pass, for this process and for the leases in Redis."""
        later(monkeypatch, LEASE / 6)
        left = database.pipeline([("PTTL", lease) for lease in leases])
        sixth = round(1_000 * LEASE / 6)
        database.pipeline([("PEXPIRE", *each) for each in zip(leases, (ms - sixth for ms in left), strict=True)])

    recorder.when_together = pass_time
    checks = iter([False])  # then other work needs the process
    lingerer = Lingerer(
        bench.intake, bench.consumer, lambda: next(checks, True), lease_seconds=LEASE, idle_seconds=1_000, batch=500
    )
    assert lingerer.linger(layout.all, FAMILY) == []
    assert len(recorder.tools) == len(set(recorder.tools)) == 8 * SESSIONS
