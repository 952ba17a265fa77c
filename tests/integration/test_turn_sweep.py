"""The sweep under concurrency: exactly one fallback a turn, and never one after an answer."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import multiprocessing
import os
import re
from collections import Counter
from multiprocessing.synchronize import Barrier
from typing import Any

import msgspec
import pytest

from tellback import OutgoingResponse, Tellback, connect
from tellback.client.turns import open_turn
from tellback.errors import Unavailable
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.script_calls import Arg, ScriptCall
from tellback.state.turn_view import LostTurnOrigin, TurnAnswer, TurnRef
from tellback.state.turns import Turns
from tellback_workers.sweep_turns import sweep
from tests.support.forked import SERVED
from tests.support.turns import HELLO, deadline_passes, delivered_now, opened, overdue, sent, state, store, swept
from tests.support.waiting import wait_until

SPAWN = multiprocessing.get_context("spawn")  # a fork would share the parent's connections
SWEEPERS = 50
DUE = 10_000
BATCH = 25  # small, so that they meet often
CONVERSATIONS = 40
ROUNDS = 60  # of a race between hosts and sweepers


def due_turns(tb: Tellback, count: int) -> list[str]:
    """Turns that are overdue at once, in conversations and sessions of their own."""
    ids = [
        opened(tb, conversation=f"c{number}", session=f"s{number % 40}", answer_within=0.001).id
        for number in range(count)
    ]
    wait_until(lambda: len(store(tb).overdue(count + 1)) == count, "all are overdue")
    return ids


class ScriptRecorder(Database):
    """Keeps the scripts that it is to run, so that thousands go in one round trip."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.calls: list[ScriptCall] = []

    def run(self, call: ScriptCall) -> bytes:
        self.calls.append(call)
        return b'{"new": true, "state": "open", "session": "s", "language": "", "opened_at": 0}'


def at_once_due(tb: Tellback, count: int) -> list[str]:
    """As many overdue turns, opened as a client does it, but many in a round trip."""
    recorder = ScriptRecorder(tb.context.settings.redis_url)
    context = dataclasses.replace(tb.context, database=recorder)
    ids = [
        open_turn(
            context,
            channel="chat",
            conversation=f"c{number % CONVERSATIONS}",
            message_id=f"m{number}",
            text="hi",
            answer_within=0.001,
        ).id
        for number in range(count)
    ]
    for start in range(0, count, 500):
        tb.context.database.run_all(recorder.calls[start : start + 500])
    recorder.close()
    wait_until(lambda: len(store(tb).overdue(count + 1)) == count, "all are overdue")
    return ids


def outbox_entries(tb: Tellback) -> list[dict[str, Any]]:
    """Everything that lies in the outbox, taken or not."""
    layout = tb.context.layout
    queues = [
        layout.of_turn("chat", name).key("outq", "chat", name) for name in map("c{}".format, range(CONVERSATIONS))
    ]
    found = tb.context.database.pipeline([("LRANGE", queue, 0, -1) for queue in queues])
    return [json.loads(entry) for queue in found for entry in queue]


def _sweep_bounded(settings: Settings, barrier: Barrier, results: multiprocessing.Queue[tuple[int, int, int]]) -> None:
    """Sweep until nothing is due; how many fallbacks it wrote, how many turns it checked at, the most in one run."""
    with connect(settings=settings) as tb, contextlib.redirect_stdout(io.StringIO()):  # ten thousand log lines
        turns = store(tb)
        barrier.wait()
        written, seen, most = 0, 0, 0
        while True:
            checked, wrote = sweep(turns, settings)
            written, seen, most = written + wrote, seen + checked, max(most, checked)
            if checked == 0:
                break
        results.put((written, seen, most))


def _sweep_all(settings: Settings, barrier: Barrier, results: multiprocessing.Queue[int]) -> None:
    with connect(settings=settings) as tb:
        written = 0
        for _ in range(ROUNDS):
            barrier.wait()
            written += sweep(store(tb), settings)[1]
        results.put(written)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_fifty_sweepers_over_ten_thousand_due_turns_write_ten_thousand_fallbacks_oldest_first(
    tb: Tellback, settings: Settings
) -> None:
    """The sweepers are processes with connections of their own and begin at once; every run is bounded."""
    ids = at_once_due(tb, DUE)
    few = msgspec.structs.replace(settings, sweep_batch=BATCH)
    barrier, results = SERVED.Barrier(SWEEPERS), SERVED.Queue()
    sweepers = [SERVED.Process(target=_sweep_bounded, args=(few, barrier, results)) for _ in range(SWEEPERS)]
    for sweeper in sweepers:
        sweeper.start()
    found = [results.get(timeout=200) for _ in sweepers]
    for sweeper in sweepers:
        sweeper.join()
    assert sum(written for written, _, _ in found) == DUE
    assert sum(written > 0 for written, _, _ in found) > 1, "a race that one of them wins alone proves nothing"
    assert sum(seen for _, seen, _ in found) > DUE, (
        "sweepers came upon the same turns: a race in which none meet proves nothing"
    )
    assert max(most for _, _, most in found) <= BATCH
    posted = outbox_entries(tb)
    assert len(posted) == DUE
    assert {entry["turn"] for entry in posted} == set(ids), "one entry each, so each turn has exactly one"
    assert {entry["kind"] for entry in posted} == {"fallback"}
    views = [view for view in store(tb).load(ids) if view is not None]
    assert [view.state for view in views] == ["fallback"] * DUE
    closed = [at for _, at in sorted((view.deadline or 0, view.closed_at or 0) for view in views)]
    assert closed == sorted(closed), "whoever sweeps, nobody is answered before one who is overdue for longer"


def test_a_sweep_takes_the_longest_overdue_and_no_more_than_its_bound(tb: Tellback, settings: Settings) -> None:
    turns = [overdue(tb, conversation=f"c{number}") for number in range(8)]
    few = msgspec.structs.replace(settings, sweep_batch=5)
    assert sweep(store(tb), few) == (5, 5)
    assert [state(turn) for turn in turns] == ["fallback"] * 5 + ["open"] * 3
    assert sweep(store(tb), few) == (3, 3)


def test_a_turn_that_cannot_be_read_keeps_no_other_from_its_fallback(tb: Tellback, settings: Settings) -> None:
    """A newer release may have written its state. It is tried again after a while."""
    turns = [overdue(tb, conversation=f"c{number}") for number in range(3)]
    key = store(tb).shard(turns[0].id).key("turn", turns[0].id)
    tb.context.database.command("HSET", key, "state", "of-another-release")
    assert sweep(store(tb), settings) == (3, 2)
    assert [state(turn) for turn in turns[1:]] == ["fallback"] * 2
    assert store(tb).overdue(10) == [], "the others' sweeps are not held up by it"
    due = store(tb).shard(turns[0].id).key("due")
    assert float(tb.context.database.command("ZSCORE", due, turns[0].id)) > tb.context.database.now_ms()
    tb.context.database.command("HSET", key, "state", "open")
    deadline_passes(tb, turns[0])
    assert sweep(store(tb), settings) == (1, 1)


def test_a_turn_whose_fallback_cannot_be_written_costs_no_other_its_fallback_or_its_log_line(
    tb: Tellback, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its queue is no queue: the script fails, with others' in the same round trip."""
    turns = [overdue(tb, conversation=f"c{number}") for number in range(4)]
    key = tb.context.layout.of_turn("chat", "c1").key("outq", "chat", "c1")
    tb.context.database.command("SET", key, "no queue", "PX", 60_000)
    capsys.readouterr()
    assert sweep(store(tb), settings) == (4, 3)
    logged = capsys.readouterr().out.splitlines()
    reported = [line for line in logged if "[FeedbackGuarantee] Producing fallback OutgoingResponse ..." in line]
    assert [name in "".join(reported) for name in (turn.id for turn in turns)] == [True, False, True, True]
    assert len(reported) == 3
    assert any("sweep_turns.failed" in line and turns[1].id in line for line in logged)
    assert state(turns[1]) == "open", "the script changed nothing"
    assert store(tb).overdue(10) == [], "it is postponed"
    tb.context.database.command("DEL", key)
    deadline_passes(tb, turns[1])
    assert sweep(store(tb), settings) == (1, 1)
    assert len(sent(tb)) == 4


def test_what_is_no_turn_leaves_the_due_set_and_stops_no_sweep(
    tb: Tellback, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """Members are no id, not even text, or of another shard or none, and more of them than a sweep takes."""
    turn = overdue(tb)
    shard = store(tb).shard(turn.id)
    elsewhere = f"t{(shard.index + 1) % settings.shards}-{'0' * 24}"
    strays: list[Arg] = ["", "no turn", b"\xff", elsewhere, f"t9999-{'0' * 24}", *map("stray-{}".format, range(20))]
    database = tb.context.database
    scored: list[Arg] = [part for stray in strays for part in (1, stray)]
    database.command("ZADD", shard.key("due"), *scored)
    database.command("ZADD", shard.key("due"), database.now_ms() + 60_000, "later")
    assert [found.id for found in store(tb).open_now(100)] == [turn.id]
    assert sweep(store(tb), msgspec.structs.replace(settings, sweep_batch=10)) == (1, 1)
    assert state(turn) == "fallback"
    logged = [record.getMessage() for record in caplog.records if "index.strays_removed" in record.getMessage()]
    assert len(logged) == 3
    assert shard.key("due") in logged[0]
    assert "stray-19" in logged[1]
    assert database.command("ZRANGE", shard.key("due"), 0, -1) == [b"later"], "it is checked at when it is due"


def test_a_turn_that_is_there_again_stays_due(tb: Tellback) -> None:
    """A sweeper found no turn of a due id; before it forgets the id, the message is opened again."""
    turn = overdue(tb, message_id="m")
    tb.context.database.command("DEL", store(tb).shard(turn.id).key("turn", turn.id))
    again = opened(tb, message_id="m", answer_within=0.001)
    store(tb).drop_due([again.id])
    wait_until(lambda: swept(tb) == 1, "the turn that was opened again gets its fallback")
    assert state(again) == "fallback"


def test_redis_going_away_during_a_sweep_is_no_fault_of_a_turn(tb: Tellback, settings: Settings) -> None:
    overdue(tb)

    class Going(Turns):
        def fall_back(self, answers: object) -> list[bool | Exception]:
            raise Unavailable(str(answers))

    with pytest.raises(Unavailable):
        sweep(Going(tb.context.database, tb.context.layout), settings)
    assert len(store(tb).overdue(10)) == 1


def test_the_log_says_which_turn_and_channel_and_nothing_else(tb: Tellback, capsys: pytest.CaptureFixture[str]) -> None:
    turn = overdue(tb, text="my text")
    capsys.readouterr()
    sweep(store(tb), tb.context.settings)
    line = capsys.readouterr().out
    assert "[FeedbackGuarantee] Producing fallback OutgoingResponse ..." in line
    assert "[info" in line
    assert turn.id in line
    assert "channel=chat" in line
    assert "my text" not in line


def test_a_channels_name_forges_no_log_line(tb: Tellback, capsys: pytest.CaptureFixture[str]) -> None:
    overdue(tb, channel="chat\nall is well")
    capsys.readouterr()
    sweep(store(tb), tb.context.settings)
    assert len(capsys.readouterr().out.splitlines()) == 1


def _answer_all(settings: Settings, refs: list[TurnRef], barrier: Barrier, results: multiprocessing.Queue[str]) -> None:
    with connect(settings=settings) as tb:
        turns = Turns(tb.context.database, tb.context.layout)
        for number, ref in enumerate(refs):
            if number % (len(refs) // ROUNDS) == 0:
                barrier.wait()
            answer = TurnAnswer(OutgoingResponse.text_only(f"answer {os.getpid()}"), 60_000)
            results.put(turns.answer(ref, answer, LostTurnOrigin("", "", 0, auto=False)))


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_answers_racing_with_sweepers_give_one_first_answer(tb: Tellback, settings: Settings) -> None:
    """Two hosts answer each of 1,500 overdue turns while three sweepers run; a fallback never follows an answer.

    All wait for each other before each round, so that no side is through before another has a core.
    """
    due_turns(tb, 1_500)
    refs = [view.ref for view in store(tb).load(store(tb).overdue(1_500)) if view]
    few = msgspec.structs.replace(settings, sweep_batch=50)
    barrier, written, answers = SPAWN.Barrier(5), SPAWN.Queue(), SPAWN.Queue()
    racers = [SPAWN.Process(target=_sweep_all, args=(few, barrier, written)) for _ in range(3)]
    halves = (refs[::-1], refs)  # one host begins where the sweepers end
    racers += [SPAWN.Process(target=_answer_all, args=(settings, half, barrier, answers)) for half in halves]
    for racer in racers:
        racer.start()
    results = Counter(answers.get(timeout=200) for _ in range(3_000))
    fallbacks = sum(written.get(timeout=200) for _ in range(3))
    for racer in racers:
        racer.join()
    deliveries = delivered_now(tb)
    kinds = Counter(delivery.kind for delivery in deliveries)
    firsts = Counter(item.turn_id for item in deliveries if item.kind != "late")
    assert firsts == Counter(ref.id for ref in refs), "each turn has exactly one first answer"
    assert kinds["late"] == 0, "nobody had taken a fallback, so answers replaced them"
    assert results == {"accepted": 1_500 - fallbacks, "replaced": fallbacks, "duplicate": 1_500}
    assert kinds == {"answer": 1_500}
    assert 0 < fallbacks < 1_500, "a race in which one side always wins proves nothing"


def test_an_answer_that_lost_the_race_is_late_once_a_transport_has_the_fallback(tb: Tellback) -> None:
    turns = [overdue(tb, conversation=f"c{number}") for number in range(50)]
    sweep(store(tb), tb.context.settings)
    first = delivered_now(tb)
    assert [turn.respond(HELLO) for turn in turns] == ["late"] * 50
    second = delivered_now(tb)
    assert {item.kind for item in first} == {"fallback"}
    assert {item.kind for item in second} == {"late"}
    assert len(first) == len(second) == 50


def test_the_cost_of_a_sweep_follows_what_is_due(tb: Tellback) -> None:
    """Requirement T-24: counted in commands that Redis runs, within scripts too."""

    def commands() -> int:
        stats = tb.context.database.command("INFO", "commandstats").decode()
        return sum(int(calls) for calls in re.findall(r"calls=(\d+)", stats))

    def cost() -> int:
        due_turns(tb, 3)
        before = commands()
        assert swept(tb) == 3
        return commands() - before

    few = cost()
    for number in range(400):
        opened(tb, conversation=f"waits{number}", answer_within=600.0)
    assert cost() <= few + 10, "a page of the check for stranded deliveries may have more turns"
