"""The teams as an operator sees them, and the acts on one: create, limit, suspend, remove; and a team's memory.

That is an estimate at a bounded cost, from the keys that indexes name. Redis counts no bytes for a prefix. Listing all
keys takes as long as there are keys, and a random sample misses the few large ones that matter. So the large ones
(streams, queues, banks) are measured, each by a sample of its items, and sessions by the newest, multiplied by the
number of all.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from tellback import clock
from tellback.errors import Unavailable
from tellback.names import Family, check_team
from tellback.state.audit import Author, log_act, log_removal
from tellback.state.database import Database
from tellback.state.fleet import TeamVisits, place_of
from tellback.state.intake import Notifications
from tellback.state.keys import Layout, Shard, pattern_of, stream_of
from tellback.state.limits import LimitStore, TeamLimits
from tellback.state.script_calls import Command
from tellback.state.team import existing_layouts, layouts_within_reach, no_team, open_layout, stored_layout

PAGE: Final = 200  # teams in one round trip

SCAN_COUNT: Final = 1_000

SETTLING: Final = 2.0
"""Seconds in which a removal lets the visits and tasks end that began before it: what they write would stay."""


class TeamRow(msgspec.Struct, frozen=True, kw_only=True):
    """One team: `waiting` entries in its streams, `noticed` is the server's time of its last notification (ms)."""

    team: str
    shards: int
    state: str
    """active, idle or suspended."""
    waiting: int
    open_turns: int
    unknown_shards: int = 0
    """Shards of a cluster whose node did not answer; their entries and turns are not counted."""
    noticed: int | None = None
    limits: TeamLimits = TeamLimits()


class StoredTeam(NamedTuple):
    """The state by which a team is told from a later one of its name: its first client gives it an id."""

    exists: bool
    id: bytes | None


class Teams:
    """The teams of one Redis."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._fleet = TeamVisits(database)
        self.away: dict[str, Unavailable] = {}  # the teams that `rows` left out: the node of the team's key is away

    def rows(self, names: Sequence[str] | None = None) -> Generator[TeamRow]:
        """Yield the teams that exist, by name; `names` are those that you want, by default all."""
        noticed, active = self._fleet.last_noticed(), self._fleet.active()
        wanted = iter(self.names() if names is None else names)
        while page := list(islice(wanted, PAGE)):
            layouts, away = layouts_within_reach(self._db, page)
            self.away |= away
            for layout in layouts:
                yield self._row(layout, noticed.get(layout.team), active=layout.team in active)

    def names(self) -> list[str]:
        """Return every team's name; one that has just come into being is not in the registry yet."""
        return sorted({*self._fleet.known(), *(each.team for each in Notifications(self._db).peek())})

    def create(self, team: str, shards: int, author: Author | None = None) -> Layout:
        """Create a team with a number of shards; one that exists keeps its own. The audit log names an author.

        Raises:
            InvalidInput: the team's name is not allowed.
        """
        if author is not None and stored_layout(self._db, check_team(team)) is None:
            log_act(self._db, Layout(team, shards), author, "create", team)
        layout = open_layout(self._db, check_team(team), shards)
        self._fleet.notice([team])
        return layout

    def layout(self, team: str) -> Layout:
        """Return the layout of a team that exists.

        Raises:
            NotFound: there is no such team.
            InvalidInput: the team's name is not allowed.
        """
        found = existing_layouts(self._db, [check_team(team)])
        if not found:
            raise no_team(team)
        return found[0]

    def limits(self, team: str) -> LimitStore:
        """Return the limits of a team that exists.

        Raises:
            NotFound: there is no such team.
        """
        return LimitStore(self._db, self.layout(team))

    def created_since(self, team: str, before: StoredTeam) -> bool:
        """Check whether a team is another one than it was; one whose first client gave it an id is the same."""
        now = self.stored(team)
        return now.exists and (not before.exists or before.id not in (None, now.id))

    def stored(self, team: str) -> StoredTeam:
        """Return what tells a team from a later one of its name."""
        shards, id_ = self._db.command("HMGET", Layout(team, 1).shard(0).key("team"), "shards", "id")
        return StoredTeam(shards is not None, id_)

    def has_keys(self, team: str) -> bool:
        """Check whether there is any key of a team, also of one without the key that makes it known."""
        return any(self._db.scan(pattern_of(team), SCAN_COUNT))

    def remove(self, team: str, author: Author | None = None) -> Iterator[int]:
        """Delete every key of a team; yield the number deleted so far, after each step. The fleet's log has the author.

        The team is suspended first, so that nothing new comes in meanwhile, and its key goes last: a removal that was
        interrupted can be repeated. A host that connects later makes a new team of the same name. One that stays
        connected stores it again within 20 s; a second removal deletes what is there also before.

        Raises:
            NotFound: there is no such team, and no key of it.
        """
        layouts = existing_layouts(self._db, [check_team(team)])
        if author is not None:
            log_removal(self._db, author, team)
        kept, places = set[str](), [team]
        for layout in layouts:
            LimitStore(self._db, layout).change(suspended=True)
            kept |= {layout.shard(0).key("team"), *(shard.key("limits") for shard in layout.all)}
            places += map(place_of, layout.all)
        deleted = 0
        for settling in (SETTLING, 0):
            for keys in self._db.scan(pattern_of(team), SCAN_COUNT):
                names = [key for key in keys if key.decode(errors="replace") not in kept]
                # race: the team is to have no keys; what is written meanwhile is removed too, or by a second removal
                deleted += sum(self._db.pipeline([("UNLINK", name) for name in names]))
                yield deleted
            if not layouts and not deleted:
                raise no_team(team)
            self._fleet.forget(places)
            clock.sleep(settling)
        # race: the team is to have no keys; as above
        deleted += sum(self._db.pipeline([("UNLINK", name) for name in sorted(kept)]))
        yield deleted

    def _row(self, layout: Layout, noticed: int | None, *, active: bool) -> TeamRow:
        lengths = [("XLEN", stream_of(shard, family)) for shard in layout.all for family in Family]
        turns = [("ZCARD", shard.key("due")) for shard in layout.all]
        replies = self._db.run_each([], [*lengths, *turns])
        waiting = sum(reply for reply in replies[: len(lengths)] if isinstance(reply, int))
        open_turns = sum(reply for reply in replies[len(lengths) :] if isinstance(reply, int))
        limits = LimitStore(self._db, layout).read()
        is_active = active or noticed or waiting or open_turns  # the latter where no worker runs
        return TeamRow(
            team=layout.team,
            shards=layout.shards,
            state="suspended" if limits.suspended else "active" if is_active else "idle",
            waiting=waiting,
            open_turns=open_turns,
            unknown_shards=sum(isinstance(reply, Unavailable) for reply in replies[len(lengths) :]),
            noticed=noticed,
            limits=limits,
        )


BANKS: Final = 50  # of a shard, those signalled last
POOLS: Final = 50  # of a shard, those used last
SESSIONS: Final = 50  # of a shard, those active last

_SINGLE: Final = ("dead", "audit", "timers", "due", "turns", "running", "banks", "factbanks", "sessions")
_OF_A_BANK: Final = (
    *("factscore", "factrecent", "factabove", "factbelow", "clustervec", "clustertext", "clusterver", "clusterrecent"),
    "clusterstamps",
    *("siglog", "sigseen", "sigseen-old", "vec", "vec-old", "facttext", "factver", "factstamps", "factset", "factvec"),
)
_OF_A_SESSION: Final = ("hist", "records", "activity")


def team_memory(database: Database, layout: Layout) -> int:
    """Return an estimate of the bytes that a team's keys take in Redis.

    Raises:
        Unavailable: Redis is away.
        NotPermitted: this user may not measure keys.
    """
    return sum(_shard_bytes(database, shard) for shard in layout.all)


def _shard_bytes(database: Database, shard: Shard) -> int:
    banks, stored, pools, sessions, known = database.pipeline(
        [
            ("ZRANGE", shard.key("banks"), -BANKS, -1),
            ("ZRANGE", shard.key("factbanks"), -BANKS, -1),
            ("ZRANGE", shard.key("pools"), -POOLS, -1),
            ("ZRANGE", shard.key("sessions"), -SESSIONS, -1),
            ("ZCARD", shard.key("sessions")),
        ]
    )
    single = [stream_of(shard, family) for family in Family] + [shard.key(name) for name in _SINGLE]
    single += _keys_of(shard, ["jobs"], pools)
    single += _keys_of(shard, _OF_A_BANK, {*banks, *stored})
    of_sessions = _measure(database, _keys_of(shard, _OF_A_SESSION, sessions))
    return _measure(database, single) + of_sessions * int(known) // max(1, len(sessions))


def _keys_of(shard: Shard, families: Iterable[str], names: Iterable[bytes]) -> list[str]:
    return [shard.key(family, name.decode(errors="replace")) for family in families for name in names]


def _measure(database: Database, keys: Iterable[str]) -> int:
    wanted: list[Command] = [("MEMORY", "USAGE", key) for key in keys]
    return sum(size or 0 for size in database.pipeline(wanted))
