"""The weekly decay: every score of a team is written back with the decay that it had since it was last written.

No reader sees a change: readers decay each score by its age, and the score and its time are written together. The
stored numbers stay close to their present meaning for anyone who reads them in Redis. A pass stores where it stands;
another worker can resume it when the lease expires. Requirements S-19 and S-20.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypedDict

from tellback.log import get_logger
from tellback.state.database import Database
from tellback.state.keys import Layout, Shard
from tellback.state.readable import UNREADABLE, names_of
from tellback.state.script_calls import ScriptCall
from tellback.state.scripts import signals as scripts

LEASE_MS: Final = 30_000  # renewed by every call; after it another worker resumes the pass of a crashed one
SCORE_BATCH: Final = 500  # two milliseconds of Redis' time
CLUSTER_BATCH: Final = 128  # keys of one script call
CLUSTERS_READ: Final = 1_024

DecayOutcome = Literal["done", "more", "held"]

_logger = get_logger("tellback.signals")


@dataclass(frozen=True, slots=True)
class DecayState:
    """The progress of a shard: the last week done, and the time at which it was.

    `at` is milliseconds, server time. `scores` and `written` count the running pass, else the last one.
    """

    shard: int
    done: str | None
    at: int | None
    running: bool
    scores: int
    written: int


class _LeaseLost(Exception):
    """Somebody else owns the pass, or a new week has begun."""


class Decay:
    """The decay of one team. Every Redis call is short, and every method raises `Unavailable` while Redis is away."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        self._layout = layout

    def due_shards(self) -> list[Shard]:
        """Return the shards that have banks and have not done this week, by the server's clock."""
        shards = self._layout.all
        marks = [("HGET", shard.key("decay"), "done") for shard in shards]
        banks = [("EXISTS", shard.key("banks")) for shard in shards]
        week = str(_ms(monday(self._db.now_ms()))).encode()
        replies = self._db.pipeline([*marks, *banks])
        done, exist = replies[: len(shards)], replies[len(shards) :]
        return [shard for shard, mark, some in zip(shards, done, exist, strict=True) if some and mark != week]

    def run(self, shard: Shard, token: str, stop: Callable[[], bool]) -> DecayOutcome:
        """Run or resume this week's decay of a shard until it is done or `stop` returns True.

        Args:
            shard: one that is due.
            token: the caller; it resumes its own pass at once, and another's when the lease has expired.
            stop: called after each Redis call.

        Returns:
            'held' if there is nothing to do or somebody else owns the pass, 'more' if `stop` ended the call.
        """
        began = self._db.run(scripts.begin_decay(shard=shard, token=token, lease_ms=LEASE_MS))
        if began is None:
            return "held"
        try:
            for _ in _DecayPass(self._db, shard, token).calls(*(part.decode() for part in began)):
                if stop():
                    return "more"
        except _LeaseLost:
            return "held"
        return "done"

    def states(self) -> list[DecayState]:
        """Return the state of each shard that has a bank or ever ran a decay."""
        keys = [(shard.key("decay"), shard.key("banks")) for shard in self._layout.all]
        commands = [call for decay, banks in keys for call in (("HGETALL", decay), ("EXISTS", banks))]
        replies = self._db.pipeline(commands)
        return [
            _state(shard, flat)
            for shard, flat, some in zip(self._layout.all, replies[::2], replies[1::2], strict=True)
            if flat or some
        ]


class _PassOwner(TypedDict):
    """The arguments of every script that continues a pass."""

    token: str
    lease_ms: int


class _DecayPass:
    """One caller's part of a shard's decay. Each iteration is one call that wrote something."""

    def __init__(self, database: Database, shard: Shard, token: str) -> None:
        self._db = database
        self._shard = shard
        self._held: _PassOwner = {"token": token, "lease_ms": LEASE_MS}

    def calls(self, bank: str, step: str, cursor: str, upto: str) -> Iterator[None]:
        """Decay all banks by name, from the pass's position; a bank that begins meanwhile has only fresh scores."""
        for name in self._banks():
            if name < bank or (name == bank and step == "done"):
                continue
            try:
                if name == bank and step == "clusters":
                    yield from self._decay_clusters(name, int(cursor), int(upto))
                else:
                    yield from self._decay_bank(name)
            except UNREADABLE as error:  # corrupt keys: skip this bank until next week
                _logger.error("decay.bank_failed", team=self._shard.team, bank=name, reason=str(error))  # noqa: TRY400 - its text says all
            self._run(scripts.end_decay(**self._held, shard=self._shard, bank=name))
            yield
        self._run(scripts.end_decay(**self._held, shard=self._shard, bank=""))

    def _banks(self) -> list[str]:
        names, cursor = set[str](), b"0"
        while True:
            cursor, flat = self._db.command("ZSCAN", self._shard.key("banks"), cursor, "COUNT", 1_000)
            names.update(names_of("bank", flat[::2]))
            if cursor == b"0":
                return sorted(names)

    def _decay_bank(self, bank: str) -> Iterator[None]:
        call = scripts.decay_facts(
            **self._held,
            bank=self._shard.key("bank", bank),
            bank_name=bank,
            about=SCORE_BATCH,
        )
        while self._run(call) == b"1":
            yield
        yield
        yield from self._decay_clusters(bank, 0, int(self._db.command("HGET", self._shard.key("decay"), "upto") or 0))

    def _decay_clusters(self, bank: str, version: int, upto: int) -> Iterator[None]:
        clusterver, count = self._shard.key("clusterver", bank), CLUSTER_BATCH
        while True:
            found = self._db.command(
                "ZRANGE", clusterver, f"({version}", upto, "BYSCORE", "LIMIT", 0, CLUSTERS_READ, "WITHSCORES"
            )
            places = [(slot.decode(), int(at)) for slot, at in zip(found[::2], found[1::2], strict=True)]
            while places:
                some = places[:count]
                call = scripts.decay_clusters(
                    **self._held,
                    shard=self._shard,
                    clusters=[self._shard.key("cluster", bank, slot) for slot, _ in some],
                    bank=bank,
                    most=SCORE_BATCH,
                    versions=[at for _, at in some],
                )
                done = int(self._run(call))
                count = min(CLUSTER_BATCH, done + 8)  # those that a call does not reach would be sent again
                version, places = some[done - 1][1], places[done:]
                yield
            if len(found) < 2 * CLUSTERS_READ:
                return

    def _run(self, call: ScriptCall) -> Any:
        reply = self._db.run(call)
        if reply is None:
            raise _LeaseLost
        return reply


def monday(at_ms: int) -> datetime:
    """Return the Monday, 00:00 UTC, of the ISO week of this moment."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return at.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=at.weekday())


def week_name(at_ms: int) -> str:
    """Return the ISO week of this moment, such as 2026-W47."""
    year, week, _ = datetime.fromtimestamp(at_ms / 1000, UTC).isocalendar()
    return f"{year}-W{week:02d}"


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _state(shard: Shard, flat: list[bytes]) -> DecayState:
    values = zip(flat[::2], flat[1::2], strict=True)
    fields = {name.decode(errors="replace"): int_or_none(value) for name, value in values}
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
    """Return a field's number; None for text."""
    try:
        return int(value)
    except ValueError:
        return None
