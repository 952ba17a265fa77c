"""The health of a team's tools, as the whole fleet observed it: which tools refuse calls now, and for how long.

A tool's cool-down is stored in the shard of its name. Workers write it from the outcomes of calls; agents read it
before they suggest another tool. It is only advice: while Redis is away nothing is known, and no call waits for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from tellback import clock
from tellback.errors import InvalidInput, Unavailable
from tellback.forks import HasLock
from tellback.log import get_logger
from tellback.state.call_deadline import CircuitBreaker
from tellback.state.database import Database
from tellback.state.keys import Layout, Shard
from tellback.state.readable import readable
from tellback.state.script_calls import Command
from tellback.state.scripts import guidance as scripts
from tellback.state.steady import behind, clock_read

MAX_SIGHTINGS: Final = 500  # in one script call, to keep it short
CACHED_SECONDS: Final = 1.0
CACHED_TOOLS: Final = 4_096

_logger = get_logger("tellback.guidance")


class ToolSighting(NamedTuple):
    """One call's observation of its tool; times in milliseconds, server time.

    `refused`: the tool was rate limited or unavailable, for `wait_ms` if it named a time. Otherwise it answered,
    whatever the answer was. With `doubted_by`, a session, the refusal may concern that caller alone: it counts if
    another session met one shortly before.
    """

    tool: str
    at: int
    began: int
    refused: bool
    wait_ms: int | None = None
    doubted_by: str = ""


class CoolDown(msgspec.Struct, frozen=True, kw_only=True):
    """A cool-down in force. `refusals` counts those in a row; agents refused at the same time count as one."""

    tool: str
    seconds_left: float
    refusals: int


class _ToolState(msgspec.Struct):
    """The fields of a tool's stored state that are read here."""

    ends: float
    strikes: int = 0


_decode = msgspec.json.Decoder(_ToolState, strict=False).decode


class ToolHealth:
    """The tools of one team."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        self._layout = layout

    def note(self, sightings: Sequence[ToolSighting], cooldown: float) -> None:
        """Merge sightings, in order; one that was merged before changes nothing.

        `cooldown`, in seconds, is for a refusal that names no time; it doubles with each repeated refusal.

        Raises:
            Unavailable: Redis does not answer; some may have been noted.
        """
        by_shard: dict[Shard, list[ToolSighting]] = {}
        for seen in sightings:
            by_shard.setdefault(self._layout.of(seen.tool), []).append(seen)
        calls = [
            scripts.note_tools(
                shard=shard,
                cooldown_ms=round(cooldown * 1000),
                sightings=_pack(group[start : start + MAX_SIGHTINGS]),
            )
            for shard, group in by_shard.items()
            for start in range(0, len(group), MAX_SIGHTINGS)
        ]
        self._db.run_all(calls)

    def cooling(self, tools: Iterable[str]) -> dict[str, float]:
        """Return the seconds left for those of these tools that are cooling down; one round trip.

        Raises:
            Unavailable: Redis does not answer.
        """
        by_shard = self._by_shard(tools)
        if not by_shard:
            return {}
        nows, replies = self._read(
            [("HMGET", shard.key("health"), *names) for shard, names in by_shard.items()], by_shard
        )
        raws = (
            (name, raw, now)
            for names, raws, now in zip(by_shard.values(), replies, nows, strict=True)
            for name, raw in zip(names, raws, strict=True)
            if raw is not None
        )
        found = readable("tool", raws, lambda each: (each[0], _decode(each[1]).ends - each[2]))
        return {name: left / 1000 for name, left in found if left > 0}

    def in_force(self) -> list[CoolDown]:
        """Return every cool-down of the team, the longest first; one round trip.

        Raises:
            Unavailable: Redis does not answer.
        """
        shards = self._layout.all
        nows, replies = self._read([("HGETALL", shard.key("health")) for shard in shards], shards)
        found = [
            CoolDown(tool=name, seconds_left=(state.ends - now) / 1000, refusals=state.strikes)
            for flat, now in zip(replies, nows, strict=True)
            for name, state in readable(
                "tool", zip(flat[::2], flat[1::2], strict=True), lambda pair: (pair[0].decode(), _decode(pair[1]))
            )
            if state.ends > now
        ]
        return sorted(found, key=lambda each: (-each.seconds_left, each.tool))

    def _read(self, commands: Sequence[Command], shards: Collection[Shard]) -> tuple[list[int], list[Any]]:
        """Return each shard's time and the reply of its command, in one round trip.

        Calls have times that keep growing when the server's clock is set back, so cool-downs end by such a time, too.
        """
        clocks = [clock_read(shard) for shard in shards]
        (seconds, micros), *replies = self._db.pipeline([("TIME",), *clocks, *commands])
        now = int(seconds) * 1000 + int(micros) // 1000
        return [now + behind(reply) for reply in replies[: len(clocks)]], replies[len(clocks) :]

    def _by_shard(self, tools: Iterable[str]) -> dict[Shard, list[str]]:
        groups: dict[Shard, list[str]] = {}
        for tool in dict.fromkeys(tools):
            try:
                groups.setdefault(self._layout.of(tool), []).append(tool)
            except InvalidInput:  # no tool call can have this name, so nothing is known
                continue
        return groups


class FleetHealth(HasLock):
    """A cache of `ToolHealth.cooling`, read at most once a second for each tool. Safe across threads; never raises.

    `health` needs a client with a call deadline; `breaker` is the circuit breaker that this client's callers share.
    """

    def __init__(self, health: ToolHealth, breaker: CircuitBreaker | None = None) -> None:
        super().__init__()
        self._health = health
        self._known: dict[str, tuple[float, float]] = {}  # monotonic times: of the read, of the cool-down's end
        self._breaker = breaker or CircuitBreaker()
        self._refused = CircuitBreaker()  # for errors of this read alone, such as an access list's

    def cooling(self, tools: Iterable[str]) -> dict[str, float]:
        """Return the seconds left for those of these tools that are cooling down, at most a second old.

        While Redis is away, known cool-downs run out.
        """
        names = list(dict.fromkeys(tools))
        now = clock.monotonic()
        wanted = self._claim_names(names, now)
        if wanted and not (self._breaker.is_open or self._refused.is_open):
            self._read(wanted)
            now = clock.monotonic()
        with self._lock:
            left = {name: self._known[name][1] - now for name in names if name in self._known}
        return {name: seconds for name, seconds in left.items() if seconds > 0}

    def _claim_names(self, names: Sequence[str], now: float) -> list[str]:
        """Return the names to read, and mark them as read: meanwhile other threads use the cached values."""
        with self._lock:
            wanted = [name for name in names if name not in self._known or now - self._known[name][0] > CACHED_SECONDS]
            for name in wanted:
                if name in self._known:
                    self._known[name] = (now, self._known[name][1])
        return wanted

    def _read(self, names: Sequence[str]) -> None:
        try:
            found = self._health.cooling(names)
        except Exception as error:  # noqa: BLE001 - forbidden, or not our data: advice must not fail a call
            trouble = self._breaker if isinstance(error, Unavailable) else self._refused
            trouble.trip()  # an agent must not pay the deadline for each call
            _logger.warning("tool_health.unavailable", reason=f"{type(error).__name__}: {error}"[:500])
            return
        now = clock.monotonic()
        with self._lock:
            if len(self._known) + len(names) > CACHED_TOOLS:
                self._known.clear()
            self._known.update({name: (now, now + found.get(name, 0.0)) for name in names})


def _pack(sightings: Sequence[ToolSighting]) -> bytes:
    return msgspec.json.encode(
        [
            (
                seen.tool,
                seen.at,
                seen.began,
                int(seen.refused),
                -1 if seen.wait_ms is None else seen.wait_ms,
                _pack_doubt(seen),
            )
            for seen in sightings
        ]
    )


def _pack_doubt(seen: ToolSighting) -> str:
    """Hash the session of a doubtful refusal, to store it in a few bytes; "" if it is certain."""
    return hashlib.blake2b(seen.doubted_by.encode(), digest_size=8).hexdigest() if seen.doubted_by else ""
