"""The checks of a chaos run: a small made-up history that holds, and one violation of each invariant."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import pytest

from tellback.contracts.commands import CommandRecord
from tests.chaos.end_state import EndState, FactEnd, TurnEnd
from tests.chaos.history import HistoryLine
from tests.chaos.injector import Injector
from tests.chaos.loads import bank_of
from tests.chaos.plan import KINDS, Fault, draw
from tests.chaos.report import judge, table
from tests.chaos.story import Story, add_up
from tests.chaos.watching import Seen, scan_monitor

WHO: Final = "host0.0"
BANK: Final = bank_of(WHO)
RECORD: Final = msgspec.convert(
    {
        "command_id": "c1",
        "session": "s",
        "command": ["sh", "-c", "", "host0.0.1"],
        "cwd": "/",
        "attempt": 1,
        "exit_code": 0,
        "duration_ms": 1,
        "started_at": "2026-01-01T00:00:00Z",
    },
    CommandRecord,
    strict=False,
)
POISONED: Final = 'no type: {"label":"poison-foreign0.0-1."}'


def _lines() -> list[HistoryLine]:
    """Return a life with ten tool calls, one signal, one command, one answered turn, and one unreadable entry."""

    def done(loop: str, op: str, n: int, result: dict[str, Any] | None = None, **detail: Any) -> list[HistoryLine]:
        who = "foreign0.0" if loop == "poison" else "transport0.0" if loop == "outbox" else WHO
        invoked = HistoryLine(who=who, loop=loop, op=op, n=n, phase="invoked", detail=detail)
        return [
            invoked,
            HistoryLine(who=who, loop=loop, op=op, n=n, phase="returned", detail=detail if result is None else result),
        ]

    lines = [line for n in range(1, 11) for line in done("guidance", "publish", n, evaluation=0)]
    lines += done("guidance", "feedback", 10, {"evaluation": 0, "taken": 1}, evaluation=0)
    lines += done("signals", "publish", 1)
    lines += done(
        "commands", "submit", 1, {"command_id": "c1"}, label="host0.0.1", session="s", on_lost="record", code=0
    )
    lines += [
        each
        for loop in ("guidance", "signals", "commands")
        for each in done(loop, "flush", 10 if loop == "guidance" else 1)
    ]
    lines += done("turns", "open", 1, turn="t1")
    lines += done("turns", "respond", 1, {"turn": "t1", "result": "accepted"}, turn="t1")
    lines += done("outbox", "deliver", 1, turn="t1", kind="answer", key="t1:first", settled="delivered")
    lines += done("poison", "append", 1)
    return lines


def _sound() -> tuple[Story, EndState, Seen]:
    facts = {(BANK, name): FactEnd(0.45, 5.0, 5.0, 1) for name in (f"{WHO}.a", f"{WHO}.b", "shared")}
    end = EndState(
        tool_calls={f"t-{WHO}": 10},
        evaluations={0: (10, 1)},
        facts=facts,
        decayed=dict(facts),
        nearest={BANK: (2, 0.3, 0.85)},
        turns={"t1": TurnEnd("responded", "delivered")},
        records={"s": [RECORD]},
        passed={"s": True},
        runs=[("host0.0.1", "17"), ("host0.0.1", "17")],
        dead=[POISONED],
        keys=12,
    )
    return add_up(_lines()), end, Seen(scripts=3, bytes_searched=99)


Spoil = Callable[[Story, EndState, Seen], None]


def _null() -> CommandRecord:
    return msgspec.structs.replace(RECORD, exit_code=None, error="lost: its worker died")


def _spoil_fact(end: EndState, name: str, fact: FactEnd, *, only_decayed: bool = False) -> None:
    key = BANK, name
    end.decayed = {**end.decayed, key: fact}
    if not only_decayed:
        end.facts = {**end.facts, key: fact}


def _set(name: str, value: Any) -> Spoil:
    return lambda _, end, __: setattr(end, name, value)


def _fact(name: str, fact: FactEnd, *, only_decayed: bool = False) -> Spoil:
    return lambda _, end, __: _spoil_fact(end, name, fact, only_decayed=only_decayed)


def _sent(kind: str, key: str) -> Spoil:
    return lambda story, _, __: story.turns["t1"].sent.append((kind, key, "delivered"))


def _records(*records: CommandRecord) -> Spoil:
    return _set("records", {"s": list(records)})


_OTHER: Final = msgspec.structs.replace(RECORD, command_id="c2")
VIOLATIONS: Final[dict[str, tuple[int, Spoil]]] = {
    "c1) has no record": (1, _set("records", {})),
    "c1 has 2 records": (1, _records(RECORD, RECORD)),
    "has 2 attempts": (1, _records(RECORD, _OTHER)),
    "nobody submitted: ['c2']": (1, _records(RECORD, _OTHER)),
    "c9 is superseded by nothing": (1, _set("superseded", ["c9"])),
    "ran 2 times, on_lost=record": (1, _set("runs", [("host0.0.1", "17"), ("host0.0.1", "18")])),
    "two attempts ran at the same time": (1, _set("runs", [("host0.0.1", each) for each in ("17", "18", "17")])),
    "ran 0 times to 0": (1, _set("runs", [])),
    "a null exit says why": (1, _records(msgspec.structs.replace(_null(), error=None))),
    "1 commands were lost, and faults hit 0": (1, _records(_null())),
    "the gate of s passes over ['c1']": (2, _records(_null())),
    "11 calls counted, 10 durable, 10 possible": (3, _set("tool_calls", {f"t-{WHO}": 11})),
    "9 calls counted, 10 durable": (3, _set("tool_calls", {f"t-{WHO}": 9})),
    "evaluation 0: 9 calls, from 10 to 10": (3, _set("evaluations", {0: (9, 0)})),
    "10 calls, 2 fires": (4, _set("evaluations", {0: (10, 2)})),
    "10 calls, 0 fires": (4, _set("evaluations", {0: (10, 0)})),
    "2 taken of 1": (4, lambda story, _, __: story.taken.update([0])),
    "2 calls never returned": (5, lambda story, _, __: setattr(story.life("guidance", WHO), "open_ops", 2)),
    "a call raised: host0.0": (5, lambda story, _, __: story.crashes.append("host0.0: ValueError")),
    "it is still open": (6, _set("turns", {"t1": TurnEnd("open")})),
    "two first answers were sent": (6, _sent("answer", "other")),
    "a fallback was sent beside an answer": (6, _sent("fallback", "t1:first")),
    "the accepted answer is not its end": (6, _set("turns", {"t1": TurnEnd("fallback", "delivered")})),
    "two answers were accepted": (6, lambda story, _, __: story.turns["t1"].asked.append(("respond", "accepted"))),
    "nobody gave its answer": (6, lambda story, _, __: story.turns["t1"].asked.clear()),
    "was opened and does not exist": (6, _set("turns", {})),
    "2 signals applied, 1 durable": (7, _fact(f"{WHO}.a", FactEnd(0.4, 5.0, 5.0, 2))),
    "1 and 0 of one batch each": (7, _fact(f"{WHO}.b", FactEnd(0.5, 5.0, 5.0, 0))),
    "score 0.55, expected 0.45": (7, _fact(f"{WHO}.a", FactEnd(0.55, 5.0, 5.0, 1))),
    "2 signals of the shared fact, 1 sent": (7, _fact("shared", FactEnd(0.4, 5.0, 5.0, 2))),
    "two of 2 clusters match": (7, _set("nearest", {BANK: (2, 0.9, 0.85)})),
    "0.46 after a decay": (8, _fact("shared", FactEnd(0.46, 9.0, 5.0, 1), only_decayed=True)),
    "a decay changed": (8, _fact("shared", FactEnd(0.45, 5.0, 9.0, 1), only_decayed=True)),
    "is gone after a decay": (8, _set("decayed", {})),
    "a secret in redis": (9, lambda _, __, seen: seen.secrets.append("redis/appendonly.aof")),
    "no family": (10, _set("key_problems", ["tb:{default.0}:x: no family"])),
    '"tb:{a.1}:x"': (11, lambda _, __, seen: seen.strays.append('[0 lua] "GET" "tb:{a.1}:x"')),
    "0 dead letters, 1 to 1 appended": (12, _set("dead", [])),
    "poison-foreign0.0-1. is 2 dead letters": (12, _set("dead", [POISONED, POISONED])),
    "a dead letter without a reason": (12, _set("dead", [POISONED.replace("no type", "")])),
    "could have been applied": (12, _set("dead", [POISONED, "failed five times: ToolInvoked"])),
    "not sent: on disk": (12, _set("left", ["on disk: shared.spool"])),
    "no transport had its answer": (13, lambda story, _, __: story.turns["t1"].sent.clear()),
    "its delivery is waiting": (13, _set("turns", {"t1": TurnEnd("responded", "waiting")})),
    "t1:first was delivered 2 times": (13, _sent("answer", "t1:first")),
    "not settled: 3 entries": (13, _set("left", ["3 entries in events"])),
}


def test_a_sound_history_holds() -> None:
    """Each invariant finds something to count, so none holds because nothing was looked at."""
    story, end, seen = _sound()
    verdicts = judge(story, end, seen, victims=0)
    assert [verdict.violations for verdict in verdicts] == [[]] * 13
    assert [verdict.invariant for verdict in verdicts if not verdict.counted] == []
    shown = table(story, {"kill redis": 2}, verdicts, ["worker0.1 ended with 1:\nValueError"])
    assert "holds" in shown
    assert shown.endswith("worker0.1 ended with 1:\nValueError")


@pytest.mark.parametrize("said", VIOLATIONS)
def test_a_violation_is_found_by_its_invariant(said: str) -> None:
    invariant, spoil = VIOLATIONS[said]
    story, end, seen = _sound()
    spoil(story, end, seen)
    (verdict,) = [each for each in judge(story, end, seen, victims=0) if each.invariant == invariant]
    assert said in "\n".join(verdict.violations)


def test_what_is_unknown_may_have_happened_or_not() -> None:
    """A host that dies in a call, or before its flush, says nothing about the events that were not flushed yet."""
    lines = [line for line in _lines() if line.op != "flush"][:-1]
    for calls in (0, 7, 10):
        story, end, seen = add_up(lines), _sound()[1], _sound()[2]
        end.tool_calls, end.evaluations, story.taken[0] = {f"t-{WHO}": calls}, {0: (calls, calls // 10)}, 0
        counts = next(verdict for verdict in judge(story, end, seen, victims=0) if verdict.invariant == 3)
        assert counts.violations == []


def test_a_key_that_was_not_passed_is_seen_in_what_a_script_does() -> None:
    script = b'+1.0 [0 127.0.0.1:1] "EVALSHA" "' + b"a" * 40 + b'" "1" "tb:{a.0}:x" "1"'
    seen = Seen()
    scan_monitor([script, b'+1.0 [0 lua] "GET" "tb:{a.0}:x"', b'+1.0 [0 127.0.0.1:1] "GET" "tb:{a.1}:y"'], seen)
    assert (seen.scripts, seen.script_commands, seen.strays) == (1, 1, [])
    scan_monitor([script, b'+1.0 [0 lua] "GET" "tb:{a.0}:y"'], seen)
    scan_monitor([script.replace(b'"1" "tb:{a.0}:x"', b'"2" "tb:{a.0}:x" "tb:{a.1}:x"')], seen)
    assert len(seen.strays) == 2


def test_a_seed_gives_the_same_faults_again() -> None:
    """Outages leave each other room, so that none lasts longer than a command waits for Redis."""
    faults = draw(7, 600)
    assert faults == draw(7, 600)
    assert faults != draw(8, 600)
    assert {fault.kind for fault in faults} == set(KINDS)
    outages = [fault for fault in faults if KINDS[fault.kind].is_outage]
    assert all(a.at + a.seconds + 5 < b.at for a, b in pairwise(outages))


class Server:
    """A Redis that records what is done to it."""

    def __init__(self) -> None:
        self.running = True
        self.done: list[str] = []

    def kill(self) -> None:
        self.running = False
        self.done.append("kill")

    def launch(self) -> None:
        self.running = True
        self.done.append("launch")

    def suspend(self) -> None:
        assert self.running
        self.done.append("suspend")

    def resume(self) -> None:
        assert self.running
        self.done.append("resume")


def test_a_redis_that_is_down_is_neither_killed_nor_stopped_again() -> None:
    """An hour of seed 2026 ended so on a busy machine, where faults of several seconds became due at once."""
    redis = Server()

    def revive(_: float) -> None:
        """Revive nothing, since no process is dead."""

    system: Any = SimpleNamespace(redis=redis, revive=revive)
    faults = [("stop redis", 1.0, 3.0), ("kill redis", 2.0, 3.0), ("stop redis", 2.5, 1.0), ("kill redis", 3.0, 1.0)]
    injector = Injector(system, [Fault(at, kind, 0, lasts) for kind, at, lasts in faults])
    for elapsed in (3.5, 5.0, 6.0):
        injector.advance(elapsed)
    assert redis.done == ["suspend", "kill", "launch"]
    assert injector.left_out == {"stop redis": 1, "kill redis": 1}
