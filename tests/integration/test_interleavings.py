"""Whatever comes between a read and the write that follows it is neither lost nor left in no index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tellback import OutgoingResponse, Tellback
from tellback.client.outbox import open_outbox, open_outbox_store
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.embeddings import Encoders, EncoderState
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations, timer_member
from tellback.state.job_claims import JobClaimant
from tellback.state.job_keys import ANY_POOL
from tellback.state.jobs import Jobs
from tellback.state.keys import Layout, lifetime_ms
from tests.support.interleaving import Interrupted
from tests.support.jobs import CommandQueue
from tests.support.turns import opened, sent, store

DAY_AGO = lifetime_ms("encoder") + 1_000

Interrupt = Callable[[str, Callable[[], object]], Interrupted]


@pytest.fixture
def interrupt(settings: Settings) -> Iterator[Interrupt]:
    """Makes clients that are interrupted; each of them must have been."""
    with ExitStack() as stack:

        def make(verb: str, meanwhile: Callable[[], object]) -> Interrupted:
            made = Interrupted(settings.redis_url, verb, meanwhile)
            stack.callback(made.close)
            return made

        yield make


@pytest.mark.parametrize("family", ["out", "ambiguous"])
def test_an_answer_comes_while_its_queue_is_found_empty(tb: Tellback, interrupt: Interrupt, family: str) -> None:
    """A transport that found nothing must not take the conversation out of the index that has it again."""
    late, turn = opened(tb), opened(tb)
    late.respond(OutgoingResponse.text_only("long ago"))
    shard = store(tb).shard(turn.id)
    if family == "ambiguous":
        tb.context.database.command("ZADD", shard.key("ambiguous", "chat"), 1, "c1")
        tb.context.database.command("PEXPIRE", shard.key("ambiguous", "chat"), 60_000)
    tb.context.database.command("DEL", shard.key("outq", "chat", "c1"))  # it has outlived its days
    between = interrupt("LINDEX", lambda: turn.respond(OutgoingResponse.text_only("now")))
    outbox = open_outbox_store(between, tb.context.layout, tb.context.settings)
    assert (outbox.ready if family == "out" else outbox.ambiguous)("chat", 10) == []
    assert between.interrupted
    assert [text for _, _, text in sent(tb)] == ["now"]


def test_a_conversation_whose_deliveries_have_outlived_their_days_leaves_the_index(tb: Tellback) -> None:
    turn = opened(tb)
    turn.respond(OutgoingResponse.text_only("long ago"))
    shard = store(tb).shard(turn.id)
    tb.context.database.command("DEL", shard.key("outq", "chat", "c1"))
    assert open_outbox(tb.context).ready("chat", 10) == []
    assert tb.context.database.command("EXISTS", shard.key("out", "chat")) == 0


def test_a_command_is_queued_while_its_pool_is_found_empty(
    database: Database, one: Layout, interrupt: Interrupt
) -> None:
    """A pool that nobody finds would never be woken again, should the command's one wake-up be lost."""
    queue = CommandQueue(database, one)
    pools = one.shard(0).key("pools")
    database.command("ZADD", pools, 1, ANY_POOL)
    database.command("PEXPIRE", pools, 60_000)
    between = interrupt("ZCARD", lambda: queue.put("s"))
    assert Jobs(between, one).idle_pools(1, 10) == []
    assert between.interrupted
    assert database.command("ZRANGE", pools, 0, -1) == [ANY_POOL.encode()]


def test_a_pool_without_commands_leaves_the_index(database: Database, one: Layout) -> None:
    pools = one.shard(0).key("pools")
    database.command("ZADD", pools, 1, ANY_POOL)
    assert Jobs(database, one).idle_pools(1, 10) == []
    assert database.command("EXISTS", pools) == 0


def test_a_command_is_leased_while_nothing_is_known_of_it(
    database: Database, one: Layout, interrupt: Interrupt
) -> None:
    """Its state had gone, and the same id was submitted again: what runs must be found when its lease ends."""
    jobs, shard = Jobs(database, one), one.shard(0)
    queue = CommandQueue(database, one)
    database.command("ZADD", shard.key("running"), 1, "again")

    def lease() -> None:
        queue.put("s", "again")
        assert jobs.lease(JobClaimant(ANY_POOL, seconds=60, worker="w@test", host="h"))

    between = interrupt("HMGET", lease)
    assert Jobs(between, one).overdue() == []
    assert between.interrupted
    assert database.command("ZRANGE", shard.key("running"), 0, -1) == [b"again"]


def test_what_does_not_run_leaves_the_index(database: Database, one: Layout) -> None:
    running = one.shard(0).key("running")
    database.command("ZADD", running, 1, "gone")
    assert Jobs(database, one).overdue() == []
    assert database.command("EXISTS", running) == 0


def test_a_lease_that_was_renewed_is_not_postponed(database: Database, one: Layout) -> None:
    """Whoever looked before the renewal would otherwise put off the loss of a worker that dies after it."""
    jobs, running = Jobs(database, one), one.shard(0).key("running")
    CommandQueue(database, one).put("s", "c")
    lease = jobs.lease(JobClaimant(ANY_POOL, seconds=5, worker="w@test", host="h"))
    assert lease is not None
    before = database.command("ZSCORE", running, "c")
    jobs.postpone_loss(one.shard(0), "c")
    assert database.command("ZSCORE", running, "c") == before


def test_an_evaluation_begins_again_while_it_is_found_gone(database: Database, one: Layout) -> None:
    """A decision from an earlier read no longer counts: its time triggers must find it."""
    shard, id_ = one.shard(0), EvaluationId("s", "ns:p", "e")
    member, key = timer_member(shard, id_), shard.key("eval", *id_)
    evaluations, due = Evaluations(database, shard), shard.key("timers")
    database.command("ZADD", due, 1, member)
    database.command("PEXPIRE", due, 60_000)
    database.command("HSET", key, "version", 1)
    database.command("PEXPIRE", key, 60_000)
    evaluations.drop_timers([id_])
    assert database.command("ZRANGE", due, 0, -1) == [member.encode()]
    database.command("DEL", key)
    evaluations.drop_timers([id_])
    assert database.command("EXISTS", due) == 0


@pytest.mark.parametrize("verb", ["TIME", "HGETALL"])
def test_a_host_says_its_model_again_while_what_it_said_is_found_old(
    database: Database, one: Layout, interrupt: Interrupt, verb: str
) -> None:
    """It says so once: removed, its model would be unknown until it starts again."""
    old = EncoderState(host="a", model="m", state="failed", reason="then")
    Encoders(database, one).report(old)
    key = one.shard(0).key("encoder")
    [field, raw] = database.command("HGETALL", key)
    at = Encoders(database, one).all()[0].at
    database.command("HSET", key, field, raw.replace(b"%d" % at, b"%d" % (at - DAY_AGO)))
    again = EncoderState(host="a", model="m", state="loaded")
    between = interrupt(verb, lambda: Encoders(database, one).report(again))
    Encoders(between, one).report(EncoderState(host="b", model="m", state="loaded"))
    if not between.interrupted:  # it decided by no reading of its own
        Encoders(database, one).report(again)
    assert [(known.host, known.state) for known in Encoders(database, one).all()] == [("a", "loaded"), ("b", "loaded")]


def test_what_a_host_said_more_than_a_day_ago_goes(database: Database, one: Layout) -> None:
    """An unreadable report stays until its key expires: it may be of a newer release."""
    encoders, key = Encoders(database, one), one.shard(0).key("encoder")
    encoders.report(EncoderState(host="a", model="m", state="loaded"))
    [field, raw] = database.command("HGETALL", key)
    at = encoders.all()[0].at
    database.command("HSET", key, field, raw.replace(b"%d" % at, b"%d" % (at - DAY_AGO)), "odd", "{")
    encoders.report(EncoderState(host="b", model="m", state="loaded"))
    assert [known.host for known in encoders.all()] == ["b"]
    assert sorted(database.command("HKEYS", key)) == [b"b\0m", b"odd"]
