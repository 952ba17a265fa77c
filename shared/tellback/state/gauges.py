"""Counters and gauges of commands, turns, deliveries and waiting events, for metrics and listings.

Scripts count outcomes as they store them, in one hash a shard that only grows (see `lua/lib/turnstats.lua`). Gauges are
read from the indexes. Every read has a bounded cost, and labels that come from outside are capped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, NamedTuple

from tellback.names import Family
from tellback.state.database import Database
from tellback.state.job_keys import ANY_POOL
from tellback.state.keys import Layout, stream_of
from tellback.state.readable import (
    counts_of,
    names_of,
    read_each,
    readable,
    reply_of,
    scored_names,
    summed_counts,
    whole,
)
from tellback.state.script_calls import Command
from tellback.state.steady import skews, steady_now

OUTCOMES: Final = ("succeeded", "failed", "no_exit", "refused", "cancelled", "abandoned", "lost", "superseded")
"""no_exit: it has no exit code for another reason than the rest, such as a timeout. abandoned: no worker served its
host. lost: its worker crashed. superseded: a second record of one command, which is kept beside the first."""

POOLS: Final = 100  # names of hosts come from outside: cap the labels of the metric

OTHER: Final = "other"

ANY: Final = "any"


@dataclass(frozen=True, slots=True)
class CommandGauges:
    """Commands at this moment; `lease_expired` are those that run under an expired lease.

    `queued` is by pool: `any`, or a host. The 100 pools used last have their own names, all others count as `other`.
    """

    running: int
    lease_expired: int
    queued: Mapping[str, int]


def command_gauges(database: Database, layout: Layout) -> CommandGauges:
    """Read the gauges of a team's commands, with a bounded number of calls for each shard.

    Raises:
        Unavailable: Redis is away.
    """
    running = [shard.key("running") for shard in layout.all]
    nows = steady_now(database, layout.all)  # leases end by it: by the wall clock, a step forward ended them all
    total = sum(database.pipeline([("ZCARD", key) for key in running]))
    silent = sum(database.pipeline([("ZCOUNT", key, "-inf", now) for key, now in zip(running, nows, strict=True)]))
    return CommandGauges(total, silent, _queued(database, layout))


def _last_used(database: Database, layout: Layout, index: str) -> dict[str, float]:
    """Return when each name in an index of the shards was last used."""
    used: dict[str, float] = {}
    for flat in database.pipeline([("ZRANGE", shard.key(index), 0, -1, "WITHSCORES") for shard in layout.all]):
        for name, at in scored_names(index.removesuffix("s"), flat):
            used[name] = max(at, used.get(name, 0.0))
    return used


def _queued(database: Database, layout: Layout) -> dict[str, int]:
    used = _last_used(database, layout, "pools")
    pools = sorted(used, key=lambda pool: (pool != ANY_POOL, -used[pool], pool))
    counts = database.pipeline([("ZCARD", shard.key("jobs", pool)) for pool in pools for shard in layout.all])
    found = {ANY: 0}
    for index, pool in enumerate(pools):
        name = ANY if pool == ANY_POOL else pool if index < POOLS else OTHER
        found[name] = found.get(name, 0) + sum(counts[index * layout.shards : (index + 1) * layout.shards])
    return found


def records_by_outcome(database: Database, layout: Layout) -> dict[str, int]:
    """Return how many records the team's commands ended in, by outcome; these counters only grow.

    Raises:
        Unavailable: Redis is away.
    """
    return summed_counts(database, [shard.key("cmdstats") for shard in layout.all], OUTCOMES)


CHANNELS: Final = 100  # names come from outside: cap the labels of the metric

CONVERSATIONS: Final = 1_000  # of a channel in a shard whose queues are measured; each further one counts as one


@dataclass(frozen=True, slots=True)
class Histogram:
    """Observations by their upper bound in seconds (None: no bound), and their sum in seconds."""

    buckets: Mapping[float | None, int]
    sum: float


@dataclass(frozen=True, slots=True)
class TurnCounts:
    """Counters since the first turn: events of turns, of deliveries by channel, and times."""

    turns: Mapping[str, int]
    deliveries: Mapping[tuple[str, str], int]
    """(event, channel) -> how many."""
    times: Mapping[str, Histogram]


@dataclass(frozen=True, slots=True)
class ChannelState:
    """A channel's outbox now. Times are seconds; `unpolled` is None if no transport polled within seven days.

    `deliveries` counts those of at most 1,000 conversations in each shard; each further conversation counts as one.
    """

    conversations: int
    deliveries: int
    ambiguous: int
    waits: float
    unpolled: float | None

    def __add__(self, other: ChannelState) -> ChannelState:
        """Return the state of both channels as one."""
        asked = [each.unpolled for each in (self, other) if each.unpolled is not None]
        return ChannelState(
            self.conversations + other.conversations,
            self.deliveries + other.deliveries,
            self.ambiguous + other.ambiguous,
            max(self.waits, other.waits),
            max(asked, default=None),
        )


@dataclass(frozen=True, slots=True)
class TurnGauges:
    """Open turns now; `lag` is how long the longest overdue turn is past its deadline, in seconds."""

    open: int
    overdue: int
    lag: float


class TurnStats:
    """Reads turn counters and gauges at a bounded cost. Every method raises `Unavailable` while Redis is away."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        self._layout = layout

    def counts(self) -> TurnCounts:
        """Return the counters, summed over all shards."""
        turns, deliveries = defaultdict[str, int](int), defaultdict[tuple[str, str], int](int)
        times = defaultdict[str, dict[str, int]](dict)
        for name, value in self._counters():
            what, _, rest = name.partition(":")
            first, _, second = rest.partition(":")
            if what == "turn":
                turns[first] += value
            elif what == "delivery":
                deliveries[first, second] += value
            elif first in ("inf", "sum") or first.isdecimal():  # a newer release may count something else
                times[what][first] = times[what].get(first, 0) + value
        return TurnCounts(turns, deliveries, {name: _histogram(found) for name, found in times.items()})

    def _counters(self) -> Iterable[tuple[str, int]]:
        for flat in self._db.pipeline([("HGETALL", shard.key("turnstats")) for shard in self._layout.all]):
            yield from counts_of(zip(flat[::2], flat[1::2], strict=True))

    def gauges(self) -> TurnGauges:
        """Return the open and overdue turns at this moment."""
        shards = self._layout.all
        due, nows = [shard.key("due") for shard in shards], steady_now(self._db, shards)
        opened = sum(self._db.pipeline([("ZCARD", key) for key in due]))
        counts = [("ZCOUNT", key, "-inf", now) for key, now in zip(due, nows, strict=True)]
        overdue = sum(self._db.pipeline(counts))
        firsts = self._db.pipeline([("ZRANGE", key, 0, 0, "WITHSCORES") for key in due])
        waits = (now - whole(first[1]) for first, now in zip(firsts, nows, strict=True) if first)
        return TurnGauges(opened, overdue, max([0.0, *waits]) / 1000)

    def channels(self) -> dict[str, ChannelState]:
        """Return the outboxes of the 100 channels used last; all others count as one, `other`."""
        polled = _last_used(self._db, self._layout, "polled")
        now, ahead = self._db.now_ms(), skews(self._db, self._layout.all)
        found: dict[str, ChannelState] = {}
        used = _last_used(self._db, self._layout, "channels")
        names = sorted(used, key=lambda channel: (-used[channel], channel))
        for start in range(0, len(names), CHANNELS):  # each page in two round trips; there may be 1,000 a shard
            page = names[start : start + CHANNELS]
            for channel, state in zip(page, self._states(page, now, ahead, polled), strict=True):
                name = OTHER if start else channel
                found[name] = found[name] + state if name in found else state
        return found

    def _states(
        self, channels: Sequence[str], now: int, ahead: Sequence[int], polled: Mapping[str, float]
    ) -> Iterable[ChannelState]:
        indexes = self._read_indexes(channels)
        queues = [queue for index in indexes for queue in index.queues]
        lengths = dict(zip(queues, read_each(self._db, [("LLEN", queue) for queue in queues]), strict=True))
        for channel, index in zip(channels, indexes, strict=True):
            deliveries = sum(readable("queue", [lengths[queue] for queue in index.queues], reply_of))
            oldest = min([now, *(at + ahead[shard] for shard, at in index.firsts.items())])
            asked = polled.get(channel)
            yield ChannelState(
                index.conversations,
                deliveries + index.conversations - len(index.queues),
                index.ambiguous,
                (now - oldest) / 1000,
                None if asked is None else max(0.0, (now - asked) / 1000),
            )

    def _read_indexes(self, channels: Sequence[str]) -> list[_ChannelIndex]:
        shards = self._layout.all
        commands: list[Command] = []
        for channel, shard in product(channels, shards):
            out = shard.key("out", channel)
            commands += [
                ("ZCARD", out),
                ("ZCARD", shard.key("ambiguous", channel)),
                ("ZRANGE", out, 0, CONVERSATIONS - 1, "WITHSCORES"),
            ]
        replies = iter(self._db.pipeline(commands))
        found: list[_ChannelIndex] = []
        for channel in channels:
            index = _ChannelIndex()
            for shard in shards:
                index.conversations += next(replies)
                index.ambiguous += next(replies)
                flat = next(replies)
                if flat:
                    index.firsts[shard.index] = whole(flat[1])
                index.queues += [shard.key("outq", channel, name) for name in names_of("conversation", flat[::2])]
            found.append(index)
        return found


@dataclass(slots=True)
class _ChannelIndex:
    """A channel's conversations: their number, the queues of those measured, and by shard when the first is due."""

    conversations: int = 0
    ambiguous: int = 0
    firsts: dict[int, int] = field(default_factory=dict[int, int])
    queues: list[str] = field(default_factory=list[str])


def _histogram(found: Mapping[str, int]) -> Histogram:
    buckets = {None if bound == "inf" else int(bound) / 1000: count for bound, count in found.items() if bound != "sum"}
    return Histogram(buckets, found.get("sum", 0) / 1000)


class Backlog(NamedTuple):
    """The waiting events of one family: all, those of the longest stream, and when the oldest came (ms, or None)."""

    events: int
    longest: int
    since: int | None

    def age(self, now_ms: int) -> float:
        """Return how long the oldest has waited, in seconds; 0 if none waits."""
        return 0.0 if self.since is None else max(0, now_ms - self.since) / 1000


def read_backlog(database: Database, layout: Layout, family: Family) -> Backlog:
    """Return what waits in a family's streams, those entries included that a consumer has read and not applied."""
    streams = [stream_of(shard, family) for shard in layout.all]
    lengths: list[int] = database.pipeline([("XLEN", stream) for stream in streams])
    oldest = database.pipeline([("XRANGE", stream, "-", "+", "COUNT", 1) for stream in streams])
    since = min((int(entry[0][0].partition(b"-")[0]) for entry in oldest if entry), default=None)
    return Backlog(sum(lengths), max(lengths), since)
