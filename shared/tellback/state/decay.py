"""The weekly decay: every score of a team, written back as it has faded.

Nothing that a reader sees changes by it: scores fade by the time since they were last written, and both are written
together. What stands in Redis stays near what it means, for whoever reads it there. Source: feedback-signals, "Time
Decay".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from tellback.state.database import Database
from tellback.state.keys import Layout, Shard
from tellback.state.script import Script

LEASE_MS: Final = 30_000
SCORES_AT_ONCE: Final = 500  # two milliseconds of Redis' time
CONTEXTS_AT_ONCE: Final = 128
CONTEXTS_READ: Final = 1_024

Outcome = Literal["done", "more", "held"]

_begin = Script("begin_decay")
_facts = Script("decay_facts")
_contexts = Script("decay_contexts")
_end = Script("end_decay")


@dataclass(frozen=True, slots=True)
class DecayState:
    """Where a shard stands: the Monday of the week that it has done, when that was, and what it came to.

    `at` is milliseconds, server time. `scores` and `written` count the pass that is under way, else the last one.
    """

    shard: int
    done: str | None
    at: int | None
    running: bool
    scores: int
    written: int


class _Lost(Exception):
    """Somebody else has the pass, or a new week has begun."""


class Decay:
    """The decay of one team. Every call of Redis is short, and every method raises `Unavailable` while it is away."""

    def __init__(self, database: Database, layout: Layout) -> None:
        """Take the Redis and the team's shards."""
        self._db = database
        self._layout = layout

    def due(self) -> list[Shard]:
        """The shards that have banks and have not done this week, by the server's clock."""
        shards = self._layout.all
        marks = [("HGET", shard.key("decay"), "done") for shard in shards]
        banks = [("EXISTS", shard.key("banks")) for shard in shards]
        week = str(_ms(monday(self._db.now_ms()))).encode()
        replies = self._db.pipeline([*marks, *banks])
        done, exist = replies[: len(shards)], replies[len(shards) :]
        return [shard for shard, mark, some in zip(shards, done, exist, strict=True) if some and mark != week]

    def run(self, shard: Shard, token: str, stop: Callable[[], bool]) -> Outcome:
        """Do this week's decay of a shard, from where a pass stands, until it is done or `stop` says so.

        Args:
            shard: one that is due.
            token: who works; one that comes again with it goes on at once, others when the lease has run out.
            stop: asked after each call of Redis.

        Returns:
            'held' where nothing is to be done, or somebody else is at it.
        """
        began = self._db.run(_begin.call([shard.key("decay"), shard.key("banks")], [token, LEASE_MS]))
        if began is None:
            return "held"
        try:
            for _ in _Pass(self._db, shard, token).calls(*(part.decode() for part in began)):
                if stop():
                    return "more"
        except _Lost:
            return "held"
        return "done"

    def states(self) -> list[DecayState]:
        """Where each shard stands that has a bank or ever did a decay."""
        keys = [(shard.key("decay"), shard.key("banks")) for shard in self._layout.all]
        commands = [call for decay, banks in keys for call in (("HGETALL", decay), ("EXISTS", banks))]
        replies = self._db.pipeline(commands)
        return [
            _state(shard, flat)
            for shard, flat, some in zip(self._layout.all, replies[::2], replies[1::2], strict=True)
            if flat or some
        ]


class _Pass:
    """What one caller does of a shard's decay. Each step of an iteration is one call that wrote something."""

    def __init__(self, database: Database, shard: Shard, token: str) -> None:
        self._db = database
        self._shard = shard
        self._token = token

    def calls(self, bank: str, step: str, cursor: str, upto: str) -> Iterator[None]:
        """All banks by name, from where the pass stands; one that begins meanwhile has fresh scores only."""
        for name in self._banks():
            if name < bank or (name == bank and step == "done"):
                continue
            if name == bank and step == "contexts":
                yield from self._contexts(name, int(cursor), int(upto))
            else:
                yield from self._whole(name)
            self._call(_end, (), name)
            yield
        self._call(_end, (), "")

    def _banks(self) -> list[str]:
        names, cursor = set[str](), b"0"
        while True:
            cursor, flat = self._db.command("ZSCAN", self._shard.key("banks"), cursor, "COUNT", 1_000)
            names.update(name.decode() for name in flat[::2])
            if cursor == b"0":
                return sorted(names)

    def _whole(self, bank: str) -> Iterator[None]:
        keys = (self._shard.key("facts", bank), self._shard.key("bank", bank))
        while self._call(_facts, keys, bank, SCORES_AT_ONCE) == b"1":
            yield
        yield
        yield from self._contexts(bank, 0, int(self._db.command("HGET", self._shard.key("decay"), "upto") or 0))

    def _contexts(self, bank: str, version: int, upto: int) -> Iterator[None]:
        ctxver = self._shard.key("ctxver", bank)
        while True:
            found = self._db.command(
                "ZRANGE", ctxver, f"({version}", upto, "BYSCORE", "LIMIT", 0, CONTEXTS_READ, "WITHSCORES"
            )
            places = [(slot.decode(), int(at)) for slot, at in zip(found[::2], found[1::2], strict=True)]
            while places:
                some = places[:CONTEXTS_AT_ONCE]
                keys = [self._shard.key("ctx", bank, slot) for slot, _ in some]
                done = int(self._call(_contexts, keys, bank, SCORES_AT_ONCE, *(at for _, at in some)))
                version, places = some[done - 1][1], places[done:]
                yield
            if len(found) < 2 * CONTEXTS_READ:
                return

    def _call(self, script: Script, keys: Any, *args: str | int) -> Any:
        reply = self._db.run(script.call([self._shard.key("decay"), *keys], [self._token, LEASE_MS, *args]))
        if reply is None:
            raise _Lost
        return reply


def monday(at_ms: int) -> datetime:
    """The Monday, 00:00 UTC, of the ISO week of this moment."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return at.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=at.weekday())


def week_name(at_ms: int) -> str:
    """The ISO week of this moment, such as 2026-W47."""
    year, week, _ = datetime.fromtimestamp(at_ms / 1000, UTC).isocalendar()
    return f"{year}-W{week:02d}"


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _state(shard: Shard, flat: list[bytes]) -> DecayState:
    fields = dict(zip((name.decode() for name in flat[::2]), (int_or_none(value) for value in flat[1::2]), strict=True))
    done = fields.get("done")
    return DecayState(
        shard=shard.index,
        done=None if done is None else week_name(done),
        at=fields.get("done_at"),
        running="week" in fields,
        scores=fields.get("scores") or 0,
        written=fields.get("written") or 0,
    )


def int_or_none(value: bytes) -> int | None:
    """The number that a field holds; None for text."""
    try:
        return int(value)
    except ValueError:
        return None
