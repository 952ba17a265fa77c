"""The steady clock of each shard: the server's wall clock, less the steps that observers saw it make.

Redis has only a wall clock. Each sweep therefore first compares it with this host's clock since boot, which never
steps, and the shard stores how far the server's clock has stepped. Leases and deadlines are times of the steady clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tellback import clock
from tellback.state.database import Database
from tellback.state.keys import UNOBSERVED_MS, Shard
from tellback.state.readable import UNREADABLE, read_each, reply_of
from tellback.state.script_calls import Command, ScriptCall
from tellback.state.scripts import common as scripts

STEP_MS: Final = 1_000  # a smaller difference is not a step: NTP slews less than 128 ms, and a round trip takes time
GAP_MS: Final = 6_000  # see gap_ms
FRESH_MS: Final = 500  # most time of a measurement, and from it to the script; at most half of a step
TRIES: Final = 3
HOSTS: Final = 64


class Observed(NamedTuple):
    """An observation, in milliseconds: the steady time, and how long there has been no gap and no step."""

    now: int
    watched: int


def gap_ms(beat_period: float) -> int:
    """Return how long without an observation counts as a gap, in which holders of leases may have had no Redis either.

    Beat's sweeps observe; while beat is silent, a worker does within 1.5 periods. A command's holder renews at 0.3 of
    its lease: with a lease of ten seconds, a gap of six still leaves it one renewal.
    """
    return max(GAP_MS, round(3_000 * beat_period))


def observe(
    database: Database, shards: Sequence[Shard], gap_ms: int = GAP_MS, *, stands_in: bool = False
) -> list[Observed]:
    """Measure the server's clock, count its steps, and return the steady time of each shard.

    A host that `stands_in` for silent workers and has not observed before cannot tell a step from their silence: for
    ten seconds it leaves the steady time as it is.

    Raises:
        Unavailable: Redis is away.
    """
    found: dict[Shard, Observed] = {}
    for left in reversed(range(TRIES)):
        missing = [shard for shard in shards if shard not in found]
        # The last try measures nothing: the way to Redis is too slow, so trust its clock.
        measured = _measure(database) if left else ("", 0, 0)
        if missing and measured is not None:
            replies = database.run_all(
                [_observe_call(shard, measured, gap_ms, stands_in=stands_in) for shard in missing]
            )
            seen = zip(missing, replies, strict=True)
            found.update((shard, Observed(int(reply[0]), int(reply[1]))) for shard, reply in seen if reply is not None)
        if len(found) == len(shards):
            break
    return [found[shard] for shard in shards]


def _observe_call(shard: Shard, measured: tuple[str, int, int], gap_ms: int, *, stands_in: bool) -> ScriptCall:
    host, boot_ms, server_ms = measured
    return scripts.observe_clock(
        shard=shard,
        host=host,
        boot_ms=boot_ms,
        server_ms=server_ms,
        fresh_ms=FRESH_MS,
        step_ms=STEP_MS,
        gap_ms=gap_ms,
        hosts=HOSTS,
        stands_in=stands_in,
    )


def _measure(database: Database) -> tuple[str, int, int] | None:
    """Return the field of this host's clock, its time, and the server's at that moment; None if it took too long."""
    before = _boot_ms()
    server = database.now_ms()
    after = _boot_ms()
    return (f"host:{clock.boot_id()}", (before + after) // 2, server) if after - before <= FRESH_MS else None


def steady_now(database: Database, shards: Sequence[Shard]) -> list[int]:
    """Return the steady time of each shard by the observations so far. For reports only: it may miss a step."""
    now = database.now_ms()
    return [now - skew for skew in skews(database, shards)]


def due_now(database: Database, shards: Sequence[Shard]) -> list[int]:
    """Return the steady time of each shard, at most ten seconds after its last observation, as in `lib/steady.lua`.

    A wait that ends by this time does not end early by a step that nobody has observed yet.
    """
    now = database.now_ms()
    known = database.pipeline([("HMGET", shard.key("clock"), "skew", "last") for shard in shards])
    return [_due(now - int(skew or 0), int(last or 0)) for skew, last in known]


def _due(steady: int, last: int) -> int:
    return max(last, min(steady, last + UNOBSERVED_MS)) if last else steady


def set_back(database: Database, shards: Sequence[Shard]) -> list[int]:
    """Return how far the server's clock is behind its own maximum; while it is, stream ids stand still."""
    return [behind(reply) for reply in read_each(database, [clock_read(shard) for shard in shards])]


def clock_read(shard: Shard) -> Command:
    """Return the command whose reply `behind` reads."""
    return ("HMGET", shard.key("clock"), "most", "skew")


def behind(reply: Any) -> int:
    """Return how far the server's clock is behind its own maximum, in milliseconds; 0 if that cannot be read."""
    try:
        most, skew = reply_of(reply)
        return int(most or 0) - int(skew or 0)
    except UNREADABLE:
        return 0


def onward_now(database: Database, shards: Sequence[Shard]) -> list[int]:
    """Return the server's time as if its clock had never been set back, as guidance counts it."""
    now = database.now_ms()
    return [now + late for late in set_back(database, shards)]


def skews(database: Database, shards: Sequence[Shard]) -> list[int]:
    """Return how far the server's clock is ahead of each shard's steady one; a report adds this to a steady time."""
    return [int(skew or 0) for skew in database.pipeline([("HGET", shard.key("clock"), "skew") for shard in shards])]


def _boot_ms() -> int:
    return round(clock.since_boot() * 1000)
