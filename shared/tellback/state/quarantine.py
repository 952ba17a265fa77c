"""Keys that hold another type than Tellback gives them: workers quarantine some, and listings read any as absent.

Listings do the same with the keys of a node of a cluster that is away.

Somebody wrote such a key by hand, and what it held before is gone. Every script that touches it would fail: for a key
that a whole shard shares, such as the open turns by deadline, that is every sweep of the shard. It is therefore
renamed, and kept for a person to look at; `tellback doctor` names it.

The hash `team` stays: hosts and workers would fix another number of shards without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tellback import clock
from tellback.errors import Unavailable
from tellback.log import get_logger
from tellback.names import Family
from tellback.state.cluster import SILENT_SECONDS
from tellback.state.database import Database, WrongType
from tellback.state.keys import FAMILIES, FLEET, Layout, Shard, key_suffix, split_key
from tellback.state.readable import read_each
from tellback.state.script_calls import Command
from tellback.state.scripts import fleet as scripts
from tellback.state.slots import keys_of_command
from tellback.state.unavailable import as_raised

QUARANTINE: Final = "quarantine"

_OF_A_STREAM: Final = ("in", "lease", "fence", "wakeup")
_OF_A_CHANNEL: Final = ("out", "ambiguous", "posted")
_OF_A_POOL: Final = ("jobs", "joborder", "jobwakeup", "jobabsent")
OF_A_SHARD: Final[Sequence[tuple[str, ...]]] = [
    *((name,) for name in ("limits", "bucket", "clock", "dead", "audit", "sessions", "health", "timers")),
    *((name,) for name in ("pools", "running", "cmdstats", "due", "turns", "turnstats", "polled", "channels")),
    *((name,) for name in ("banks", "factbanks", "sigstats", "decay", "encoder")),
    *((name, family) for name in _OF_A_STREAM for family in Family),
    ("wakeup", "timers"),
]
"""The keys that a whole shard shares, each as its parts."""
_OF_THE_FLEET: Final = [("teams",), ("active",), ("noticed",), ("notifications",), ("workers",), ("beat",), ("audit",)]


class _SharedKey(NamedTuple):
    """A key of many shards: what follows their prefix in its name, here and in quarantine, and its proper type."""

    suffix: str
    quarantined: str
    type: str


def _shared_key(parts: tuple[str, ...]) -> _SharedKey:
    return _SharedKey(key_suffix(*parts), key_suffix(QUARANTINE, *parts), FAMILIES[parts[0]].type)


# Formatted once: workers check these keys of thousands of idle teams.
_SHARED: Final = [_shared_key(parts) for parts in OF_A_SHARD]

_logger = get_logger("tellback.state")


def quarantine_keys(database: Database, layouts: Sequence[Layout]) -> list[str]:
    """Rename the teams' keys of another type among those that a shard, a channel or a pool shares; return them.

    Raises:
        Unavailable: Redis is away.
    """
    shards = [shard for layout in layouts for shard in layout.all]
    named = _names(database, shards, ("channels", "polled", "pools"))
    keys: list[list[_SharedKey]] = []
    for shard in shards:
        channels = named["channels", shard.team] | named["polled", shard.team]
        of_channels = [(name, channel) for channel in sorted(channels) for name in _OF_A_CHANNEL]
        of_pools = [(name, pool) for pool in sorted(named["pools", shard.team]) for name in _OF_A_POOL]
        keys.append([*_SHARED, *map(_shared_key, of_channels), *map(_shared_key, of_pools)])
    return _rename(database, shards, keys)


def quarantine_fleet_keys(database: Database) -> list[str]:
    """Rename the keys of another type among those that all teams share; return them.

    Raises:
        Unavailable: Redis is away.
    """
    return _rename(database, [FLEET], [[_shared_key(parts) for parts in _OF_THE_FLEET]])


def quarantined_keys(database: Database, layout: Layout) -> list[str]:
    """Return the names that quarantined keys had, of those that a whole shard shares."""
    wanted = [(shard, parts) for shard in layout.all for parts in OF_A_SHARD]
    there = database.pipeline([("EXISTS", shard.key(QUARANTINE, *parts)) for shard, parts in wanted])
    return [shard.key(*parts) for (shard, parts), is_there in zip(wanted, there, strict=True) if is_there]


def _rename(database: Database, shards: Sequence[Shard], keys: Sequence[Sequence[_SharedKey]]) -> list[str]:
    calls = [
        scripts.quarantine(
            wanted=[shard.prefix + key.suffix for key in some],
            quarantined=[shard.prefix + key.quarantined for key in some],
            types=[key.type for key in some],
        )
        for shard, some in zip(shards, keys, strict=True)
    ]
    renamed: list[str] = []
    for shard, some, reply in zip(shards, keys, database.run_all(calls), strict=True):
        found: list[tuple[int, bytes]] = list(zip(reply[::2], reply[1::2], strict=True))
        for place, kind in found:
            key = some[place - 1]
            renamed.append(shard.prefix + key.suffix)
            _logger.error("key.quarantined", key=renamed[-1], type=kind.decode(), name=shard.prefix + key.quarantined)
    return renamed


def _names(database: Database, shards: Sequence[Shard], indexes: Sequence[str]) -> dict[tuple[str, str], set[str]]:
    """Return what indexes of the shards name, by index and team; none of an index that is of another type itself."""
    wanted = [(name, shard) for shard in shards for name in indexes]
    found = {(name, shard.team): set[str]() for name, shard in wanted}
    replies = read_each(database, [("ZRANGE", shard.key(name), 0, -1) for name, shard in wanted])
    for (name, shard), reply in zip(wanted, replies, strict=True):
        if not isinstance(reply, Exception):
            found[name, shard.team].update(raw.decode(errors="replace") for raw in reply)
    return found


_LISTS: Final = frozenset({"HGETALL", "HVALS", "LRANGE", "SMEMBERS", "XRANGE", "XREVRANGE", "ZRANGE"})
_NUMBERS: Final = frozenset({"EXISTS", "HLEN", "LLEN", "SISMEMBER", "XLEN", "ZCARD", "ZCOUNT"})
_OF_EACH: Final = {"HMGET": None, "SMISMEMBER": 0, "ZMSCORE": None}
READS: Final = _LISTS | _NUMBERS | _OF_EACH.keys() | {"GET", "HGET", "LINDEX", "MEMORY", "TYPE", "ZSCORE"}
"""Commands that change nothing and name one key, their first argument (of MEMORY USAGE, the second)."""


def _absent_reply(command: Command) -> Any:
    """Return what Redis replies to a command of `READS` about a key that does not exist."""
    name = str(command[0])
    if name in _OF_EACH:
        return [_OF_EACH[name]] * (len(command) - 2)
    return [] if name in _LISTS else 0 if name in _NUMBERS else b"none" if name == "TYPE" else None


def _shard_of(command: Command) -> str:
    return split_key(str(keys_of_command(command)[0]))[0]


def _is_of_team(command: Command) -> bool:
    return command[0] == "HGET" and split_key(str(keys_of_command(command)[0]))[1] == "team"


def advice_of(keys: Sequence[str]) -> str:
    """Return what is wrong with the keys of a command that met another type, and what to do."""
    named = " or ".join(f"{key} (a {kind_of(key)})" if kind_of(key) else key for key in keys)
    holds = f"{named} holds another type than Tellback stores" if len(keys) == 1 else f"another type is in {named}"
    return f"{holds}: look at it with redis-cli and remove it by DEL, or by RENAME to keep what it holds"


def kind_of(key: str) -> str:
    """Return the type that Tellback gives a key, "" if it is none of its keys."""
    family = FAMILIES.get(split_key(key)[1])
    return family.type if family else ""


class ReadingDatabase(Database):
    """A client that reads some keys as if they did not exist, for listings: one must not hide what all others hold.

    They are keys of another type, noted in `wrong`, and those of a node of a cluster that is away while others answer,
    noted in `away` by shard, with the error. The hash `team` is not one: a team without it would seem not to exist.
    """

    def __init__(self, url: str, **options: Any) -> None:
        """Prepare a client; the options are those of `Database`."""
        super().__init__(url, **options)
        self.wrong: dict[str, None] = {}
        self.away: dict[str, Unavailable] = {}
        self._skipped: dict[str, float] = {}  # until when: each call to a node that is away would take its time

    def command(self, *parts: Any) -> Any:
        """Run one command and return its reply."""
        if self._is_skipped(parts):
            return _absent_reply(parts)
        try:
            return super().command(*parts)
        except (WrongType, Unavailable) as error:
            if not self._passes_over(parts, error):
                raise
            return _absent_reply(parts)

    def pipeline(self, commands: Sequence[Command], *, raise_on_error: bool = True, repeat: bool = True) -> list[Any]:
        """Run several commands in one round trip and return their replies in order."""
        skipped = set(filter(lambda at: self._is_skipped(commands[at]), range(len(commands))))
        sent = [command for at, command in enumerate(commands) if at not in skipped]
        came = iter(super().pipeline(sent, raise_on_error=False, repeat=repeat))
        replies = [_absent_reply(command) if at in skipped else next(came) for at, command in enumerate(commands)]
        for at, reply in enumerate(replies):
            if isinstance(reply, Exception):
                raised = as_raised(reply, self.url)
                if self._passes_over(commands[at], raised):
                    replies[at] = _absent_reply(commands[at])
                elif raise_on_error:
                    raise raised
        return replies

    def _is_skipped(self, command: Command) -> bool:
        if not self._skipped or command[0] not in READS or _is_of_team(command):
            return False
        return self._skipped.get(_shard_of(command), 0.0) > clock.monotonic()

    def _passes_over(self, command: Command, error: Exception) -> bool:
        """Return True if a key is to be read as absent, and note it."""
        if command[0] not in READS:
            return False
        if isinstance(error, WrongType):
            self.wrong[str(keys_of_command(command)[0])] = None
            return True
        if type(error) is not Unavailable or self.cluster is None or self.cluster.all_silent():
            return False
        self.away.setdefault(_shard_of(command), error)
        self._skipped[_shard_of(command)] = clock.monotonic() + SILENT_SECONDS
        return not _is_of_team(command)

    def losses(self) -> list[str]:
        """Return what was left out, a line for each key of another type and for each node that is away."""
        return [*(advice_of([key]) for key in self.wrong), *self.unread_shards()]

    def unread_shards(self) -> list[str]:
        """Return a line for each node that is away, with the shards that could not be read."""
        return losses_by_node("shard", self.away)


def losses_by_node(what: str, away: Mapping[str, Unavailable]) -> list[str]:
    """Return a line for each node that is away, with the names of what could not be read: shards, or teams."""
    names: dict[str, list[str]] = {}
    for name, error in away.items():
        names.setdefault(str(error), []).append(name)
    return [f"{what}{'s' if some[1:] else ''} {', '.join(some)}: {error}" for error, some in names.items()]
