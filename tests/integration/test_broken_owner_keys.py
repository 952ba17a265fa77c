"""A key of one bank, session or conversation cannot be read: others lose nothing, and its own events wait or are kept.

`test_broken_keys.py` has the keys that a whole shard shares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tellback import Tellback
from tellback.cli.metrics_collector import render_metrics
from tellback.client.outbox import open_outbox
from tellback.doctor.backlog import check_outbox
from tellback.state.database import Database
from tellback.state.dead_letters import DeadLetters
from tellback.state.decay import Decay
from tellback.state.job_keys import ANY_POOL
from tellback.state.job_listing import JobListing
from tellback.state.jobs import JobClaimant, JobLease, Jobs
from tellback.state.keys import FAMILIES, Layout
from tellback_workers.consumer import MAX_DELIVERIES
from tellback_workers.decay import run_for
from tests.support.jobs import Queue
from tests.support.scores import build_bank
from tests.support.turns import HELLO, opened, sent, store

Break = Callable[[str], None]


def deliver_until_dead(consume: Callable[[], None]) -> None:
    for _ in range(MAX_DELIVERIES + 1):
        consume()


def leased(jobs: Jobs) -> JobLease:
    lease = jobs.lease(JobClaimant(ANY_POOL, seconds=60, worker="w@test", host="h"))
    assert lease is not None
    return lease


@pytest.fixture
def break_type(database: Database) -> Iterator[Break]:
    """Have a key hold another type than Tellback gives it, until the test ends."""
    broken: list[str] = []

    def overwrite(key: str) -> None:
        kind = FAMILIES[key.split(":")[2]].type
        database.command("DEL", key)
        database.command(*(("RPUSH", key, "by hand") if kind == "string" else ("SET", key, "by hand")))
        broken.append(key)

    yield overwrite
    database.command("DEL", *broken, "none")


@pytest.fixture
def jobs(database: Database, one: Layout) -> Jobs:
    """The queues of a team that has one shard."""
    return Jobs(database, one)


@pytest.fixture
def queue(database: Database, one: Layout) -> Queue:
    return Queue(database, one)


@pytest.fixture
def dead(database: Database, layout: Layout) -> DeadLetters:
    return DeadLetters(database, layout)


@pytest.mark.parametrize("damage", ["slot", "version"])
def test_a_bank_that_cannot_be_read_keeps_no_other_from_its_decay(
    database: Database, one: Layout, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The pass of the shard ended there, in each run again, and no bank behind it was written."""
    shard = one.shard(0)
    for bank in ("a", "b"):
        build_bank(database, shard, bank, facts=3, clusters=1, each=1, age_ms=30 * 86_400_000)
    if damage == "slot":
        database.command("ZADD", shard.key("clusterver", "a"), 1, b"\xff")
    else:
        database.command("HSET", shard.key("bank", "a"), "version", "of a newer release")
    before = database.command("HGETALL", shard.key("factscore", "b"))
    assert run_for(Decay(database, one), "test", 60)
    assert database.command("HGETALL", shard.key("factscore", "b")) != before
    assert database.command("HEXISTS", shard.key("decay"), "done") == 1
    assert "decay.bank_failed" in caplog.text


def test_a_turn_of_another_type_hides_no_other_that_was_handed_over(break_type: Break, tb: Tellback) -> None:
    turns = [opened(tb, conversation=name) for name in ("a", "b")]
    for turn in turns:
        turn.hand_over(to="h2")
    break_type(store(tb).shard(turns[0].id).key("turn", turns[0].id))
    assert [turn.id for turn in tb.handed_over(to="h2")] == [turns[1].id]
    assert turns[1].id in [turn.id for turn in store(tb).newest(10)]


def test_a_command_of_another_type_hides_no_other(
    break_type: Break, database: Database, one: Layout, queue: Queue, jobs: Jobs
) -> None:
    queue.put("s", "broken")
    leased(jobs)
    queue.put("s", "sound")
    break_type(one.shard(0).key("job", "broken"))
    assert [job.command_id for job in JobListing(database, one).unfinished()] == ["sound"]


def test_an_outbox_of_another_type_hides_no_other(
    break_type: Break, tb: Tellback, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither from metrics and doctor nor from those who list deliveries."""
    for name in ("a", "b"):
        opened(tb, conversation=name).respond(HELLO)
    key = tb.context.layout.of_turn("chat", "a").key("outq", "chat", "a")
    break_type(key)
    assert 'tellback_outbox_deliveries{channel="chat"} 1.0' in render_metrics(tb)
    assert check_outbox(database, tb.context.layout).found == "deliveries waiting: 1"
    assert [queue.conversation for queue, _, _ in open_outbox(tb.context).pending("chat", 10)] == ["b"]
    assert [text for _, _, text in sent(tb)] == ["hello"]
    assert "conversation='a'" in caplog.text
