"""A key of one bank, session or conversation cannot be read: others lose nothing, and its own events wait or are kept.

`test_broken_keys.py` has the keys that a whole shard shares, `test_broken_queue_keys.py` those of queues and outbox.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tellback import SignalItem, Tellback
from tellback.cli.metrics_collector import render_metrics
from tellback.client.outbox import open_outbox
from tellback.contracts.commands import CommandRecord
from tellback.doctor.backlog import check_outbox
from tellback.errors import Unavailable
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.dead_letters import DeadLetters
from tellback.state.decay import Decay
from tellback.state.intake import Intake
from tellback.state.job_claims import JobClaimant, JobLease
from tellback.state.job_keys import ANY_POOL
from tellback.state.job_listing import JobListing
from tellback.state.jobs import Jobs
from tellback.state.keys import FLEET, Layout
from tellback.state.presence import Presence
from tellback.state.records import Records
from tellback.state.sessions import Sessions
from tellback.state.shared_changes import SharedChanges
from tellback_workers.consumer import MAX_DELIVERIES
from tellback_workers.decay import run_for
from tellback_workers.jobs import JobWorker
from tellback_workers.lease_heartbeat import SHUTDOWN_REASON, LeaseHeartbeat
from tellback_workers.loops import consumer_of
from tellback_workers.runtime import Runtime
from tests.support.jobs import CommandQueue, ended, taken
from tests.support.scores import build_bank
from tests.support.signals import Bench, signal
from tests.support.tool_calls import calls, publish
from tests.support.turns import HELLO, opened, sent, state, store, view
from tests.support.waiting import wait_until

Break = Callable[[str], None]


def deliver_until_dead(consume: Callable[[], None]) -> None:
    for _ in range(MAX_DELIVERIES + 1):
        consume()


@pytest.fixture
def jobs(database: Database, one: Layout) -> Jobs:
    """The queues of a team that has one shard."""
    return Jobs(database, one)


@pytest.fixture
def queue(database: Database, one: Layout) -> CommandQueue:
    return CommandQueue(database, one)


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


def test_a_turn_stays_with_its_host_if_the_list_of_the_other_has_another_type(break_type: Break, tb: Tellback) -> None:
    """The turn had its new host when the script failed, which never saw it in its list."""
    turn = opened(tb)
    before = view(tb, turn).host
    break_type(store(tb).shard(turn.id).key("handover", "h2"))
    with pytest.raises(Unavailable):
        turn.hand_over(to="h2")
    assert view(tb, turn).host == before


def test_a_turn_of_another_type_is_unavailable(break_type: Break, tb: Tellback) -> None:
    """Its state, and the turn itself on another host, raised an error of redis-py."""
    turn = opened(tb)
    break_type(store(tb).shard(turn.id).key("turn", turn.id))
    for ask in (lambda: turn.state, lambda: tb.turn(turn.id), turn.progress):
        with pytest.raises(Unavailable, match="another type"):
            ask()


def test_a_command_of_another_type_hides_no_other(
    break_type: Break, database: Database, one: Layout, queue: CommandQueue, jobs: Jobs
) -> None:
    queue.put("s", "broken")
    taken(jobs)
    queue.put("s", "sound")
    break_type(one.shard(0).key("job", "broken"))
    assert [job.command_id for job in JobListing(database, one).unfinished()] == ["sound"]


def test_an_outbox_of_another_type_hides_no_other(
    break_type: Break, tb: Tellback, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Metrics and those who list deliveries see the other one, and `doctor` names this one."""
    for name in ("a", "b"):
        opened(tb, conversation=name).respond(HELLO)
    key = tb.context.layout.of_turn("chat", "a").key("outq", "chat", "a")
    break_type(key)
    assert 'tellback_outbox_deliveries{channel="chat"} 1.0' in render_metrics(tb)
    finding = check_outbox(database, tb.context.layout)
    assert (finding.state, finding.found) == ("wrong", f"the answers of 1 conversation cannot be read: {key}")
    assert "redis-cli RENAME" in finding.advice
    assert [queue.conversation for queue, _, _ in open_outbox(tb.context).pending("chat", 10)] == ["b"]
    assert [text for _, _, text in sent(tb)] == ["hello"]
    assert "conversation='a'" in caplog.text


@pytest.mark.parametrize(
    "name",
    [
        *("bankdays", "clusterrecent", "clusterstamps", "clustertext", "clustervec", "clusterver", "factabove"),
        *("factbelow", "factrecent", "factscore", "sigseen", "siglog"),
    ],
)
def test_signals_of_a_broken_bank_become_dead_letters_whole(
    break_type: Break, tb: Tellback, bench: Bench, database: Database, dead: DeadLetters, name: str
) -> None:
    """The script failed behind its acknowledgement: a part of the batch counted, and the rest was in no dead letter."""
    shard = tb.context.layout.of("b")
    break_type(shard.key(name, "b"))
    signal(tb, bench, [SignalItem(fact_id="f", signal_type="used", query=query) for query in ("x@0", "y")])
    deliver_until_dead(bench.consume)
    [letter] = dead.newest()
    database.command("DEL", shard.key(name, "b"))
    dead.replay(letter.id)
    bench.consume()
    assert tb.bank("b").fact_stats("f").signal_count == 2


@pytest.mark.parametrize("name", ["facttext", "factver", "factstamps", "factdeleted", "factseen"])
def test_facts_of_a_broken_bank_become_dead_letters(
    break_type: Break, tb: Tellback, bench: Bench, database: Database, dead: DeadLetters, name: str
) -> None:
    key = tb.context.layout.of("b").key(name, "b")
    break_type(key)
    tb.bank("b").remember("f", "x@5")
    tb.flush()
    deliver_until_dead(bench.consume)
    [letter] = dead.newest()
    database.command("DEL", key)
    dead.replay(letter.id)
    bench.consume()
    assert tb.bank("b").stats().stored_facts == 1


@pytest.mark.parametrize("name", ["mailbox", "seen"])
def test_calls_of_a_broken_evaluation_become_dead_letters(
    break_type: Break,
    tb: Tellback,
    database: Database,
    dead: DeadLetters,
    consume: Callable[[], None],
    name: str,
) -> None:
    key = tb.context.layout.of("s").key(name, "s", "p", "e")
    break_type(key)
    publish(tb, 1)
    deliver_until_dead(consume)
    [letter] = dead.newest()
    database.command("DEL", key)
    dead.replay(letter.id)
    consume()
    assert calls(tb) == 1


def test_a_call_is_recovered_whatever_the_marker_of_its_provider_holds(
    break_type: Break, tb: Tellback, database: Database, dead: DeadLetters, consume: Callable[[], None]
) -> None:
    """Each delivery failed at the marker, and the call became a dead letter."""
    layout = tb.context.layout
    shard = layout.of("s")
    publish(tb, 1)
    [taken] = Intake(database, layout).take_each([shard], Family.EVENTS, 0.001, 10)
    assert taken.entries  # read by a consumer that died
    wait_until(lambda: not database.command("EXISTS", taken.lease.key), "its lease ends")
    break_type(shard.key("provider-call", Family.EVENTS))
    deliver_until_dead(consume)
    assert (calls(tb), dead.newest()) == (1, [])


def test_records_of_another_type_hide_no_other_session(
    break_type: Break, database: Database, one: Layout, queue: CommandQueue, jobs: Jobs
) -> None:
    for name in ("a", "b"):
        queue.put(name, name)
        lease = taken(jobs)
        jobs.finish(lease, ended(lease))
    break_type(one.shard(0).key("records", "a"))
    listed = Records(database, one).of_sessions(["a", "b"])
    assert [[record.command_id for record in of_one] for of_one in listed] == [[], ["b"]]


@pytest.mark.parametrize("raw", ["no JSON", '{"slot":null,"call_index":null,"every":"x"}', "7"])
def test_feedback_that_cannot_be_read_is_taken_with_the_others(tb: Tellback, database: Database, raw: str) -> None:
    """It waits in a mailbox that a timer's feedback and the next taker read, before and after the entry's effects."""
    prompt = tb.prompt("s", "p")
    mailbox = tb.context.layout.of("s").key("mailbox", "s", "p", prompt.evaluation)
    database.command("RPUSH", mailbox, raw)
    assert prompt.feedback() == []
    assert database.command("EXISTS", mailbox) == 0


@pytest.mark.parametrize("value", [None, "of a newer release"])
def test_a_session_whose_activity_cannot_be_read_loses_no_command(
    break_type: Break, tb: Tellback, database: Database, runtime: Runtime, value: str | None
) -> None:
    """The submission had left the stream when the script failed: no record, no dead letter, and nobody to notice."""
    shard = tb.context.layout.of("s")
    key = shard.key("activity", "s")
    if value is None:
        break_type(key)
    else:
        database.command("HSET", key, "calls", value, "nudges", value)
    job = tb.submit(["true"], session="s", cwd="/")
    tb.flush()
    consumer_of(runtime, "default", Family.COMMANDS).consume(shard, Family.COMMANDS)
    assert [each.command_id for each in JobListing(database, tb.context.layout).unfinished()] == [job.command_id]
    assert taken(Jobs(database, tb.context.layout)).command_id == job.command_id


def test_a_command_keeps_its_lease_while_its_record_cannot_be_stored(
    break_type: Break, database: Database, one: Layout, queue: CommandQueue, jobs: Jobs
) -> None:
    """The command was marked as ended before the record failed, so the next try claimed that it was stored."""
    command_id = queue.put("s")
    lease = taken(jobs)
    key = one.shard(0).key("records", "s")
    break_type(key)
    for _ in range(2):
        assert jobs.finish(lease, ended(lease)) is None
    assert not jobs.give_up(lease, ended(lease, None))
    database.command("DEL", key)
    assert jobs.finish(lease, ended(lease))
    assert [record.command_id for record in Records(database, one).last("s")] == [command_id]


@pytest.mark.parametrize("name", ["recorded", "done", "hist"])
def test_a_record_is_stored_whatever_stands_beside_it(
    break_type: Break, database: Database, one: Layout, queue: CommandQueue, jobs: Jobs, name: str
) -> None:
    command_id = queue.put("s")
    lease = taken(jobs)
    shard = one.shard(0)
    break_type(shard.key(name, command_id if name == "done" else "s"))
    assert jobs.finish(lease, ended(lease))
    assert database.command("LLEN", shard.key("records", "s")) == 1
    assert database.command("LLEN", shard.key("done", command_id)) == 1


def test_records_that_cannot_be_read_keep_a_full_list_from_no_further_one(
    database: Database, one: Layout, queue: CommandQueue, jobs: Jobs
) -> None:
    """The search for a record to evict failed, and whoever waited for the command's record waited for ever."""
    records = one.shard(0).key("records", "s")
    database.command("RPUSH", records, *[b"{", b"5"] * 100)
    command_id = queue.put("s")
    lease = taken(jobs)
    assert jobs.finish(lease, ended(lease))
    assert database.command("LLEN", records) == 200
    assert database.command("LLEN", one.shard(0).key("done", command_id)) == 1


def test_an_answer_is_sent_once_whatever_the_history_holds(break_type: Break, tb: Tellback) -> None:
    """Answer and settlement had their effect and raised, so a transport sent the answer again."""
    turn = opened(tb)
    key = store(tb).shard(turn.id).key("hist", "c1")
    break_type(key)
    turn.respond(HELLO)
    assert state(turn) == "responded"
    assert sent(tb) == [(turn.id, "answer", "hello")]
    assert sent(tb) == []


def test_a_session_of_another_type_hides_no_other(break_type: Break, database: Database, one: Layout) -> None:
    """The changes of one session kept every due timer of its shard from firing."""
    shard = one.shard(0)
    for name in ("a", "b"):
        database.command("ZADD", shard.key("sessions"), 1, name)
        database.command("HSET", shard.key("activity", name), "calls", 1)
        database.command("RPUSH", shard.key("changes", name), '{"n":1,"kind":"k","name":"x"}')
    for key in (shard.key("sessions"), shard.key("activity", "b"), shard.key("changes", "b")):
        database.command("PEXPIRE", key, 60_000)
    for family in ("activity", "changes"):
        break_type(shard.key(family, "a"))
    assert [session.session for session in Sessions(database, one).newest(10)] == ["b"]
    assert list(SharedChanges(database, shard).read(["a", "b"])) == ["b"]


def test_a_heartbeat_of_another_type_hides_no_other_worker(break_type: Break, database: Database) -> None:
    presence = Presence(database, "default")
    database.command("ZADD", FLEET.key("workers"), database.now_ms(), "w@odd")
    database.command("PEXPIRE", FLEET.key("workers"), 60_000)
    break_type(FLEET.key("worker", "w@odd"))
    assert presence.roll() == ([], 1)


def test_a_record_that_cannot_be_stored_costs_no_other_session_its_command(
    break_type: Break, one: Layout, queue: CommandQueue, jobs: Jobs
) -> None:
    """The worker had leased the next command in the same round trip, and ended: it was recorded as lost."""
    who = JobClaimant(ANY_POOL, seconds=60, worker="w@test", host="h")
    wanted = [queue.put(session) for session in ("broken", "b", "c")]
    lease = jobs.lease(who)
    break_type(one.shard(0).key("records", "broken"))
    taken: list[str] = []
    stored: list[bool | None] = []
    while lease is not None:
        taken.append(lease.command_id)
        was_stored, lease = jobs.finish_and_lease(lease, ended(lease), who)
        stored.append(was_stored)
    assert (taken, stored) == (wanted, [None, True, True])


@pytest.mark.parametrize("on_lost", ["record", "retry"])
def test_a_workers_last_record_that_cannot_be_stored_fails_no_task(
    break_type: Break,
    database: Database,
    one: Layout,
    queue: CommandQueue,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    on_lost: str,
) -> None:
    """The error ended the task before it had woken another worker for the commands that were left."""

    def shut_down(_worker: JobWorker, lease: JobLease, _heartbeat: LeaseHeartbeat) -> CommandRecord:
        return msgspec.structs.replace(ended(lease, None), error=SHUTDOWN_REASON)

    command_id, answers = queue.put("broken", on_lost=on_lost), iter([True])
    monkeypatch.setattr(JobWorker, "_run", shut_down)
    break_type(one.shard(0).key("records", "broken"))
    runtime = Runtime(msgspec.structs.replace(settings, shards=1))
    JobWorker(runtime, one.team, "w@test", ANY_POOL).run(lambda: next(answers, False))
    runtime.database.close()
    runtime.short_database.close()
    assert database.command("ZRANGE", one.shard(0).key("running"), 0, -1) == [command_id.encode()]
