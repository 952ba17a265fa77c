"""A command or record that cannot be read, since a newer release wrote it or somebody by hand, costs only itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tellback import Tellback
from tellback.contracts.commands import CommandRecord
from tellback.doctor.backlog import check_running
from tellback.errors import NotFound
from tellback.names import host_queue
from tellback.state.database import Database
from tellback.state.job_losses import AbsentHosts
from tellback.state.jobs import POSTPONE_MS, Jobs
from tellback.state.keys import FLEET, Layout, Shard
from tellback.state.presence import Presence, Worker
from tellback.state.records import Records
from tellback_workers import sweep_jobs as sweeping
from tellback_workers.runtime import Runtime
from tellback_workers.sweep_jobs import sweep_jobs
from tests.support.jobs import CommandQueue, take, taken
from tests.support.unreadable import newer, of_another_type, session_of

Sweep = Callable[[], None]


def newly_queued(database: Database, shard: Shard, command_id: str) -> None:
    key = shard.key("job", command_id)
    database.command("HSET", key, "spec", newer(database.command("HGET", key, "spec")))


@pytest.fixture
def sweep(runtime: Runtime, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    """Sweeps lost commands, each of which is decided at first sight."""
    monkeypatch.setattr(sweeping, "WATCH", 0.0)
    return lambda: sweep_jobs(runtime, layout)


def test_a_lost_command_that_cannot_be_read_keeps_no_other_from_its_record(
    database: Database,
    layout: Layout,
    jobs: Jobs,
    queue: CommandQueue,
    shard: Shard,
    sweep: Sweep,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is postponed, logged, and recorded by a release that can read it."""
    session = session_of(layout)
    for name in ("a", "b", "c"):
        queue.put(session, name)
        assert take(jobs, seconds=0.001)
    key = shard.key("job", "b")
    known = database.command("HGET", key, "spec")
    newly_queued(database, shard, "b")
    for name in ("a", "b", "c"):
        database.command("ZADD", shard.key("running"), "XX", 1, name)
    sweep()
    assert sorted(record.command_id for record in Records(database, layout).last(session)) == ["a", "c"]
    assert "job.unreadable command_id='b'" in caplog.text
    left = float(database.command("ZSCORE", shard.key("running"), "b")) - database.now_ms()
    assert POSTPONE_MS / 2 < left <= POSTPONE_MS
    database.command("HSET", key, "spec", known)
    database.command("ZADD", shard.key("running"), "XX", 1, "b")
    sweep()
    assert sorted(record.command_id for record in Records(database, layout).last(session)) == ["a", "b", "c"]


def test_a_lost_command_that_nobody_can_read_ends_in_a_record_after_an_hour(
    database: Database, layout: Layout, jobs: Jobs, queue: CommandQueue, shard: Shard, sweep: Sweep
) -> None:
    """Until then, workers of a newer release may record its loss."""
    session = session_of(layout)
    for name in ("newer", "damaged", "bare"):
        queue.put(session, name, on_lost="retry")
        assert take(jobs, seconds=0.001)
    newly_queued(database, shard, "newer")
    records = dict[str, CommandRecord]()
    database.command("HSET", shard.key("job", "damaged"), "spec", b'{"argv": [\xff')
    database.command("HDEL", shard.key("job", "bare"), "spec")
    for minutes, ended in ((0, set[str]()), (59, set[str]()), (1, {"newer", "damaged", "bare"})):
        for name in ("newer", "damaged", "bare"):
            database.command("ZADD", shard.key("running"), "XX", 1, name)
            if minutes:
                database.command("HINCRBY", shard.key("job", name), "overdue", -60_000 * minutes)
        sweep()
        sweep()  # a command that waits is postponed, and one that has ended is not running
        records = {record.command_id: record for record in Records(database, layout).last(session)}
        assert set(records) == ended
    assert records["newer"].command == ["true"]
    assert records["damaged"].command == records["bare"].command == []
    for record in records.values():
        assert record.exit_code is None
        assert record.error is not None
        assert "cannot be read; worker w@test had leased it" in record.error
    assert take(jobs, seconds=0.001) is None  # none is tried again: nobody knows what it was


def test_the_doctor_names_lost_commands_that_cannot_be_read_and_none_of_a_newer_worker(
    database: Database, layout: Layout, jobs: Jobs, queue: CommandQueue, shard: Shard, sweep: Sweep
) -> None:
    names = ("sound", "newer", "damaged", "odd", "ownerless")
    for name in names:
        queue.put(session_of(layout), name)
        assert take(jobs, seconds=0.001)
    for name in ("newer", "damaged", "ownerless"):
        newly_queued(database, shard, name)
    of_another_type(database, shard.key("job", "odd"))
    database.command("HDEL", shard.key("job", "ownerless"), "session")
    for name in names:
        database.command("ZADD", shard.key("running"), "XX", database.now_ms() + 60_000 if name == "newer" else 1, name)
    sweep()
    finding = check_running(database, layout)
    assert finding.state == "wrong"
    assert finding.found.startswith("3 leased commands cannot be read")
    assert all(shard.key("job", name) in finding.found for name in ("damaged", "odd", "ownerless"))
    assert "upgrade the workers" in finding.advice
    for name in ("damaged", "odd", "ownerless"):
        database.command("DEL", shard.key("job", name))
    assert check_running(database, layout).state == "ok"


def test_a_lost_command_whose_record_cannot_be_stored_keeps_no_other_from_its_own(
    database: Database, layout: Layout, jobs: Jobs, queue: CommandQueue, shard: Shard, sweep: Sweep
) -> None:
    spoilt, sound = [name for name in map(str, range(100)) if layout.of(name).index == 0][:2]
    for session in (spoilt, sound):
        queue.put(session, f"of-{session}")
        assert take(jobs, seconds=0.001)
    for place, session in enumerate((spoilt, sound), 1):
        database.command("ZADD", shard.key("running"), "XX", place, f"of-{session}")
    database.command("SET", shard.key("records", spoilt), "no list", "PX", 60_000)
    sweep()
    assert [record.command_id for record in Records(database, layout).last(sound)] == [f"of-{sound}"]
    database.command("DEL", shard.key("records", spoilt))


def test_a_queued_command_that_cannot_be_read_is_passed_over(
    database: Database, layout: Layout, jobs: Jobs, queue: CommandQueue, shard: Shard
) -> None:
    """Whoever leased it continues with the next one."""
    session = session_of(layout)
    queue.put(session, "odd")
    queue.put(session, "sound")
    newly_queued(database, shard, "odd")
    lease = take(jobs)
    assert lease is not None
    assert lease.command_id == "sound"


def test_a_command_whose_key_has_another_type_keeps_no_other_from_a_worker_or_its_record(
    database: Database, layout: Layout, jobs: Jobs, queue: CommandQueue, shard: Shard, sweep: Sweep
) -> None:
    """It may be queued, running, or of an absent host."""
    session = session_of(layout)
    for id_ in ("queued", "running", "lost"):
        queue.put(session, id_)
    queue.put(session, "absent", host="gone")
    queue.put(session, "abandoned", host="gone")
    of_another_type(database, shard.key("job", "queued"))
    assert [taken(jobs, seconds=0.001).command_id for _ in range(2)] == ["running", "lost"]
    for id_ in ("running", "absent"):
        of_another_type(database, shard.key("job", id_))
    for id_ in ("running", "lost"):
        database.command("ZADD", shard.key("running"), "XX", 1, id_)
    sweep()
    assert [record.command_id for record in Records(database, layout).last(session)] == ["lost"]
    assert AbsentHosts(database, layout).abandon(0) == {"gone": ["abandoned"]}
    database.command("DEL", *(shard.key("job", id_) for id_ in ("queued", "running", "absent")))


def test_a_command_for_an_absent_host_that_cannot_be_read_has_its_record_as_any_other(
    database: Database, layout: Layout, queue: CommandQueue, shard: Shard
) -> None:
    session = session_of(layout)
    queue.put(session, "odd", host="gone")
    queue.put(session, "sound", host="gone")
    newly_queued(database, shard, "odd")
    assert AbsentHosts(database, layout).abandon(0) == {"gone": ["odd", "sound"]}
    odd, _ = Records(database, layout).last(session)
    assert (odd.command_id, odd.command, odd.exit_code) == ("odd", ["true"], None)


def test_no_host_is_given_up_while_a_worker_cannot_be_read(
    database: Database, layout: Layout, queue: CommandQueue
) -> None:
    """That worker may serve it. Those that can be read are listed all the same."""
    presence = Presence(database, layout.team)
    presence.announce(Worker(name="a", host="a", pid=1, queues=("events",), version="0"))
    presence.announce(Worker(name="b", host="served", pid=1, queues=(host_queue("served"),), version="0"))
    database.command("SET", FLEET.key("worker", "b"), '{"name":"b"}', "PX", 15_000)
    queue.put(session_of(layout), "c", host="served")
    assert [worker.name for worker in presence.workers()] == ["a"]
    assert AbsentHosts(database, layout).abandon(0) == {}


def test_a_record_that_cannot_be_read_counts_as_gone(
    database: Database, layout: Layout, queue: CommandQueue, shard: Shard, tb: Tellback
) -> None:
    """It is left out of listings, and the gate does not pass without it."""
    session = session_of(layout)
    for name in ("a", "b"):
        queue.put(session, name, refusal="not allowed")
    key = shard.key("records", session)
    database.command("LSET", key, 0, database.command("LINDEX", key, 0).replace(b'"command_id"', b'"id"'))
    records = Records(database, layout)
    assert [record.command_id for record in records.last(session)] == ["b"]
    kept, gone = records.all(session)
    assert ([record.command_id for record in kept], gone) == (["b"], 1)
    assert [record.command_id for record in records.follow(session, 0, [None])] == ["b"]
    assert any("1 older record is gone" in reason for reason in tb.gate(session).reasons)


def test_a_wait_for_a_record_that_cannot_be_read_ends(
    database: Database, layout: Layout, queue: CommandQueue, shard: Shard
) -> None:
    session = session_of(layout)
    queue.put(session, "a", refusal="not allowed")
    database.command("LSET", shard.key("done", "a"), 0, '{"of":"a newer release"}')
    database.command("LSET", shard.key("records", session), 0, '{"of":"a newer release"}')
    with pytest.raises(NotFound, match="command a"):
        Records(database, layout).wait(session, "a", 5)
