"""What became of turns and deliveries, counted by their scripts, and where they stand now.

The counters are one hash in each shard, which only grows: see `lua/lib/turnstats.lua`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tellback.state.database import Command, Database
from tellback.state.keys import Layout
from tellback.state.outbox import Limits, Outbox

CHANNELS: Final = 100
OTHER: Final = "other"
CONVERSATIONS: Final = 1_000  # of a channel in a shard whose deliveries are counted one by one


@dataclass(frozen=True, slots=True)
class Histogram:
    """Observations by their upper bound in seconds (None: none), and their sum in seconds."""

    buckets: Mapping[float | None, int]
    sum: float


@dataclass(frozen=True, slots=True)
class TurnCounts:
    """Counted since the first turn: events of turns, of deliveries by channel, and times."""

    turns: Mapping[str, int]
    deliveries: Mapping[tuple[str, str], int]
    """(event, channel) -> how many."""
    times: Mapping[str, Histogram]


@dataclass(frozen=True, slots=True)
class ChannelState:
    """A channel's outbox now. Times are seconds; `unasked` is None where no transport asked within seven days.

    `deliveries` counts those of at most 1,000 conversations in each shard; of the others each counts as one.
    """

    conversations: int
    deliveries: int
    ambiguous: int
    waits: float
    unasked: float | None


@dataclass(frozen=True, slots=True)
class TurnsNow:
    """Obligations now; `lag` is how long the longest overdue turn is past its deadline, in seconds."""

    open: int
    overdue: int
    lag: float


class TurnStats:
    """Reads them; every method raises `Unavailable` while Redis is away, and costs what is bounded."""

    def __init__(self, database: Database, layout: Layout) -> None:
        """Take the Redis and the team's shards."""
        self._db = database
        self._layout = layout

    def counts(self) -> TurnCounts:
        """The counters of all shards, added up."""
        turns, deliveries = defaultdict[str, int](int), defaultdict[tuple[str, str], int](int)
        times = defaultdict[str, dict[str, int]](dict)
        for name, value in self._counters():
            what, _, rest = name.partition(":")
            first, _, second = rest.partition(":")
            if what == "turn":
                turns[first] += value
            elif what == "delivery":
                deliveries[first, second] += value
            else:
                times[what][first] = times[what].get(first, 0) + value
        return TurnCounts(turns, deliveries, {name: _histogram(found) for name, found in times.items()})

    def _counters(self) -> Iterable[tuple[str, int]]:
        for flat in self._db.pipeline([("HGETALL", shard.key("turnstats")) for shard in self._layout.all]):
            for name, value in zip(flat[::2], flat[1::2], strict=True):
                yield name.decode(), int(value)

    def now(self) -> TurnsNow:
        """What is owed at this moment."""
        now, due = self._db.now_ms(), [shard.key("due") for shard in self._layout.all]
        opened = sum(self._db.pipeline([("ZCARD", key) for key in due]))
        overdue = sum(self._db.pipeline([("ZCOUNT", key, "-inf", now) for key in due]))
        firsts = self._db.pipeline([("ZRANGE", key, 0, 0, "WITHSCORES") for key in due])
        oldest = min((float(first[1]) for first in firsts if first), default=now)
        return TurnsNow(opened, overdue, max(0.0, (now - oldest) / 1000))

    def channels(self) -> dict[str, ChannelState]:
        """The outboxes of the 100 channels used last; those beyond are one, `other`."""
        outbox = Outbox(self._db, self._layout, Limits(lease_ms=1, attempts=1, retry_ms=1, hold_ms=1))
        served, now = outbox.served(), self._db.now_ms()
        found: dict[str, ChannelState] = {}
        for index, channel in enumerate(self._newest_channels()):
            state = self._channel(channel, now, served.get(channel))
            name = channel if index < CHANNELS else OTHER
            found[name] = _together(found[name], state) if name in found else state
        return found

    def _newest_channels(self) -> list[str]:
        replies = self._db.pipeline(
            [("ZRANGE", shard.key("channels"), 0, -1, "WITHSCORES") for shard in self._layout.all]
        )
        used: dict[str, float] = {}
        for flat in replies:
            for name, at in zip(flat[::2], flat[1::2], strict=True):
                used[name.decode()] = max(float(at), used.get(name.decode(), 0.0))
        return sorted(used, key=lambda channel: (-used[channel], channel))

    def _channel(self, channel: str, now: int, asked: int | None) -> ChannelState:
        shards = self._layout.all
        commands: list[Command] = []
        for shard in shards:
            out = shard.key("out", channel)
            commands += [
                ("ZCARD", out),
                ("ZCARD", shard.key("unsure", channel)),
                ("ZRANGE", out, 0, CONVERSATIONS - 1, "WITHSCORES"),
            ]
        conversations, ambiguous, queues = 0, 0, list[str]()
        oldest = now
        replies: Sequence[Any] = self._db.pipeline(commands)
        for shard, (count, unsure, flat) in zip(
            shards, zip(replies[::3], replies[1::3], replies[2::3], strict=True), strict=True
        ):
            conversations, ambiguous = conversations + count, ambiguous + unsure
            oldest = min([oldest, *(int(float(at)) for at in flat[1:2])])
            queues += [shard.key("outq", channel, name.decode()) for name in flat[::2]]
        deliveries = sum(self._db.pipeline([("LLEN", queue) for queue in queues]))
        unasked = None if asked is None else max(0.0, (now - asked) / 1000)
        return ChannelState(
            conversations, deliveries + conversations - len(queues), ambiguous, (now - oldest) / 1000, unasked
        )


def _together(one: ChannelState, two: ChannelState) -> ChannelState:
    asked = [each.unasked for each in (one, two) if each.unasked is not None]
    return ChannelState(
        one.conversations + two.conversations,
        one.deliveries + two.deliveries,
        one.ambiguous + two.ambiguous,
        max(one.waits, two.waits),
        max(asked, default=None),
    )


def _histogram(found: Mapping[str, int]) -> Histogram:
    buckets = {None if bound == "inf" else int(bound) / 1000: count for bound, count in found.items() if bound != "sum"}
    return Histogram(buckets, found.get("sum", 0) / 1000)
