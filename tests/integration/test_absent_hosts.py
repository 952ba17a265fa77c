"""Commands for hosts that nobody serves, on a real Redis without workers."""

from __future__ import annotations

import pytest

from tellback import Tellback
from tellback.names import host_queue
from tellback.state.absent_hosts import AbsentHosts
from tellback.state.database import Database
from tellback.state.job_keys import pool_of
from tellback.state.jobs import JobClaimant, Jobs
from tellback.state.keys import Layout
from tellback.state.presence import Presence, Worker
from tellback.state.records import Records
from tests.support.jobs import Queue


@pytest.fixture
def layout(database: Database) -> Layout:  # noqa: ARG001 - emptied
    return Layout("default", 1)


@pytest.fixture
def queue(database: Database, layout: Layout) -> Queue:
    return Queue(database, layout, Jobs(database, layout))


def worker(host: str, *queues: str) -> Worker:
    return Worker(name=f"w@{host}", host=host, pid=1, queues=queues, version="0")


def test_only_a_host_without_a_worker_is_given_up(database: Database, layout: Layout, queue: Queue) -> None:
    """A worker that does not read its host's queue is none."""
    Presence(database, layout).announce(worker("served", "commands", host_queue("served")))
    Presence(database, layout).announce(worker("deaf", "events"))
    for name in ("served", "deaf", "gone"):
        queue.put("s", name, host=name)
    queue.put("s", "anywhere")
    assert AbsentHosts(database, layout).abandon(0) == {"deaf": ["deaf"], "gone": ["gone"]}
    assert AbsentHosts(database, layout).abandon(0) == {}
    errors = {record.command_id: record.error for record in Records(database, layout).last("s")}
    assert errors == {
        name: f"never started: no worker of host {name} has been at work for 0 s" for name in ("deaf", "gone")
    }


def test_a_host_is_waited_for(database: Database, layout: Layout, queue: Queue) -> None:
    """Since when it is away is kept from sweep to sweep, and forgotten when it is back."""
    absent, presence = AbsentHosts(database, layout), Presence(database, layout)
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
    """Of a worker that came at the last moment and the sweep, one has it."""
    layout = tb.context.layout
    queue, jobs = Queue(database, layout, Jobs(database, layout)), Jobs(database, layout)
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
    assert AbsentHosts(database, layout).abandon(0) == {"h": []}
    assert tb.records(session) == []
