"""The state of Redis, the disks and the logs after a run has settled, as plain data that the checks read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from tellback import Tellback
from tellback.contracts.commands import CommandRecord
from tellback.state.banks import unpack_fact
from tellback.state.dead_letters import DeadLetters
from tellback.state.decay import Decay
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tellback.state.guidance_stats import read_stats
from tellback.state.keys import Shard
from tellback.state.records import Records
from tellback.state.turns import Turns
from tests.chaos.loads import BANKS, CHANNEL, EVALUATIONS, RUNS, evaluation_of
from tests.support.keyleaks import undeclared

PAGE: Final = 500


@dataclass(frozen=True)
class TurnEnd:
    """A turn as it stands in the end."""

    state: str
    delivery: str | None = None
    late_delivery: str | None = None


@dataclass(frozen=True)
class FactEnd:
    """A fact's stored score with its times in milliseconds, and the number of its signals."""

    score: float
    at: float
    last_signal_at: float
    signals: int


@dataclass(kw_only=True)
class EndState:
    """Everything that the checks compare with the history."""

    tool_calls: Mapping[str, int] = field(default_factory=dict[str, int])
    evaluations: Mapping[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """Calls and fires of each shared evaluation."""
    facts: Mapping[tuple[str, str], FactEnd] = field(default_factory=dict[tuple[str, str], FactEnd])
    """The score and counts of each fact, by bank and fact."""
    decayed: Mapping[tuple[str, str], FactEnd] = field(default_factory=dict[tuple[str, str], FactEnd])
    """The same after one more decay, with no signal between."""
    nearest: Mapping[str, tuple[int, float, float]] = field(default_factory=dict[str, tuple[int, float, float]])
    """Each bank's number of query clusters, the highest cosine of two of them, and its threshold."""
    turns: Mapping[str, TurnEnd] = field(default_factory=dict[str, TurnEnd])
    records: Mapping[str, list[CommandRecord]] = field(default_factory=dict[str, list[CommandRecord]])
    """The records of each session, oldest first."""
    superseded: list[str] = field(default_factory=list[str])
    passed: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """True for each session whose gate passes."""
    runs: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The label and the process of each line that a command wrote, in order."""
    dead: list[str] = field(default_factory=list[str])
    """Each dead letter: its reason and its text."""
    left: list[str] = field(default_factory=list[str])
    """Names of what is not finished, or waits where no process reads it."""
    key_problems: list[str] = field(default_factory=list[str])
    keys: int = 0


def read_end_state(
    tb: Tellback, folder: Path, turns: Iterable[str], sessions: Iterable[str], slack_ms: int, left: list[str]
) -> EndState:
    """Read everything; `turns` and `sessions` are those of the history."""
    counters = Counter[str]()
    for day in read_stats(tb.context.database, tb.context.layout, 4):
        counters.update(day.counters)
    facts = _facts(tb)
    _decay_again(tb)
    records = Records(tb.context.database, tb.context.layout)
    sessions = list(sessions)
    return EndState(
        tool_calls={name.split(":")[1]: n for name, n in counters.items() if name.endswith(":calls")},
        evaluations={number: _evaluation(tb, number) for number in range(EVALUATIONS)},
        facts=facts,
        decayed=_facts(tb),
        nearest={bank: _nearest(tb, bank) for bank in (f"bank-{number}" for number in range(BANKS))},
        turns=_turns(tb, turns),
        records={session: records.all(session)[0] for session in sessions},
        superseded=[record.command_id for session in sessions for record in records.superseded(session)],
        passed={session: tb.gate(session).passed for session in sessions},
        runs=_runs(folder / "commands" / RUNS),
        dead=[
            f"{letter.reason}: {letter.raw}" for letter in DeadLetters(tb.context.database, tb.context.layout).all_now()
        ],
        left=[*left, *_unseen(tb)],
        key_problems=undeclared(tb.context.database, slack_ms=slack_ms),
        keys=int(tb.context.database.command("DBSIZE")),
    )


def _evaluation(tb: Tellback, number: int) -> tuple[int, int]:
    session, prompt, name = evaluation_of(number)
    counts = Evaluations(tb.context.database, tb.context.layout.of(session)).counts(EvaluationId(session, prompt, name))
    return counts.calls, counts.fires


def _banks(tb: Tellback) -> list[tuple[Shard, str]]:
    return [(tb.context.layout.of(bank), bank) for bank in (f"bank-{number}" for number in range(BANKS))]


def _facts(tb: Tellback) -> dict[tuple[str, str], FactEnd]:
    found: dict[tuple[str, str], FactEnd] = {}
    for shard, bank in _banks(tb):
        flat = tb.context.database.command("HGETALL", shard.key("factscore", bank))
        for name, packed in zip(flat[::2], flat[1::2], strict=True):
            score, at, last, _, *counts = unpack_fact(packed)
            found[bank, name.decode()] = FactEnd(score, at, last, int(sum(counts)))
    return found


def _decay_again(tb: Tellback) -> None:
    decay = Decay(tb.context.database, tb.context.layout)
    for shard in tb.context.layout.all:
        tb.context.database.command("DEL", shard.key("decay"))  # the week is done: forget that, and who did it
        decay.run(shard, "checker", lambda: False)


def _nearest(tb: Tellback, bank: str) -> tuple[int, float, float]:
    shard = tb.context.layout.of(bank)
    threshold = float(tb.context.database.command("HGET", shard.key("bank", bank), "threshold") or 1)
    packed = tb.context.database.command("HVALS", shard.key("clustervec", bank))
    if len(packed) < 2:
        return len(packed), -1.0, threshold
    rows = np.stack([np.frombuffer(vector, np.float32) for vector in packed])
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, -1)
    return len(packed), float(cosines.max()), threshold


def _turns(tb: Tellback, ids: Iterable[str]) -> dict[str, TurnEnd]:
    found, rest, store = dict[str, TurnEnd](), iter(ids), Turns(tb.context.database, tb.context.layout)
    while page := list(islice(rest, PAGE)):
        for id_, view in zip(page, store.load(page), strict=True):
            if view is not None:
                found[id_] = TurnEnd(view.state, view.delivery, view.late_delivery)
    return found


def _runs(path: Path) -> list[tuple[str, str]]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [(label, process) for label, _, process in (line.partition(" ") for line in lines)]


def _unseen(tb: Tellback) -> list[str]:
    """Name what should be empty in the end: queues of deliveries with or without an index that a transport reads."""
    found: list[str] = []
    for shard in tb.context.layout.all:
        pattern = f"{shard.key('outq', CHANNEL, '')}*"
        cursor: bytes | int = 0
        while True:
            cursor, keys = tb.context.database.command("SCAN", cursor, "MATCH", pattern, "COUNT", 1_000)
            found += [f"deliveries wait: {key.decode()}" for key in keys]
            if int(cursor) == 0:
                break
    return found
