"""One stored value that cannot be read, since a newer release wrote it or somebody by hand, costs only itself."""

from __future__ import annotations

import json
import logging
import sys
from functools import partial
from typing import Any

import pytest

from tellback import OutgoingResponse, Tellback
from tellback.client.outbox import open_outbox
from tellback.doctor.backlog import check_outbox, check_sweep
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.bank_stats import BankStatistics
from tellback.state.database import Database
from tellback.state.decay import Decay
from tellback.state.embeddings import Encoders, EncoderState
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations, timer_member
from tellback.state.keys import Layout, Shard, stream_of
from tellback.state.records import read_history
from tellback.state.shared_changes import SharedChanges
from tellback.state.tool_health import ToolHealth
from tellback.state.turn_sweeps import stranded
from tellback_workers.decay import run_for
from tellback_workers.due_timers import DueTimers
from tellback_workers.loops.guidance import GuidanceLoop
from tellback_workers.runtime import Runtime
from tests.support.intake_entries import idle_streams
from tests.support.scores import build_bank
from tests.support.turns import HELLO, deadline_passes, opened, sent, store, swept
from tests.support.unreadable import newer, of_another_type


def test_the_doctor_names_open_turns_that_cannot_be_read(tb: Tellback, database: Database, settings: Settings) -> None:
    """A sweep postpones them, so that no turn looked overdue, and their users got no fallback."""
    turns = [opened(tb, conversation=name) for name in ("sound", "newer", "odd")]
    keys = [store(tb).shard(turn.id).key("turn", turn.id) for turn in turns]
    for turn in turns:
        deadline_passes(tb, turn)
    database.command("HSET", keys[1], "state", "of a newer release")
    of_another_type(database, keys[2])
    assert swept(tb) == 1
    finding = check_sweep(database, tb.context.layout, settings)
    assert finding.state == "wrong"
    assert finding.found.startswith("2 open turns cannot be read")
    assert all(key in finding.found for key in keys[1:])
    assert "sweep_turns.failed" in finding.advice
    database.command("DEL", *keys[1:])
    assert check_sweep(database, tb.context.layout, settings).state == "ok"


def test_the_doctor_names_a_conversation_whose_first_answer_cannot_be_read(tb: Tellback, database: Database) -> None:
    """The later ones wait behind it, and after the advice they are sent."""
    for text in ("first", "second"):
        opened(tb, conversation="a").respond(OutgoingResponse.text_only(text))
    opened(tb, conversation="b").respond(HELLO)
    key = tb.context.layout.of_turn("chat", "a").key("outq", "chat", "a")
    database.command("LSET", key, 0, newer(database.command("LINDEX", key, 0)).replace(b'"turn"', b'"other"'))
    finding = check_outbox(database, tb.context.layout)
    assert (finding.state, finding.found) == ("wrong", f"the answers of 1 conversation cannot be read: {key}")
    assert "redis-cli LPOP" in finding.advice
    assert [text for _, _, text in sent(tb)] == ["hello"]
    database.command("LPOP", key)
    assert check_outbox(database, tb.context.layout).state == "ok"
    database.command("ZADD", tb.context.layout.of_turn("chat", "a").key("out", "chat"), "XX", 1, "a")
    assert [text for _, _, text in sent(tb)] == ["second"]


def test_the_doctor_names_it_however_many_channels_were_used_since(tb: Tellback, database: Database) -> None:
    """Only those of the 100 channels used last were."""
    opened(tb, channel="first").respond(HELLO)
    key = tb.context.layout.of_turn("first", "c1").key("outq", "first", "c1")
    database.command("LSET", key, 0, database.command("LINDEX", key, 0).replace(b'"turn"', b'"other"'))
    for number in range(100):
        opened(tb, channel=f"later-{number}").respond(HELLO)
    assert check_outbox(database, tb.context.layout).found == f"the answers of 1 conversation cannot be read: {key}"


def test_a_delivery_that_cannot_be_read_keeps_no_other_conversation_waiting(
    tb: Tellback, caplog: pytest.LogCaptureFixture
) -> None:
    """Its own waits, in order, for a transport that can read it; listings show the others."""
    odd, sound = opened(tb, conversation="odd"), opened(tb, conversation="sound")
    for turn in (odd, sound):
        turn.respond(HELLO)
    shard, database = store(tb).shard(odd.id), tb.context.database
    queue = shard.key("outq", "chat", "odd")
    raw = database.command("LINDEX", queue, 0)
    database.command("LSET", queue, 0, raw.replace(b'"kind":"answer"', b'"kind":"a newer kind"'))
    outbox = open_outbox(tb.context)
    assert [delivery.turn for _, _, delivery in outbox.pending("chat", 10)] == [sound.id]
    assert [turn for turn, _, _ in sent(tb)] == [sound.id]
    assert "delivery.unreadable" in caplog.text
    assert not outbox.has_ready("chat"), "it is postponed"
    database.command("LSET", queue, 0, raw)
    database.command("ZADD", shard.key("out", "chat"), "XX", 1, "odd")
    assert [turn for turn, _, _ in sent(tb)] == [odd.id]


def test_a_queue_whose_key_has_another_type_keeps_no_other_conversation_waiting(
    tb: Tellback, caplog: pytest.LogCaptureFixture
) -> None:
    odd, sound = opened(tb, conversation="odd"), opened(tb, conversation="sound")
    for turn in (odd, sound):
        turn.respond(HELLO)
    shard, database = store(tb).shard(odd.id), tb.context.database
    of_another_type(database, shard.key("outq", "chat", "odd"))
    assert [turn for turn, _, _ in sent(tb)] == [sound.id]
    assert "delivery.unreadable" in caplog.text
    database.command("DEL", shard.key("outq", "chat", "odd"))


def test_a_turn_whose_key_has_another_type_keeps_no_stranded_conversation_out_of_the_index(tb: Tellback) -> None:
    odd, sound = opened(tb, conversation="odd"), opened(tb, conversation="sound")
    sound.respond(HELLO)
    shard, database = store(tb).shard(odd.id), tb.context.database
    of_another_type(database, shard.key("turn", odd.id))
    of_sound = store(tb).shard(sound.id)
    database.command("ZREM", of_sound.key("out", "chat"), "sound")
    assert [place.conversation for place in stranded(database, tb.context.layout)] == ["sound"]
    database.command("DEL", shard.key("turn", odd.id))


def test_a_response_that_cannot_be_read_spends_no_attempt(tb: Tellback) -> None:
    turn = opened(tb)
    turn.respond(HELLO)
    database, queue = tb.context.database, store(tb).shard(turn.id).key("outq", "chat", "c1")
    raw: dict[str, Any] = json.loads(database.command("LINDEX", queue, 0))
    changed = raw | {"response": newer(raw["response"].encode()).decode()}
    database.command("LSET", queue, 0, json.dumps(changed))
    assert sent(tb) == []
    assert json.loads(database.command("LINDEX", queue, 0))["attempt"] == 0


def test_a_delivery_that_no_script_takes_keeps_no_other_waiting(
    tb: Tellback, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    """A newer release nests deeper than Redis decodes, and this process does decode it."""
    odd, sound = opened(tb, conversation="odd"), opened(tb, conversation="sound")
    for turn in (odd, sound):
        turn.respond(HELLO)
    request.addfinalizer(partial(sys.setrecursionlimit, sys.getrecursionlimit()))
    sys.setrecursionlimit(3_000)
    queue, deep = store(tb).shard(odd.id).key("outq", "chat", "odd"), b"[" * 1_001 + b"]" * 1_001
    stored = tb.context.database.command("LINDEX", queue, 0)
    tb.context.database.command("LSET", queue, 0, stored[:-1] + b',"of_a_newer_release":' + deep + b"}")
    assert [turn for turn, _, _ in sent(tb)] == [sound.id]
    assert "delivery.not_taken" in caplog.text


def test_a_delivery_that_cannot_be_read_keeps_no_late_answer_out_of_its_queue(tb: Tellback) -> None:
    """The answer takes the place of its own fallback, whatever else stands in the queue."""
    turn = opened(tb, answer_within=0.001)
    queue = store(tb).shard(turn.id).key("outq", "chat", "c1")

    deadline_passes(tb, turn)
    assert swept(tb) == 1
    tb.context.database.command("LPUSH", queue, "{")
    assert turn.respond(OutgoingResponse.text_only("late")) == "replaced"


def test_a_turn_that_cannot_be_read_is_left_out_of_listings(tb: Tellback) -> None:
    odd, sound = opened(tb), opened(tb)
    for turn in (odd, sound):
        turn.hand_over(to="me")
    key = store(tb).shard(odd.id).key("turn", odd.id)
    tb.context.database.command("HSET", key, "opened_at", "in a newer form")
    turns = store(tb)
    assert [turn.id for turn in turns.newest(10)] == [sound.id]
    assert [turn.id for turn in turns.open_now(10)] == [sound.id]
    assert [turn.id for turn in turns.handed_over_to("me", 10)] == [sound.id]
    tb.context.database.command("HSET", key, "opened_at", 1)
    assert {turn.id for turn in turns.handed_over_to("me", 10)} == {odd.id, sound.id}, "it is still in the list"


@pytest.mark.parametrize("odd", [b"{", b"[]", b'{"kind":"turn"}', b'{"at":"noon"}'])
def test_an_entry_that_cannot_be_read_is_left_out_of_the_history(
    tb: Tellback, odd: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    turn = opened(tb)
    key = store(tb).shard(turn.id).key("hist", "c1")
    tb.context.database.command("RPUSH", key, odd)
    [entry] = read_history(tb.context.database, tb.context.layout, "c1")
    assert entry["event"] == "opened"
    assert "stored.unreadable what='history entry' values=1" in caplog.text


def test_what_lists_many_leaves_out_what_cannot_be_read(database: Database, layout: Layout, shard: Shard) -> None:
    Encoders(database, layout).report(EncoderState(host="a", model="m", state="loaded"))
    database.command("HSET", shard.key("encoder"), "odd", '{"host":"b"}')
    assert [known.host for known in Encoders(database, layout).all()] == ["a"]

    tool = next(name for name in map(str, range(100)) if layout.of(name) == shard)
    ends = database.now_ms() + 60_000
    database.command("HSET", shard.key("health"), tool, json.dumps({"ends": ends}), "odd", "{")
    database.command("PEXPIRE", shard.key("health"), 60_000)
    assert [cool.tool for cool in ToolHealth(database, layout).in_force()] == [tool]
    assert set(ToolHealth(database, layout).cooling([tool])) == {tool}

    changes = shard.key("changes", "s")
    database.command("RPUSH", changes, "{", '{"n":1,"kind":"k","name":"x"}')
    database.command("PEXPIRE", changes, 60_000)
    assert [change.name for change in SharedChanges(database, shard).read(["s"])["s"]] == ["x"]

    log = shard.key("siglog", "b")
    database.command("RPUSH", log, "{", '{"at":1}')
    database.command("PEXPIRE", log, 60_000)
    assert BankStatistics(database, shard, "b").newest_signals(10) == [{"at": 1}]


def test_an_evaluation_that_cannot_be_read_keeps_no_other_from_its_feedback(
    database: Database,
    layout: Layout,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A member of the due set that names no evaluation keeps none either."""
    shard = layout.shard(0)
    ids = [EvaluationId("s", "ns:p", name) for name in ("a", "odd", "z")]
    sound = '{"session":"s","prompt":"ns:p","evaluation":"e","began_at":1}'
    for id_ in ids:
        key = shard.key("eval", *id_)
        database.command("HSET", key, "version", 1, "state", "{}" if id_.evaluation == "odd" else sound)
        database.command("PEXPIRE", key, 60_000)
    due = shard.key("timers")
    for member in ("no-evaluation", *(timer_member(shard, id_) for id_ in ids)):
        database.command("ZADD", due, 1, member)
    database.command("PEXPIRE", due, 60_000)
    claimed = Evaluations(database, shard).claim_timers(10, 10.0)
    assert sorted(id_.evaluation for id_, _ in claimed) == ["a", "odd", "z"]
    for id_ in ids:
        database.command("ZADD", due, 1, timer_member(shard, id_))
    seen: list[str] = []

    def one(_self: DueTimers, id_: EvaluationId, *_args: object, **_given: object) -> None:
        seen.append(id_.evaluation)

    monkeypatch.setattr(DueTimers, "_fire_one", one)
    runtime = Runtime(settings)
    DueTimers(runtime, shard, GuidanceLoop(runtime)).fire(float("inf"))
    assert sorted(seen) == ["a", "z"]


def test_a_stream_that_is_none_keeps_no_other_waiting(database: Database, layout: Layout, shard: Shard) -> None:
    database.command("SET", stream_of(shard, Family.EVENTS), "no stream", "PX", 60_000)
    database.command("XADD", stream_of(shard, Family.TURNS), "*", "m", "{}")
    assert idle_streams(database, layout) == [(shard, Family.TURNS)]
    database.command("DEL", stream_of(shard, Family.EVENTS))


def test_a_bank_whose_scores_are_none_keeps_no_other_from_its_decay(
    database: Database, layout: Layout, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    shard = layout.of("b")
    sound = next(name for name in (f"sound{n}" for n in range(100)) if layout.of(name) == shard)
    for bank in ("b", sound):
        build_bank(database, shard, bank, facts=3, clusters=1, each=1, age_ms=30 * 86_400_000)
    database.command("DEL", shard.key("factscore", "b"))
    database.command("SET", shard.key("factscore", "b"), "no hash")
    before = database.command("HGETALL", shard.key("factscore", sound))
    decay = Decay(database, layout)
    assert run_for(decay, "t", 3_600)
    assert database.command("HGETALL", shard.key("factscore", sound)) != before
    assert decay.due_shards() == []
    assert "decay.bank_failed" in caplog.text
    database.command("DEL", shard.key("factscore", "b"))
