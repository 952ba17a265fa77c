"""A key of a queue of commands or of the outbox gets another type by hand: no command or delivery is lost (T-147)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import pytest
from redis.exceptions import ResponseError

from tellback import OutboxDelivery, Tellback
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
from tests.support.full_outbox import fill, keys_of
from tests.support.interleaving import Interrupted
from tests.support.jobs import AUTHOR, CommandQueue, submission
from tests.support.redis_server import RedisServer
from tests.support.turns import HELLO, SENT, delivered_now, opened, store, view
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


Break = Callable[[str], None]


def not_known(_: OutboxDelivery) -> None:
    """A platform that cannot say what it was sent."""


def settled(tb: Tellback, reconcile: Callable[[OutboxDelivery], None] | None = None) -> list[tuple[str, str]]:
    """The turns whose delivery a transport sends, each with its settlement."""
    return [(delivery.turn_id, delivery.settle(SENT)) for delivery in tb.outbox("chat", reconcile=reconcile)]


@pytest.mark.parametrize("reconcile", [None, not_known])
@pytest.mark.parametrize("name", ["out", "ambiguous", "polled"])
def test_an_index_of_another_shard_ends_no_transport(
    break_type: Break,
    tb: Tellback,
    name: str,
    reconcile: Callable[[OutboxDelivery], None] | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One shard's key ended the transport's loop for all of them."""
    turn = opened(tb)
    turn.respond(HELLO)
    own = store(tb).shard(turn.id)
    keys = [
        shard.key("polled") if name == "polled" else shard.key(name, "chat")
        for shard in tb.context.layout.all
        if name != "out" or shard != own
    ]
    for key in keys:
        break_type(key)
    assert settled(tb, reconcile) == [(turn.id, "delivered")]
    if name != "ambiguous" or reconcile:  # otherwise nobody reads it
        assert any(key in caplog.text for key in keys)


@pytest.mark.parametrize("name", ["out", "ambiguous"])
def test_what_was_sent_is_settled_whatever_an_index_holds(break_type: Break, tb: Tellback, name: str) -> None:
    """The delivery had left its queue and the script failed; or nothing was stored, and the user got it again."""
    turn = opened(tb)
    turn.respond(HELLO)
    [delivery] = [delivery for delivery, _ in zip(tb.outbox("chat"), range(1), strict=False)]
    break_type(store(tb).shard(turn.id).key(name, "chat"))
    assert delivery.settle(SENT) == "delivered"
    assert (view(tb, turn.id).delivery, keys_of(tb)) == ("delivered", [])


def test_a_queue_of_another_type_ends_no_transport(
    break_type: Break, tb: Tellback, caplog: pytest.LogCaptureFixture
) -> None:
    turns = [opened(tb, conversation=name) for name in ("a", "b")]
    for turn in turns:
        turn.respond(HELLO)
    found: dict[str, str] = {}
    for delivery in tb.outbox("chat"):
        if not found:
            shard = tb.context.layout.of_turn("chat", delivery.conversation)
            break_type(shard.key("outq", "chat", delivery.conversation))
        found[delivery.turn_id] = delivery.settle(SENT)
    assert list(found.values()) == ["lost", "delivered"]
    assert "delivery.not_settled" in caplog.text


def test_a_turn_of_another_type_holds_up_nothing_of_its_conversation(break_type: Break, tb: Tellback) -> None:
    """Each claim spent an attempt and failed, and after the last one nothing behind this delivery was ever sent."""
    turn, after = opened(tb), opened(tb)
    for each in (turn, after):
        each.respond(HELLO)
    break_type(store(tb).shard(turn.id).key("turn", turn.id))
    assert settled(tb) == [(turn.id, "delivered"), (after.id, "delivered")]


def test_nor_does_one_whose_delivery_is_evicted(break_type: Break, tb: Tellback) -> None:
    first, second, third = opened(tb), opened(tb), opened(tb)
    for turn in (first, second):
        turn.respond(HELLO)
    fill(tb)
    break_type(store(tb).shard(second.id).key("turn", second.id))
    assert third.respond(HELLO) == "accepted"
    keys = keys_of(tb)
    assert (f"{second.id}:first" in keys, f"{third.id}:first" in keys) == (False, True)
    delivered_now(tb)
