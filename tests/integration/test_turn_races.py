"""Everything at once: many processes do all that hosts, sweepers and transports may do to the same turns."""

from __future__ import annotations

import itertools
import multiprocessing
import random
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing.synchronize import Barrier
from typing import Any, Final

import msgspec
import pytest

from tellback import OutgoingResponse, StateConflict, Tellback, connect
from tellback.client.turns import Turn
from tellback.settings import Settings
from tellback.state.turn_view import TurnView
from tellback_workers.sweep_turns import sweep
from tests.support.turns import SENT, deadline_passes, delivered_now, opened, store, swept

SPAWN = multiprocessing.get_context("spawn")  # a fork would share the parent's connections
PROCESSES: Final = 8
TALKS: Final = 60
IN_A_TALK: Final = 4  # turns of one conversation, which may be merged
OPEN: Final = frozenset({"open", "finishing"})

Reports = list[tuple[str, str, str]]  # call, turn, result


def raced(target: Callable[..., None], each: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return the results of processes of their own, all of them started at one moment."""
    barrier, results = SPAWN.Barrier(len(each)), SPAWN.Queue()
    processes = [SPAWN.Process(target=target, args=(*args, barrier, results)) for args in each]
    for process in processes:
        process.start()
    found = [results.get(timeout=200) for _ in processes]
    for process in processes:
        process.join()
    return found


def _do_anything(settings: Settings, ids: list[str], seed: int, barrier: Barrier, results: Any) -> None:
    """A host that sweeps and sends as well: each turn twice, in an order of its own."""
    dice, reported = random.Random(seed), Reports()
    few = msgspec.structs.replace(settings, sweep_batch=20, host=f"host-{seed}")
    with connect(settings=few) as tb:
        turns = {name: tb.turn(name) for name in ids}
        barrier.wait()
        for name in dice.sample(ids * 2, len(ids) * 2):
            reported.append(_one_call(tb, turns, turns[name], dice))
            if dice.random() < 0.1:
                reported.append(("sweep", "", str(sweep(store(tb), few)[1])))
            if dice.random() < 0.02:
                for delivery in itertools.islice(tb.outbox("chat"), 3):
                    reported.append(("send", f"{delivery.turn_id} {delivery.kind}", delivery.settle(SENT)))
    results.put(reported)


def _one_call(tb: Tellback, turns: dict[str, Turn], turn: Turn, dice: random.Random) -> tuple[str, str, str]:
    call = dice.choice(["respond", "fail", "defer", "progress", "no_reply", "hand_over", "merge", "time"])
    try:
        result = _called(tb, turns, turn, call, dice)
    except StateConflict:
        result = "conflict"
    return call, turn.id, result


def _called(tb: Tellback, turns: dict[str, Turn], turn: Turn, call: str, dice: random.Random) -> str:
    if call == "respond":
        return turn.respond(OutgoingResponse.text_only(f"answer {dice.random()}"), late_within=dice.choice([0, None]))
    if call == "fail":
        return turn.fail(code="x")
    if call == "merge":
        others = [item for item in turns.values() if item.conversation == turn.conversation and item.id != turn.id]
        tb.merge_turns(dice.sample(others, 2), into=turn)
    elif call == "no_reply":
        turn.no_reply(reason="meant")
    elif call == "hand_over":
        turn.hand_over(to=f"host-{dice.randrange(PROCESSES)}")
    elif call == "time":
        deadline_passes(tb, turn)
    else:
        turn.defer(seconds=dice.choice([0.001, 60])) if call == "defer" else turn.progress()
    return "done"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_whatever_many_processes_do_each_turn_has_one_first_answer(tb: Tellback, settings: Settings) -> None:
    turns = [opened(tb, conversation=f"c{n}", answer_within=60) for n in range(TALKS) for _ in range(IN_A_TALK)]
    ids = [turn.id for turn in turns]
    reports = raced(_do_anything, [(settings, ids, seed) for seed in range(PROCESSES)])
    reported: Reports = [entry for report in reports for entry in report]
    for view in store(tb).open_now(10_000):
        deadline_passes(tb, tb.turn(view.id))
    fallbacks = sum(int(result) for call, _, result in reported if call == "sweep")
    assert fallbacks > 0, "some were overdue while the race was on"
    while count := swept(tb):
        fallbacks += count

    views = {view.id: view for view in store(tb).load(ids) if view is not None}
    assert not [view for view in views.values() if view.state in OPEN], "no turn is left open"
    assert store(tb).overdue(10) == []
    states = Counter(view.state for view in views.values())
    answers = Counter(result for call, _, result in reported if call in {"respond", "fail"})
    assert states["responded"] == answers["accepted"] + answers["replaced"]
    assert states["fallback"] == fallbacks - answers["replaced"]
    assert {result for call, _, result in reported if call == "send"} == {"delivered"}
    deliveries = [name.split() for call, name, _ in reported if call == "send"]
    deliveries += [[item.turn_id, item.kind] for item in delivered_now(tb)]
    firsts = Counter(name for name, kind in deliveries if kind != "late")
    assert firsts == Counter(name for name, view in views.items() if view.state in {"responded", "fallback"})
    assert Counter(kind for _, kind in deliveries) == Counter(
        answer=states["responded"], fallback=states["fallback"], late=answers["late"]
    )
    _check_that_each_user_was_answered(views, firsts)
    proof = {"accepted", "replaced", "duplicate", "closed", "merged", "late", "stale"}
    assert proof <= answers.keys(), "a race in which one side always wins proves nothing"
    assert min(states[state] for state in ("responded", "fallback", "no_reply", "merged")) > 0


def _check_that_each_user_was_answered(views: dict[str, TurnView], firsts: Counter[str]) -> None:
    """A merged turn leads, in few steps and in no circle, to one that was answered, or was meant not to be."""
    for view in views.values():
        last, steps = view, 0
        while last.merged_into is not None:
            last, steps = views[last.merged_into], steps + 1
            assert steps < IN_A_TALK
        assert last.state == "no_reply" or firsts[last.id] == 1


def _open_all(settings: Settings, count: int, barrier: Barrier, results: Any) -> None:
    with connect(settings=settings) as tb:
        barrier.wait()
        turns = [opened(tb, conversation=f"c{n % 10}", message_id=str(n)) for n in range(count)]
        reported = [turn.respond(OutgoingResponse.text_only("hello")) for turn in turns]
    results.put([(turn.id, turn.duplicate, result) for turn, result in zip(turns, reported, strict=True)])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_same_messages_from_sixteen_processes_open_one_turn_each(tb: Tellback, settings: Settings) -> None:
    reports = raced(_open_all, [(settings, 100)] * 16)
    reported = [entry for report in reports for entry in report]
    ids = {name for name, _, _ in reported}
    assert len(ids) == 100
    assert Counter(name for name, duplicate, _ in reported if not duplicate) == Counter(ids)
    assert Counter(result for _, _, result in reported) == {"accepted": 100, "duplicate": 1_500}
    assert Counter(item.turn_id for item in delivered_now(tb)) == Counter(ids)
    events = Counter(entry["event"] for n in range(10) for entry in tb.history(f"c{n}"))
    assert events == {"opened": 100, "answered": 100, "delivered": 100}
