"""The sweep under concurrency: exactly one fallback a turn, and never one after an answer."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from multiprocessing.synchronize import Barrier

import msgspec
import pytest

from tellback import OutgoingResponse, Tellback, connect
from tellback.settings import Settings
from tellback.state.turns import Answer, Origin, TurnRef, Turns
from tellback_workers.sweep_turns import sweep
from tests.support.turns import HELLO, drained, opened, overdue, state, store
from tests.support.waiting import wait_until

SPAWN = multiprocessing.get_context("spawn")  # a fork would share the parent's connections
SWEEPERS = 20
DUE = 2_000


def due_turns(tb: Tellback, count: int) -> list[str]:
    """Turns that are overdue at once, in conversations and sessions of their own."""
    ids = [
        opened(tb, conversation=f"c{number}", session=f"s{number % 40}", answer_within=0.001).id
        for number in range(count)
    ]
    wait_until(lambda: len(store(tb).overdue(count + 1)) == count, "all are overdue")
    return ids


def _sweep_all(settings: Settings, barrier: Barrier, results: multiprocessing.Queue[int]) -> None:
    with connect(settings=settings) as tb:
        barrier.wait()
        written = 0
        while True:
            looked, wrote = sweep(store(tb), settings)
            written += wrote
            if looked == 0:
                break
        results.put(written)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_many_sweeper_processes_write_exactly_one_fallback_each(tb: Tellback, settings: Settings) -> None:
    ids = due_turns(tb, DUE)
    barrier, results = SPAWN.Barrier(SWEEPERS), SPAWN.Queue()
    sweepers = [SPAWN.Process(target=_sweep_all, args=(settings, barrier, results)) for _ in range(SWEEPERS)]
    for sweeper in sweepers:
        sweeper.start()
    written = [results.get(timeout=200) for _ in sweepers]
    for sweeper in sweepers:
        sweeper.join()
    assert sum(written) == DUE
    deliveries = drained(tb)
    assert Counter(delivery.turn_id for delivery in deliveries) == Counter(ids)
    assert {delivery.kind for delivery in deliveries} == {"fallback"}


def test_a_sweep_takes_the_longest_overdue_and_no_more_than_its_bound(tb: Tellback, settings: Settings) -> None:
    turns = [overdue(tb, conversation=f"c{number}") for number in range(8)]
    few = msgspec.structs.replace(settings, sweep_batch=5)
    assert sweep(store(tb), few) == (5, 5)
    assert [state(turn) for turn in turns] == ["fallback"] * 5 + ["open"] * 3
    assert sweep(store(tb), few) == (3, 3)


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
        barrier.wait()
        for ref in refs:
            answer = Answer(OutgoingResponse.text_only(f"answer {os.getpid()}"), 60_000)
            results.put(turns.answer(ref, answer, Origin("", "", 0, auto=False)))


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_answers_racing_with_sweepers_give_one_first_answer(tb: Tellback, settings: Settings) -> None:
    """Two hosts answer each of 1,500 overdue turns while three sweepers run; a fallback never follows an answer."""
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
    deliveries = drained(tb)
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
    first = drained(tb)
    assert [turn.respond(HELLO) for turn in turns] == ["late"] * 50
    second = drained(tb)
    assert {item.kind for item in first} == {"fallback"}
    assert {item.kind for item in second} == {"late"}
    assert len(first) == len(second) == 50
