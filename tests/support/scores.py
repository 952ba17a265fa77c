"""Banks with many scores, written as signals would have left them, and what their facts add up to, counted again."""

from __future__ import annotations

import random
from dataclasses import dataclass
from struct import Struct

from tellback.contracts.signal_types import KINDS, NEUTRAL
from tellback.signals.ranking import clamp_score, decay_score
from tellback.state.banks import FACT
from tellback.state.database import Database
from tellback.state.keys import Shard
from tellback.state.script_calls import Command

_CONTEXT = Struct("<4d")
_HEAD = Struct("<3d")


@dataclass(frozen=True)
class Score:
    """A record's score, its time, and the time of its last signal."""

    score: float
    scored_at: float
    last_signal_at: float

    def at(self, now: float) -> float:
        return decay_score(self.score, now - self.scored_at)


def apply_signal(score: float, elapsed_ms: float, change: float) -> float:
    """The score after a signal `elapsed_ms` after the last one: decay, then `change`, then clamp."""
    return clamp_score(decay_score(score, elapsed_ms) + change)


def build_bank(
    database: Database, shard: Shard, bank: str, *, facts: int, clusters: int = 0, each: int = 0, age_ms: int
) -> None:
    """A bank of so many facts, and clusters of `each` facts, all signalled `age_ms` ago or up to a day before that."""
    rng = random.Random(bank)
    now = database.now_ms()

    def record(numbers: int) -> bytes:
        at = now - age_ms - rng.randrange(86_400_000)
        head = (rng.random(), at, at)
        return FACT.pack(*head, at, 1, *[0] * (len(KINDS) - 1)) if numbers == 8 else _CONTEXT.pack(*head, 1)

    def fill(key: str, count: int, numbers: int) -> None:
        for start in range(0, count, 1_000):
            pairs = [part for i in range(start, min(start + 1_000, count)) for part in (f"f{i}", record(numbers))]
            commands.append(("HSET", key, *pairs))

    commands: list[Command] = [
        ("HSET", shard.key("bank", bank), "id", "x", "model", "m", "dimension", 2, "threshold", 0.85),
        (
            "HSET",
            shard.key("bank", bank),
            "version",
            clusters,
            "created_at",
            now - age_ms,
            "last_signal_at",
            now - age_ms,
        ),
        ("ZADD", shard.key("banks"), now - age_ms, bank),
    ]
    fill(shard.key("factscore", bank), facts, 8)
    for slot in range(clusters):
        fill(shard.key("cluster", bank, str(slot)), each, 4)
        commands.append(("ZADD", shard.key("clusterver", bank), slot + 1, slot))
    for start in range(0, len(commands), 100):
        database.pipeline(commands[start : start + 100])


def scores(database: Database, shard: Shard, bank: str) -> dict[str, Score]:
    """Every score of a bank: facts by name, and those in clusters as `SLOT/FACT`."""
    found = _read(database, shard.key("factscore", bank), "")
    slots = [slot.decode() for slot in database.command("ZRANGE", shard.key("clusterver", bank), 0, -1)]
    for slot in slots:
        found |= _read(database, shard.key("cluster", bank, slot), f"{slot}/")
    return found


def mean(found: dict[str, Score], now: float) -> float:
    """The mean of the global scores."""
    facts = [score.at(now) for name, score in found.items() if "/" not in name]
    return sum(facts) / len(facts) if facts else NEUTRAL


def _read(database: Database, key: str, prefix: str) -> dict[str, Score]:
    flat = database.command("HGETALL", key)
    return {
        prefix + field.decode(): Score(*_HEAD.unpack(packed[: _HEAD.size]))
        for field, packed in zip(flat[::2], flat[1::2], strict=True)
    }
