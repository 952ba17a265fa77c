"""Commands for hosts that nobody serves, on a real Redis without workers."""

from __future__ import annotations

import msgspec
import pytest

from tellback import Tellback
from tellback.contracts.commands import CommandSubmitted
from tellback.names import host_queue
from tellback.state.database import Database
from tellback.state.job_claims import JobClaimant, JobLease
from tellback.state.job_keys import pool_of
from tellback.state.job_losses import SWEEP_BATCH, AbsentHosts
from tellback.state.jobs import Jobs
from tellback.state.keys import Layout
from tellback.state.presence import Presence, Worker
from tellback.state.records import Records
from tests.support.interleaving import Interrupted
from tests.support.jobs import AUTHOR, CommandQueue, ended
from tests.support.waiting import wait_until


@pytest.fixture
def layout(_emptied: None) -> Layout:
    return Layout("default", 1)


def worker(host: str, *queues: str) -> Worker:
    return Worker(name=f"w@{host}", host=host, pid=1, queues=queues, version="0")


def test_only_a_host_without_a_worker_is_given_up(database: Database, layout: Layout, queue: CommandQueue) -> None:
    """A worker that does not read its host's queue is none."""
    Presence(database, layout.team).announce(worker("served", "commands", host_queue("served")))
    Presence(database, layout.team).announce(worker("deaf", "events"))
    for name in ("served", "deaf", "gone"):
        queue.put("s", name, host=name)
    queue.put("s", "anywhere")
    assert AbsentHosts(database, layout).abandon(0) == {"deaf": ["deaf"], "gone": ["gone"]}
    assert AbsentHosts(database, layout).abandon(0) == {}
    errors = {record.command_id: record.error for record in Records(database, layout).last("s")}
    assert errors == {
        name: f"never started: no worker of host {name} has been at work for 0 s" for name in ("deaf", "gone")
    }


def test_a_record_that_cannot_be_stored_keeps_no_other_command_waiting(
    database: Database, layout: Layout, queue: CommandQueue, caplog: pytest.LogCaptureFixture
) -> None:
    queue.put("broken", "first", host="gone")
    queue.put("s", "second", host="gone")
    database.command("SET", layout.of("broken").key("records", "broken"), "by hand")
    assert AbsentHosts(database, layout).abandon(0) == {"gone": ["second"]}
    assert "job.not_recorded" in caplog.text
    database.command("DEL", layout.of("broken").key("records", "broken"))
    assert AbsentHosts(database, layout).abandon(0) == {"gone": ["first"]}


def test_a_host_is_waited_for(database: Database, layout: Layout, queue: CommandQueue) -> None:
    """Since when it is away is kept from sweep to sweep, and forgotten when it is back."""
    absent, presence = AbsentHosts(database, layout), Presence(database, layout.team)
    away = layout.shard(0).key("jobabsent", "h")
    queue.put("s", "job", host="h")
    assert absent.abandon(60) == {}
    since = database.command("GET", away)
    assert absent.abandon(60) == {}
    assert database.command("GET", away) == since
    presence.announce(worker("h", host_queue("h")))
    assert absent.abandon(60) == {}
    assert database.command("GET", away) is None
    presence.withdraw("w@h")
    database.command("SET", away, int(since) - 61_000, "PX", 60_000)
    assert absent.abandon(60) == {"h": ["job"]}


def test_a_command_that_was_leased_meanwhile_keeps_its_own_end(tb: Tellback, database: Database) -> None:
    """Either the sweep has it or a worker that came at the last moment, not both."""
    layout = tb.context.layout
    queue, jobs = CommandQueue(database, layout), Jobs(database, layout)
    session = next(f"s{n}" for n in range(99) if layout.of(f"s{n}").index == 0)
    queue.put(session, "job", host="h")
    lease = jobs.lease(JobClaimant("h", seconds=60, worker="w@h", host="h"))
    assert lease is not None
    assert pool_of(lease.submitted) == "h"
    member = f"{1:015d}:job"
    database.command("ZADD", layout.shard(0).key("jobs", "h"), 0, member)
    database.command("PEXPIRE", layout.shard(0).key("jobs", "h"), 60_000)
    database.command("ZADD", layout.shard(0).key("pools"), 0, "h")
    database.command("PEXPIRE", layout.shard(0).key("pools"), 60_000)
    assert AbsentHosts(database, layout).abandon(0) == {}
    assert tb.records(session) == []


def lease(jobs: Jobs, host: str) -> JobLease | None:
    return jobs.lease(JobClaimant(host, seconds=60, worker=f"w@{host}", host=host))


def test_a_command_that_is_leased_after_the_sweep_read_it_has_one_record(
    database: Database, layout: Layout, queue: CommandQueue, state_url: str
) -> None:
    """It is the record of its worker; nothing of it is superseded, and its host's wake-ups stay."""
    jobs, leases = Jobs(database, layout), list[JobLease | None]()
    queue.put("s", "job", host="h")
    other = Interrupted(state_url, "HGET", lambda: leases.append(lease(jobs, "h")))
    assert AbsentHosts(other, layout).abandon(0) == {}
    assert other.interrupted
    [held] = leases
    assert held is not None
    assert jobs.finish(held, ended(held))
    assert [record.exit_code for record in Records(database, layout).last("s")] == [0]
    assert AbsentHosts(database, layout).abandon(0) == {}
    other.close()


def test_a_host_that_is_back_after_the_sweep_read_its_queue_keeps_its_commands(
    database: Database, layout: Layout, queue: CommandQueue, state_url: str
) -> None:
    """The sweep's worker stood still; the commands would end as never started, with a worker at work."""
    jobs, held = Jobs(database, layout), list[JobLease | None]()
    for name in ("first", "second"):
        queue.put("s", name, host="h")

    def comes_back() -> None:
        Presence(database, layout.team).announce(worker("h", host_queue("h")))
        held.append(lease(jobs, "h"))

    other = Interrupted(state_url, "HGET", comes_back)
    assert AbsentHosts(other, layout).abandon(0) == {}
    assert other.interrupted
    held.append(lease(jobs, "h"))
    assert [each.command_id for each in held if each] == ["first", "second"]
    assert Records(database, layout).last("s") == []
    other.close()


def test_a_sweep_that_saw_the_host_back_keeps_its_commands_from_another(
    database: Database, layout: Layout, queue: CommandQueue, state_url: str
) -> None:
    """Two sweeps run at once, and one of them stood still."""
    queue.put("s", "job", host="h")

    def comes_back() -> None:
        Presence(database, layout.team).announce(worker("h", host_queue("h")))
        assert AbsentHosts(database, layout).abandon(0) == {}

    other = Interrupted(state_url, "HGET", comes_back)
    assert AbsentHosts(other, layout).abandon(0) == {}
    assert other.interrupted
    assert Records(database, layout).last("s") == []
    other.close()


@pytest.mark.parametrize("emptied_by", ["abandon", "lease", "cancel"])
def test_an_absence_ends_with_the_queue(
    database: Database, layout: Layout, queue: CommandQueue, emptied_by: str
) -> None:
    """Its start was kept for five minutes: a host that came back and restarted lost its commands at once."""
    jobs, absent = Jobs(database, layout), AbsentHosts(database, layout)
    queue.put("s", "first", host="h")
    assert absent.abandon(60) == {}
    if emptied_by == "abandon":
        assert absent.abandon(0) == {"h": ["first"]}
    elif emptied_by == "lease":
        assert lease(jobs, "h")
    else:
        submitted = msgspec.json.decode(database.command("HGET", layout.shard(0).key("job", "first"), "spec"))
        jobs.cancel(msgspec.convert(submitted, CommandSubmitted), AUTHOR)
    assert database.command("EXISTS", layout.shard(0).key("jobabsent", "h")) == 0


def test_queues_of_a_hundred_busy_hosts_hide_no_other(database: Database, layout: Layout, queue: CommandQueue) -> None:
    """They take no wake-ups for a while. Another host's wake-up was lost, and its command waited for them too."""
    jobs, hosts = Jobs(database, layout), {f"h{number}" for number in range(SWEEP_BATCH + 1)}
    for host in hosts:
        queue.put("s", host=host)
    wait_until(lambda: database.now_ms() > queued_at(database, layout), "the queues are quiet")
    found = [pool for _ in range(2) for _, pool, _ in jobs.idle_pools(0, 10)]
    assert (len(found), set(found)) == (len(hosts), hosts)


def queued_at(database: Database, layout: Layout) -> float:
    """Return when the newest command was queued."""
    return float(database.command("ZRANGE", layout.shard(0).key("pools"), -1, -1, "WITHSCORES")[1])
