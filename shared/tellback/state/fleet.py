"""The teams of a Redis, and when the scheduler visits each: all in one slot, that of no team.

A team with something new, or in which something waits, is active: it is visited once in a period. All others are
visited now and then, which finds what no notification named. So an idle team costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tellback.log import get_logger
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.keys import FLEET, NOTIFICATIONS, Layout, Shard, stream_of
from tellback.state.script_calls import ScriptCall
from tellback.state.scripts import fleet as scripts

IDLE_SECONDS: Final = 300.0
"""Seconds between two visits of a team that is not active."""

QUIET_SECONDS: Final = 60.0
"""Seconds without a notification after which a team in which nothing waits is no longer active."""

OBSERVED_MS: Final = 1_000
"""Milliseconds since an observation of a shard's clock after which a visit observes it again."""

NOTICES: Final = 1_000
"""Notifications that one claim notes, in a few milliseconds."""

_FAMILIES: Final = tuple(Family)

_log = get_logger("tellback.scheduler")


class Visits(NamedTuple):
    """The teams whose visit is due: the active ones, and the others."""

    active: list[str]
    idle: list[str]
    more: bool
    """True if more notifications wait than one call notes."""


class TeamWork(NamedTuple):
    """Work that waits in a team: `duties` for which there may be some now, and streams that need a wake-up."""

    duties: frozenset[str]
    streams: list[tuple[Shard, Family]]

    @property
    def is_active(self) -> bool:
        """True if something has to be done soon, so that the team is to be visited in each period."""
        return bool(self.duties - {"banks", "clock", "outbox"} or self.streams)


class TeamVisits:
    """The teams, by when something happened in them, and when they were visited."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._teams, self._active, self._noticed = map(FLEET.key, ("teams", "active", "noticed"))

    def notice(self, teams: Collection[str]) -> None:
        """Note that something is new in these teams; unknown ones become known."""
        if teams:
            self._db.run(
                scripts.notice_teams(teams=self._teams, active=self._active, noticed=self._noticed, names=list(teams))
            )

    def claim_visits(self, active_seconds: float, most: int, only: Sequence[str] = ()) -> Visits:
        """Note what notifications name, then claim the visits that are due, at most `most` of each kind.

        `only` are the teams to consider; none: all.
        """
        call = scripts.claim_visits(
            teams=self._teams,
            active=self._active,
            active_ms=round(active_seconds * 1000),
            idle_ms=round(IDLE_SECONDS * 1000),
            most=most,
            only=only,
            noticed=self._noticed,
            notifications=NOTIFICATIONS,
            notices=NOTICES,
        )
        active, idle, more = self._db.run(call)
        return Visits([name.decode() for name in active], [name.decode() for name in idle], bool(more))

    def visit_soon(self, teams: Collection[str]) -> None:
        """Have active teams visited next: the time of the last visit was not enough."""
        # unconditional: a visit too many finds nothing; XX leaves a team out that rests since
        self._db.pipeline([("ZADD", self._active, "XX", 0, team) for team in teams])

    def rest(self, teams: Iterable[str]) -> None:
        """End the frequent visits of teams, except those in which something was new in the last minute."""
        quiet_ms = round(QUIET_SECONDS * 1000)
        self._db.run_all(
            [
                scripts.rest_team(active=self._active, noticed=self._noticed, team=team, quiet_ms=quiet_ms)
                for team in teams
            ]
        )

    def known(self) -> list[str]:
        """Return the names of all teams, in order."""
        return sorted(name.decode() for name in self._db.command("ZRANGE", self._teams, 0, -1))

    def unknown(self, teams: Collection[str]) -> set[str]:
        """Return those of the teams that are in no list."""
        wanted = list(teams)
        scores: list[bytes | None] = self._db.command("ZMSCORE", self._teams, *wanted) if wanted else []
        return {team for team, score in zip(wanted, scores, strict=True) if score is None}

    def last_noticed(self) -> Mapping[str, int]:
        """Return the active teams, with the server's time of the last notification, in milliseconds."""
        flat = self._db.command("ZRANGE", self._noticed, 0, -1, "WITHSCORES")
        return {name.decode(): int(at) for name, at in zip(flat[::2], flat[1::2], strict=True)}

    def forget(self, team: str) -> None:
        """Remove a team from the lists; a notification makes it known again."""
        # unconditional: whatever is new in the team later adds it again
        self._db.pipeline([("ZREM", key, team) for key in (self._teams, self._active, self._noticed)])

    def work(self, layouts: Sequence[Layout], longest_lease: float) -> dict[str, TeamWork]:
        """Return what waits in each team, in one round trip. No lease of a consumer is longer than `longest_lease`."""
        shards = [shard for layout in layouts for shard in layout.all]
        replies = self._db.run_all([_work_call(shard, longest_lease) for shard in shards])
        found: dict[str, TeamWork] = {layout.team: TeamWork(frozenset(), []) for layout in layouts}
        for shard, reply in zip(shards, replies, strict=True):
            before = found[shard.team]
            names = {item.decode() for item in reply if isinstance(item, bytes)}
            if "wrong" in names:
                _log.error("intake.no_stream", team=shard.team, shard=shard.index)
            idle = [(shard, _FAMILIES[item]) for item in reply if isinstance(item, int)]
            found[shard.team] = TeamWork(before.duties | (names - {"wrong"}), before.streams + idle)
        return found


def _work_call(shard: Shard, longest_lease: float) -> ScriptCall:
    return scripts.shard_work(
        timers=shard.key("timers"),
        due=shard.key("due"),
        turns=shard.key("turns"),
        running=shard.key("running"),
        pools=shard.key("pools"),
        banks=shard.key("banks"),
        streams=[stream_of(shard, family) for family in _FAMILIES],
        leases=[shard.key("lease", family) for family in _FAMILIES],
        wakeups=[shard.key("wakeup", family) for family in _FAMILIES],
        longest_lease=round(longest_lease * 1000),
        observed_ms=OBSERVED_MS,
    )
