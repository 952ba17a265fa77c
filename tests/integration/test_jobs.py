"""The way of a job through Redis: queue, lease, record; each transition on a real server, without workers."""

from __future__ import annotations

import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from tellback.contracts.commands import CommandRecord
from tellback.state.database import Database
from tellback.state.job_claims import JobClaimant
from tellback.state.job_keys import ANY_POOL
from tellback.state.job_losses import MAX_ATTEMPTS
from tellback.state.jobs import Jobs
from tellback.state.keys import Layout
from tellback.state.lua_text import script_text
from tellback.state.records import CAP, Records
from tellback_workers.lease_heartbeat import LeaseHeartbeat, LeaseTimes
from tests.support.jobs import AUTHOR, CommandQueue, ended, submission, take, taken
from tests.support.waiting import blocked, wait_until


@pytest.fixture
def layout(_emptied: None) -> Layout:
    """One shard, so that the order is that of one queue."""
    return Layout("default", 1)


@pytest.fixture
def records(database: Database, layout: Layout) -> Records:
    return Records(database, layout)


def test_sessions_take_turns(jobs: Jobs, queue: CommandQueue) -> None:
    """A session that queued a thousand commands does not keep the others waiting."""
    for _ in range(1000):
        queue.put("flood")
    assert [taken(jobs).submitted.session for _ in range(10)] == ["flood"] * 10
    for session in ("a", "b"):
        for number in range(3):
            queue.put(session, f"{session}{number}")
    order = [taken(jobs).command_id for _ in range(9)]
    assert [id_ for id_ in order if id_[0] in "ab" and len(id_) == 2] == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_a_session_keeps_its_own_order(jobs: Jobs, queue: CommandQueue) -> None:
    expected = [queue.put("s") for _ in range(30)]
    assert [taken(jobs).command_id for _ in range(30)] == expected


def test_urgent_commands_overtake(jobs: Jobs, queue: CommandQueue) -> None:
    """Interactive comes before normal, and normal before batch, whoever came first."""
    for _ in range(100):
        queue.put("s", priority="batch")
    queue.put("s", "normal")
    queue.put("s", "urgent", priority="interactive")
    assert [taken(jobs).command_id for _ in range(2)] == ["urgent", "normal"]
    assert taken(jobs).submitted.priority == "batch"


def test_a_pool_leases_only_its_own(jobs: Jobs, queue: CommandQueue) -> None:
    """A command for one host is not given to another pool."""
    queue.put("s", "for-h", host="h")
    assert take(jobs) is None
    lease = take(jobs, pool="h")
    assert lease is not None
    assert lease.command_id == "for-h"


def test_an_empty_queue_leaves_nothing_behind(jobs: Jobs, queue: CommandQueue, database: Database) -> None:
    """Neither turns nor sessions of the past stay in memory."""
    for number in range(5):
        queue.put(f"s{number}", priority="batch")
    while take(jobs) is not None:
        pass
    names = {key.partition(b"}:")[2].partition(b":")[0] for key in database.command("KEYS", "tb:*")}
    assert not names & {b"jobs", b"joborder", b"pools"}


def test_a_full_queue_refuses_commands_with_a_record(jobs: Jobs, queue: CommandQueue, records: Records) -> None:
    """They are neither lost nor kept waiting, and the queues of other hosts take theirs."""
    queue.put_all([submission("s", f"c{number}") for number in range(5)], queue_max=3)
    queue.put_all([submission("s", "of-h", host="h")], queue_max=3)
    found = {record.command_id: record for record in records.last("s")}
    assert found.keys() == {"c3", "c4"}
    assert all(
        record.exit_code is None and "TELLBACK_COMMAND_QUEUE_MAX" in (record.error or "") for record in found.values()
    )
    assert [taken(jobs).command_id for _ in range(3)] == ["c0", "c1", "c2"]
    assert take(jobs) is None
    assert take(jobs, pool="h") is not None


def test_a_queue_accepts_commands_after_it_was_full(jobs: Jobs, queue: CommandQueue, records: Records) -> None:
    """The cap counts what waits, not what was submitted or runs."""
    for number in range(9):
        queue.put_all([submission("s", f"c{number}")], queue_max=1)
        assert taken(jobs).command_id == f"c{number}"
    assert records.last("s") == []


def test_a_full_queue_treats_known_commands_as_before(jobs: Jobs, queue: CommandQueue, records: Records) -> None:
    """A queued command that is submitted twice stays queued, and a cancelled one keeps the record of that."""
    jobs.cancel(submission("s", "gone"), AUTHOR)
    queue.put_all([submission("s", "queued")], queue_max=1)
    queue.put_all([submission("s", "queued"), submission("s", "gone")], queue_max=1)
    assert [(record.command_id, record.error) for record in records.last("s")] == [
        ("gone", f"cancelled before it started {AUTHOR.phrase}")
    ]
    assert taken(jobs).command_id == "queued"


def test_two_workers_never_lease_the_same_command(jobs: Jobs, queue: CommandQueue) -> None:
    ids = {queue.put(f"s{number % 7}") for number in range(300)}

    def consume(_worker: int) -> list[str]:
        found: list[str] = []
        while (lease := take(jobs)) is not None:
            found.append(lease.command_id)
        return found

    with ThreadPoolExecutor(8) as pool:
        leased = Counter(id_ for batch in pool.map(consume, range(8)) for id_ in batch)
    assert set(leased) == ids
    assert set(leased.values()) == {1}


def test_the_same_finish_twice_is_one_record(jobs: Jobs, queue: CommandQueue, records: Records) -> None:
    """A worker that did not hear the answer asks again."""
    queue.put("s")
    lease = taken(jobs)
    assert jobs.finish(lease, ended(lease))
    assert jobs.finish(lease, ended(lease))
    assert records.last("s") == [ended(lease)]
    assert records.superseded("s") == []


def test_a_lost_command_has_one_record_and_a_late_one_is_superseded(
    jobs: Jobs, queue: CommandQueue, records: Records
) -> None:
    """After the lease the sweep records the loss; what the worker says then is kept apart."""
    queue.put("s", "c1")
    lease = take(jobs, seconds=60)
    assert lease is not None
    assert jobs.overdue() == []
    assert jobs.renew(lease, 0)
    lost = wait_until(jobs.overdue, "the lease has run out")
    assert jobs.mark_lost(lost[0])
    assert not jobs.mark_lost(lost[0]), "a second sweep finds nothing"
    assert not jobs.renew(lease, 5)
    assert not jobs.finish(lease, ended(lease))
    kept = records.last("s")
    assert [(record.command_id, record.exit_code, record.worker) for record in kept] == [("c1", None, "w@test")]
    assert kept[0].error == "lost: the lease of worker w@test ran out; whether the command ended is not known"
    assert not jobs.finish(lease, ended(lease)), "a worker that did not hear the answer asks again"
    assert records.superseded("s") == [ended(lease)]
    assert jobs.overdue() == []


def test_a_renewed_lease_is_not_lost(jobs: Jobs, queue: CommandQueue, records: Records) -> None:
    """The sweep that saw it overdue comes too late."""
    queue.put("s")
    lease = take(jobs, seconds=0.05)
    assert lease is not None
    lost = wait_until(jobs.overdue, "the lease has run out")
    assert jobs.renew(lease, 60)
    assert not jobs.mark_lost(lost[0])
    assert records.last("s") == []


def test_the_heartbeat_stores_the_directory_for_the_record_of_a_loss(
    jobs: Jobs, queue: CommandQueue, records: Records, database: Database, layout: Layout
) -> None:
    queue.put("s", "c1")
    lease = take(jobs, seconds=0.02)
    assert lease is not None
    times = LeaseTimes(renew=60, start=60, stop=60, kill=60, lease=0.02, exclusive=False)
    with LeaseHeartbeat(jobs, lease, times) as heartbeat:
        heartbeat.cwd = "/srv/app"
        assert heartbeat.control.begin is not None
        heartbeat.control.begin()
        key = layout.shard(0).key("job", "c1")
        wait_until(lambda: database.command("HGET", key, "cwd") == b"/srv/app", "the directory is stored")
    lost = wait_until(jobs.overdue, "the lease has run out")
    assert jobs.mark_lost(lost[0])
    assert [record.cwd for record in records.last("s")] == ["/srv/app"]


def test_a_heartbeat_goes_on_after_an_error_that_nobody_expected(
    jobs: Jobs, queue: CommandQueue, records: Records, database: Database, layout: Layout
) -> None:
    """Its thread ended with the first one, and a healthy command lost its lease."""
    queue.put("s", "c1")
    lease = taken(jobs)
    running, stop = layout.shard(0).key("running"), layout.shard(0).key("stop", "c1")
    database.command("SET", stop, "of another type")
    times = LeaseTimes(renew=0.3, start=60, stop=60, kill=60, lease=3600.0, exclusive=False)
    at = float(database.command("ZSCORE", running, "c1"))
    with LeaseHeartbeat(jobs, lease, times) as heartbeat:
        assert heartbeat.control.begin is not None
        heartbeat.control.begin()
        wait_until(lambda: float(database.command("ZSCORE", running, "c1")) > at + 1e6, "the lease is renewed")
        database.command("DEL", stop)
    assert records.last("s") == []


def test_a_renewal_makes_no_key_for_a_job_that_is_gone(
    jobs: Jobs, queue: CommandQueue, database: Database, layout: Layout
) -> None:
    """A job's key that had come back would have no lifetime."""
    queue.put("s", "c1")
    lease = taken(jobs)
    key = layout.shard(0).key("job", "c1")
    assert database.command("DEL", key) == 1
    assert not jobs.renew(lease, 60, "/srv/app")
    assert not database.command("EXISTS", key)


def test_a_lease_that_is_over_may_be_renewed_before_the_loss_is_decided(
    jobs: Jobs, queue: CommandQueue, records: Records
) -> None:
    """Every lease is over after an outage: a sweep that comes first only notes it, and a renewal clears the note."""
    queue.put("s")
    lease = take(jobs, seconds=0.02)
    assert lease is not None
    lost = wait_until(jobs.overdue, "the lease has run out")
    assert not jobs.mark_lost(lost[0], 0.05)
    assert jobs.renew(lease, 0)
    assert not jobs.mark_lost(lost[0], 60), "the watch began again"
    assert not jobs.mark_lost(lost[0], 60)
    assert records.last("s") == []
    wait_until(lambda: jobs.overdue() and jobs.mark_lost(lost[0], 0.05), "nobody renewed it")
    assert [record.exit_code for record in records.last("s")] == [None]


def test_an_attempt_that_is_given_up_has_its_own_record_and_a_successor(
    jobs: Jobs, queue: CommandQueue, records: Records
) -> None:
    """The next attempt is queued in the same step; after a loss that a sweep declared, the record is superseded."""
    queue.put("s", "c1", on_lost="retry")
    first = taken(jobs)
    assert jobs.give_up(first, ended(first, None))
    second = take(jobs, seconds=0.02)
    assert second is not None
    assert (second.command_id, second.attempt) == ("c1.2", 2)
    assert [record.error for record in records.last("s")] == ["not run at all"]
    assert jobs.mark_lost(wait_until(jobs.overdue, "the lease has run out")[0])
    assert not jobs.give_up(second, ended(second, None))
    assert records.superseded("s") == [ended(second, None)]


def test_a_lease_is_given_up_in_one_step_and_once(
    jobs: Jobs, queue: CommandQueue, records: Records, database: Database
) -> None:
    """Calls run in another order after Redis has lost some of several scripts; a lost reply repeats a call."""
    queue.put("s", "c1", on_lost="retry")
    lease = taken(jobs)
    database.command("SCRIPT", "FLUSH")
    database.command("SCRIPT", "LOAD", script_text("commands/mark_job_lost"))
    assert jobs.give_up(lease, ended(lease, None))
    assert jobs.give_up(lease, ended(lease, None))
    assert [record.command_id for record in records.last("s")] == ["c1"]
    assert records.superseded("s") == []
    assert taken(jobs).command_id == "c1.2"


def test_a_command_to_retry_has_the_longer_lease(
    jobs: Jobs, queue: CommandQueue, database: Database, layout: Layout
) -> None:
    """Its worker has to have stopped it before another begins; a variable of that name changes nothing."""
    queue.put("s", "retry", on_lost="retry")
    queue.put("s", "record", env={"on_lost": "retry"})
    claimant = JobClaimant(ANY_POOL, seconds=10, retry_seconds=50, worker="w@test", host="h")
    leases = [jobs.lease(claimant), jobs.lease(claimant)]
    held = [lease for lease in leases if lease is not None]
    running = layout.shard(0).key("running")
    lasts = {
        lease.command_id: int(database.command("ZSCORE", running, lease.command_id)) - lease.at_ms for lease in held
    }
    assert lasts == {"retry": 50_000, "record": 10_000}


def test_a_retry_is_linked_and_bounded(jobs: Jobs, queue: CommandQueue, records: Records) -> None:
    """Each loss has its record, and queues the next attempt under an id of its own, up to the third."""
    queue.put("s", "c1", on_lost="retry")
    for number in range(1, MAX_ATTEMPTS + 1):
        lease = take(jobs, seconds=0.02)
        assert lease is not None
        assert lease.attempt == number
        lost = wait_until(jobs.overdue, "the lease has run out")
        assert jobs.mark_lost(lost[0])
        assert (lost[0].again is None) == (number == MAX_ATTEMPTS)
    assert take(jobs) is None
    kept = records.last("s")
    assert [(r.command_id, r.parent_command_id, r.attempt) for r in kept] == [
        ("c1", None, 1),
        ("c1.2", "c1", 2),
        ("c1.3", "c1.2", 3),
    ]


def test_a_cancelled_command_is_not_tried_again(jobs: Jobs, queue: CommandQueue) -> None:
    """A loss after a cancellation queues nothing."""
    queue.put("s", "c1", on_lost="retry")
    lease = take(jobs, seconds=0.05)
    assert lease is not None
    assert jobs.cancel(lease.submitted, AUTHOR) == ("running", None)
    assert jobs.stop_requested(lease, 0.01)
    lost = wait_until(jobs.overdue, "the lease has run out")
    jobs.mark_lost(lost[0])
    assert take(jobs) is None


def test_cancellations_by_hosts_of_an_earlier_release_count(
    jobs: Jobs, queue: CommandQueue, records: Records, database: Database, layout: Layout
) -> None:
    """They said neither who nor why, and of a command that was not applied yet they stored no record."""
    shard = layout.of("s")
    database.command("HSET", shard.key("job", "early"), "state", "cancelled")
    queue.put("s", "early")
    assert [(r.command_id, r.error) for r in records.last("s")] == [("early", "cancelled before it started")]
    queue.put("s", "runs")
    lease = take(jobs)
    assert lease is not None
    database.pipeline([("RPUSH", shard.key("stop", "runs"), "1"), ("PEXPIRE", shard.key("stop", "runs"), 60_000)])
    assert jobs.stop_requested(lease, 0.01) == "cancelled"


def test_a_refusal_is_a_record_at_once(jobs: Jobs, queue: CommandQueue, records: Records) -> None:
    """A command that cannot be run is not queued, and its record keeps no secret of its argv."""
    queue.put("s", argv=["login", "password=x"], refusal="argv[1] carries a secret (rule password)")
    assert take(jobs) is None
    assert [(r.exit_code, r.command) for r in records.last("s")] == [(None, ["login", "[redacted: password]"])]


def test_a_session_keeps_its_newest_records(queue: CommandQueue, records: Records) -> None:
    """The list is capped, and how many are gone is known."""
    for number in range(CAP + 7):
        queue.put("s", f"c{number}", refusal="no")
    kept, gone = records.all("s")
    assert (len(kept), gone) == (CAP, 7)
    assert kept[-1].command_id == f"c{CAP + 6}"


def test_everybody_who_waits_gets_the_record(
    jobs: Jobs, queue: CommandQueue, records: Records, database: Database
) -> None:
    """Both callers that wait already and one that asks later get it."""
    id_ = queue.put("s")
    lease = taken(jobs)
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(records.wait, "s", id_, 60.0) for _ in range(3)]
        wait_until(lambda: blocked(database) == 3, "all three wait")
        jobs.finish(lease, ended(lease))
        assert [future.result() for future in waiting] == [ended(lease)] * 3
    assert records.wait("s", id_, 0.0) == ended(lease)
    assert records.wait("s", "another", 0.05) is None


def test_pools_that_nobody_touches_are_found_once(jobs: Jobs, queue: CommandQueue) -> None:
    """The sweep wakes a pool whose wake-ups are lost, and not again at once."""
    for number in range(3):
        queue.put("s", host="h" if number else None)
    assert jobs.idle_pools(60, 10) == []
    time.sleep(0.01)
    found = jobs.idle_pools(0, 10)
    assert sorted((pool, queued) for _, pool, queued in found) == [(ANY_POOL, 1), ("h", 2)]
    assert jobs.idle_pools(0, 10) == []


def test_a_list_of_records_that_somebody_made_long_holds_nobody_up(
    database: Database, layout: Layout, queue: CommandQueue, records: Records
) -> None:
    """A host may write its team's keys by itself. Evicting 30,000 records one by one took over 5 s."""
    key = layout.shard(0).key("records", "s")
    failed = msgspec.json.encode(CommandRecord(command_id="c", session="s", command=["false"], exit_code=1))
    for _ in range(30):
        database.command("RPUSH", key, *([failed] * 1_000))
    database.command("CONFIG", "RESETSTAT")
    queue.put("s", "last", "refused")
    assert sum(map(int, re.findall(rb"calls=(\d+)", database.command("INFO", "commandstats")))) < 10_000
    assert len(records.last("s")) == 200
    assert records.last("s", 1)[0].command_id == "last"
