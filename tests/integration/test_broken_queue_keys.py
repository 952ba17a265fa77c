"""A key of a pool's queue gets another type by hand: scripts fail before they change anything, and lose no command."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import pytest
from redis.exceptions import ResponseError

from tellback import Tellback
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.job_claims import JobClaimant
from tellback.state.job_keys import ANY_POOL
from tellback.state.job_losses import AbsentHosts
from tellback.state.jobs import Jobs
from tellback.state.keys import Layout, Shard
from tellback.state.records import Records
from tellback_workers.loops import consumer_of
from tellback_workers.runtime import Runtime
from tests.support.interleaving import Interrupted
from tests.support.jobs import AUTHOR, CommandQueue, submission
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until


@contextmanager
def broken(database: Database, shard: Shard, name: str) -> Generator[None]:
    """Have a key hold another type for a while; afterwards it holds what it did before, as if nobody had touched it."""
    key = shard.key(name, ANY_POOL) if name in ("jobs", "joborder") else shard.key(name)
    kept = database.command("EXISTS", key) and database.command("RENAME", key, f"{key}:kept")
    database.command("SET", key, "by hand")
    yield
    database.command("DEL", key)
    if kept:
        database.command("RENAME", f"{key}:kept", key)


def leased(jobs: Jobs, seconds: float = 60) -> list[str]:
    """Lease every command that is queued."""
    claimant = JobClaimant(ANY_POOL, seconds=seconds, worker="w@test", host="h")
    found: list[str] = []
    while (lease := jobs.lease(claimant)) is not None:
        found.append(lease.command_id)
    return found


def tried(call: Callable[[], object]) -> None:
    with suppress(ResponseError):
        call()


def recorded(database: Database, layout: Layout) -> Sequence[str]:
    return [record.command_id for record in Records(database, layout).last("s")]


@pytest.mark.parametrize("name", ["joborder", "pools"])
def test_a_submission_waits(tb: Tellback, database: Database, runtime: Runtime, name: str) -> None:
    """It left the stream, and was in no queue, in no record and in no dead letter."""
    shard = tb.context.layout.of("s")
    job = tb.submit(["true"], session="s", cwd="/")
    tb.flush()
    consumer = consumer_of(runtime, "default", Family.COMMANDS)
    with broken(database, shard, name):
        consumer.consume(shard, Family.COMMANDS)
    consumer.consume(shard, Family.COMMANDS)
    assert leased(Jobs(database, tb.context.layout)) == [job.command_id]


@pytest.mark.parametrize("name", ["pools", "running", "clock"])
def test_a_queued_command_stays_queued(database: Database, one: Layout, name: str) -> None:
    """Each worker that asked took one out of the queue, and got none."""
    queue, jobs = CommandQueue(database, one), Jobs(database, one)
    wanted = [queue.put("s") for _ in range(3)]
    with broken(database, one.shard(0), name):
        for _ in wanted:
            tried(lambda: leased(jobs))
    assert leased(jobs) == wanted


def test_a_queued_command_stays_queued_while_the_clock_cannot_be_read(database: Database, one: Layout) -> None:
    """It left the queue and got a state, and no lease: no sweep would ever have found it."""
    wanted = [CommandQueue(database, one).put("s")]
    jobs, clock = Jobs(database, one), one.shard(0).key("clock")
    database.command("HSET", clock, "skew", "by hand", "last", "by hand")
    tried(lambda: leased(jobs))
    database.command("DEL", clock)
    assert leased(jobs) == wanted


@pytest.mark.parametrize("name", ["jobs", "joborder", "pools"])
def test_a_lost_command_is_retried(database: Database, one: Layout, name: str) -> None:
    """Its record was stored, so that no later sweep queued the next attempt."""
    queue, jobs = CommandQueue(database, one), Jobs(database, one)
    first = queue.put("s", on_lost="retry")
    assert leased(jobs, seconds=0.001) == [first]
    [lost] = wait_until(jobs.overdue, "the lease ends")
    with broken(database, one.shard(0), name):
        tried(lambda: jobs.mark_lost(lost))
    assert recorded(database, one) == []
    assert jobs.mark_lost(lost)
    assert recorded(database, one) == [first]
    assert leased(jobs) == [f"{first}.2"]


@pytest.mark.parametrize("name", ["pools", "clock"])
def test_a_command_that_is_not_cancelled_stays_queued(database: Database, one: Layout, name: str) -> None:
    """The command left the queue without a record of it."""
    queue, jobs = CommandQueue(database, one), Jobs(database, one)
    ids = [queue.put("s") for _ in range(2)]
    with broken(database, one.shard(0), name):
        tried(lambda: jobs.cancel(submission("s", ids[0]), AUTHOR))
    assert sorted([*leased(jobs), *recorded(database, one)]) == sorted(ids)


@pytest.mark.parametrize("name", ["pools", "clock"])
def test_a_command_that_is_not_abandoned_stays_queued(
    database: Database, one: Layout, redis_server: RedisServer, name: str
) -> None:
    """The key changes after the sweep has read the queue; the command left it without a record."""
    CommandQueue(database, one).put("s", "job", host="gone")
    with ExitStack() as later:
        meanwhile = Interrupted(
            redis_server.url, "HGET", lambda: later.enter_context(broken(database, one.shard(0), name))
        )
        AbsentHosts(meanwhile, one).abandon(0)
        assert meanwhile.interrupted
    assert AbsentHosts(database, one).abandon(0) == {"gone": ["job"]}
    assert recorded(database, one) == ["job"]


def test_a_queue_whose_order_is_gone_keeps_its_lifetime(database: Database, one: Layout) -> None:
    """It was renamed, or lost in a failover; the first worker that asked made it again, to stay for ever."""
    queue, jobs = CommandQueue(database, one), Jobs(database, one)
    wanted = [queue.put("s") for _ in range(2)]
    order = one.shard(0).key("joborder", ANY_POOL)
    database.command("DEL", order)
    lease = jobs.lease(JobClaimant(ANY_POOL, seconds=60, worker="w@test", host="h"))
    assert lease is not None
    assert lease.command_id == wanted[0]
    assert database.command("PTTL", order) > 0
