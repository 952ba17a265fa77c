"""How a team's tools are, as the whole fleet found them: which of them refuse now, and for how long yet.

A tool's cool-down stands in the shard of its name. Workers write it, from what calls came to; agents read it, before
they are told of another tool to try. It is advice: while Redis is away nothing is known, and nothing waits.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from tellback import clock
from tellback.errors import InvalidInput, Unavailable
from tellback.log import get_logger
from tellback.state.away import Away
from tellback.state.database import Database
from tellback.state.keys import Layout, Shard
from tellback.state.script import Script

BATCH: Final = 500  # sightings in one script: bounds what one call takes of the server
CACHED_SECONDS: Final = 1.0
CACHED_TOOLS: Final = 4_096

_note = Script("note_tools")
_log = get_logger("tellback.guidance")


class Sighting(NamedTuple):
    """What one call said of its tool; times in milliseconds, server time.

    `refused`: the tool was rate limited or unavailable, and `wait_ms` is for how long, where it said so. Otherwise it
    answered, whatever the answer was. With `doubted_by`, a session, this refusal may have been that call's own: it
    counts when another session met one like it, a short while before.
    """

    tool: str
    at: int
    began: int
    refused: bool
    wait_ms: int | None = None
    doubted_by: str = ""


class CoolDown(msgspec.Struct, frozen=True, kw_only=True):
    """A cool-down in force. `refusals` counts those in a row, a crowd that was refused at once as one."""

    tool: str
    seconds_left: float
    refusals: int


class _State(msgspec.Struct):
    """What the script keeps of a tool."""

    ends: float
    strikes: int = 0


_decode = msgspec.json.Decoder(_State, strict=False).decode


class ToolHealth:
    """The tools of one team."""

    def __init__(self, database: Database, layout: Layout) -> None:
        """Take the Redis and the team's shards."""
        self._db = database
        self._layout = layout

    def note(self, sightings: Sequence[Sighting], cooldown: float) -> None:
        """Merge what was seen, in order; what was noted before changes nothing.

        `cooldown`, in seconds, is for a refusal that names no time; it doubles with each further refusal.

        Raises:
            Unavailable: Redis does not answer; some may have been noted.
        """
        by_shard: dict[Shard, list[Sighting]] = {}
        for seen in sightings:
            by_shard.setdefault(self._layout.of(seen.tool), []).append(seen)
        calls = [
            _note.call([shard.key("health")], [round(cooldown * 1000), _packed(group[start : start + BATCH])])
            for shard, group in by_shard.items()
            for start in range(0, len(group), BATCH)
        ]
        self._db.run_all(calls)

    def cooling(self, tools: Iterable[str]) -> dict[str, float]:
        """Seconds left for those of these tools that are cooling down; one round trip.

        Raises:
            Unavailable: Redis does not answer.
        """
        by_shard = self._by_shard(tools)
        if not by_shard:
            return {}
        commands = [("HMGET", shard.key("health"), *names) for shard, names in by_shard.items()]
        (seconds, micros), *replies = self._db.pipeline([("TIME",), *commands])
        now = int(seconds) * 1000 + int(micros) // 1000
        pairs = (
            (name, _decode(raw))
            for names, raws in zip(by_shard.values(), replies, strict=True)
            for name, raw in zip(names, raws, strict=True)
            if raw is not None
        )
        return {name: (state.ends - now) / 1000 for name, state in pairs if state.ends > now}

    def in_force(self) -> list[CoolDown]:
        """Every cool-down of the team, the longest first; one round trip.

        Raises:
            Unavailable: Redis does not answer.
        """
        commands = [("HGETALL", shard.key("health")) for shard in self._layout.all]
        (seconds, micros), *replies = self._db.pipeline([("TIME",), *commands])
        now = int(seconds) * 1000 + int(micros) // 1000
        found = [
            CoolDown(tool=name.decode(), seconds_left=(state.ends - now) / 1000, refusals=state.strikes)
            for flat in replies
            for name, state in zip(flat[::2], map(_decode, flat[1::2]), strict=True)
            if state.ends > now
        ]
        return sorted(found, key=lambda each: (-each.seconds_left, each.tool))

    def _by_shard(self, tools: Iterable[str]) -> dict[Shard, list[str]]:
        groups: dict[Shard, list[str]] = {}
        for tool in dict.fromkeys(tools):
            try:
                groups.setdefault(self._layout.of(tool), []).append(tool)
            except InvalidInput:  # no tool call can name it, so nothing is known of it
                continue
        return groups


class Cooling:
    """What `ToolHealth.cooling` says, asked at most once a second for each tool. Safe across threads; never raises."""

    def __init__(self, health: ToolHealth, away: Away | None = None) -> None:
        """Take the tools; their Redis is one for callers that must not wait, and `away` is what they know of it."""
        self._health = health
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, float]] = {}  # when it was asked, when its cool-down ends: monotonic
        self._away = away or Away()
        self._refused = Away()  # what is wrong here alone, such as an access list

    def cooling(self, tools: Iterable[str]) -> dict[str, float]:
        """Seconds left for those of these tools that are cooling down, as of at most a second ago.

        While Redis is away it is what was known, as long as that lasts.
        """
        names = list(dict.fromkeys(tools))
        now = clock.monotonic()
        wanted = self._claim(names, now)
        if wanted and not (self._away.lasts or self._refused.lasts):
            self._ask(wanted)
            now = clock.monotonic()
        with self._lock:
            left = {name: self._known[name][1] - now for name in names if name in self._known}
        return {name: seconds for name, seconds in left.items() if seconds > 0}

    def _claim(self, names: Sequence[str], now: float) -> list[str]:
        """The names to ask for; another thread that wants them meanwhile makes do with what is known."""
        with self._lock:
            wanted = [name for name in names if name not in self._known or now - self._known[name][0] > CACHED_SECONDS]
            for name in wanted:
                if name in self._known:
                    self._known[name] = (now, self._known[name][1])
        return wanted

    def _ask(self, names: Sequence[str]) -> None:
        try:
            found = self._health.cooling(names)
        except Exception as error:  # noqa: BLE001 - no right to read, or not what we wrote: advice must not cost a call
            trouble = self._away if isinstance(error, Unavailable) else self._refused
            trouble.begin()  # an agent must not pay the patience for each call
            _log.warning("tool_health.unknown", reason=f"{type(error).__name__}: {error}"[:500])
            return
        now = clock.monotonic()
        with self._lock:
            if len(self._known) + len(names) > CACHED_TOOLS:
                self._known.clear()
            self._known.update({name: (now, now + found.get(name, 0.0)) for name in names})


def _packed(sightings: Sequence[Sighting]) -> bytes:
    return msgspec.json.encode(
        [
            (seen.tool, seen.at, seen.began, int(seen.refused), -1 if seen.wait_ms is None else seen.wait_ms, _by(seen))
            for seen in sightings
        ]
    )


def _by(seen: Sighting) -> str:
    """Whose doubtful refusal it is, in a few bytes; "" where nobody doubts it."""
    return hashlib.blake2b(seen.doubted_by.encode(), digest_size=8).hexdigest() if seen.doubted_by else ""
