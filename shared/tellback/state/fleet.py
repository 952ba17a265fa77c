"""The teams of a Redis, and when the scheduler visits each: all in one slot, that of no team.

A place with something new, or in which something waits, is active: it is visited once in a period. A place is a shard,
or a whole team if its shard is not known: `TEAM.SHARD` or `TEAM`. All teams are visited as a whole now and then, which
finds what no notification named. So an idle team costs next to nothing, and so do the idle shards of an active one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tellback.log import get_logger
from tellback.names import TEAM_PATTERN, Family
from tellback.state.answering import among_answering
from tellback.state.database import Database
from tellback.state.keys import FLEET, Layout, Shard, key_suffix
from tellback.state.readable import names_of, remove_strays, scored_names, without_errors
from tellback.state.script_calls import ScriptCall
from tellback.state.scripts import fleet as scripts

IDLE_SECONDS: Final = 300.0
"""Seconds between two visits of a team that is not active."""

QUIET_SECONDS: Final = 60.0
"""Seconds without a notification after which a team in which nothing waits is no longer visited in each period."""

WHOLE_SECONDS: Final = 15.0
"""Seconds until all shards of a team are visited in which a notification named one."""

OBSERVED_MS: Final = 1_000
"""Milliseconds since an observation of a shard's clock after which a visit observes it again."""

PAGE: Final = 1_000  # teams in one command

NOTICES: Final = 1_000
"""Notifications that one claim notes, in a few milliseconds."""

_FAMILIES: Final = tuple(Family)
# Of the keys that a visit reads, formatted once: a burst of thousands of teams has as many visits in seconds.
_STREAMS, _LEASES, _WAKEUPS = ([key_suffix(name, family) for family in Family] for name in ("in", "lease", "wakeup"))
_PLACE: Final = re.compile(rf"{TEAM_PATTERN.pattern}(\.\d{{1,4}})?", re.ASCII)

_logger = get_logger("tellback.scheduler")


class Visits(NamedTuple):
    """The visits that are due: of active places, and of other teams."""

    active: list[str]
    idle: list[str]
    more: bool
    """True if more notifications wait than one call notes."""


class ShardWork(NamedTuple):
    """Work that waits in a shard: `duties` for which there may be some now, and streams that need a wake-up."""

    duties: frozenset[str]
    streams: list[tuple[Shard, Family]]

    @property
    def is_active(self) -> bool:
        """True if something has to be done soon, so that the shard is to be visited in each period."""
        return bool(self.duties - {"banks", "clock", "outbox", "keys"} or self.streams)


def team_of(place: str) -> str:
    """Return the team of a place."""
    return place.partition(".")[0]


def place_of(shard: Shard) -> str:
    """Return the place of a shard."""
    return f"{shard.team}.{shard.index}"


def shards_at(place: str, layout: Layout) -> list[Shard]:
    """Return the shards of a place; none for a shard that the team does not have, which a notification may name."""
    _, _, index = place.partition(".")
    return [shard for shard in layout.all if not index or shard.index == int(index)]


class TeamVisits:
    """The teams, by when something happened in them, and when they were visited."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._teams, self._active, self._noticed = map(FLEET.key, ("teams", "active", "noticed"))

    def notice(self, places: Collection[str]) -> None:
        """Note that something is new at these places; unknown teams become known."""
        if places:
            self._db.run(scripts.notice_places(shard=FLEET, places=list(places)))

    def claim_visits(self, active_seconds: float, most: int, only: Sequence[str] = ()) -> Visits:
        """Note what notifications name, then claim the visits that are due, at most `most` of each kind.

        `only` are the teams to consider; none: all.
        """
        call = scripts.claim_visits(
            shard=FLEET,
            active_ms=round(active_seconds * 1000),
            idle_ms=round(IDLE_SECONDS * 1000),
            whole_ms=round(WHOLE_SECONDS * 1000),
            quiet_ms=round(QUIET_SECONDS * 1000),
            most=most,
            only=only,
            notices=NOTICES,
        )
        active, idle, more = self._db.run(call)
        return Visits(self._places(self._active, active), self._places(self._teams, idle), bool(more))

    def _places(self, index: str, members: Sequence[bytes]) -> list[str]:
        """Return the places among the members of an index, and remove the others: one stopped the visits of all."""
        found = {member: _PLACE.fullmatch(member.decode(errors="replace")) for member in members}
        remove_strays(self._db, index, [member for member, place in found.items() if place is None])
        return [place[0] for place in found.values() if place is not None]

    def visit_soon(self, places: Collection[str]) -> None:
        """Have active places visited next: the time of the last visit was not enough."""
        # unconditional: a visit too many finds nothing; XX leaves a place out that rests since
        self._db.pipeline([("ZADD", self._active, "XX", 0, place) for place in places])

    def visit_all_soon(self, only: Collection[str] = ()) -> None:
        """Have every team, or each of `only`, visited as a whole next, after nobody could notify for a while."""
        teams = [team for team in self.known() if not only or team in only]
        for at in range(0, len(teams), PAGE):
            scores = [part for team in teams[at : at + PAGE] for part in ("0", team)]
            # race: a visit too many finds nothing; XX leaves a team out that is removed since
            self._db.command("ZADD", self._teams, "XX", *scores)

    def rest(self, places: Collection[str]) -> None:
        """End the frequent visits of places in which nothing waits; whole teams only a minute after they were named."""
        if places:
            quiet_ms = round(QUIET_SECONDS * 1000)
            self._db.run(scripts.rest_places(shard=FLEET, quiet_ms=quiet_ms, places=list(places)))

    def active(self) -> set[str]:
        """Return the teams of the active places."""
        return {team_of(place) for place in self._places(self._active, self._db.command("ZRANGE", self._active, 0, -1))}

    def known(self) -> list[str]:
        """Return the names of all teams, in order."""
        return sorted(names_of("team", self._db.command("ZRANGE", self._teams, 0, -1)))

    def unknown(self, teams: Collection[str]) -> set[str]:
        """Return those of the teams that are in no list."""
        wanted = list(teams)
        scores: list[bytes | None] = self._db.command("ZMSCORE", self._teams, *wanted) if wanted else []
        return {team for team, score in zip(wanted, scores, strict=True) if score is None}

    def last_noticed(self) -> Mapping[str, int]:
        """Return the teams that were named in the last minute, with the server's time of that, in milliseconds."""
        flat = self._db.command("ZRANGE", self._noticed, 0, -1, "WITHSCORES")
        return {name: int(at) for name, at in scored_names("team", flat)}

    def forget(self, places: Iterable[str]) -> None:
        """Remove places and their teams from the lists; a notification makes a team known again."""
        # unconditional: whatever is new in the team later adds it again
        self._db.pipeline(
            [
                ("ZREM", key, member)
                for place in places
                for key, member in (
                    (self._active, place),
                    (self._teams, team_of(place)),
                    (self._noticed, team_of(place)),
                )
            ]
        )

    def work(self, shards: Sequence[Shard], longest_lease: float) -> dict[Shard, ShardWork]:
        """Return what waits in each shard, in one round trip. No lease of a consumer is longer than `longest_lease`.

        Of a shard where that cannot be told, only that its keys must be checked; those whose node does not answer are
        left out.
        """

        def ask(some: Sequence[Shard]) -> dict[Shard, ShardWork]:
            replies = without_errors(self._db.run_each([_work_call(shard, longest_lease) for shard in some]))
            return {shard: _shard_work(shard, reply) for shard, reply in zip(some, replies, strict=True)}

        return among_answering(self._db, shards, ask)


def _shard_work(shard: Shard, reply: Sequence[bytes | int] | None) -> ShardWork:
    if reply is None:
        return ShardWork(frozenset({"keys"}), [])
    names = {item.decode() for item in reply if isinstance(item, bytes)}
    return ShardWork(frozenset(names), [(shard, _FAMILIES[item]) for item in reply if isinstance(item, int)])


def _work_call(shard: Shard, longest_lease: float) -> ScriptCall:
    prefix = shard.prefix
    return scripts.shard_work(
        shard=shard,
        streams=[prefix + suffix for suffix in _STREAMS],
        leases=[prefix + suffix for suffix in _LEASES],
        wakeups=[prefix + suffix for suffix in _WAKEUPS],
        longest_lease=round(longest_lease * 1000),
        observed_ms=OBSERVED_MS,
    )
