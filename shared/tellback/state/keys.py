"""Every key that Tellback writes, each with its owner, lifetime and cap.

A key is `tb:{team.shard}:NAME[:PART...]`. The braces make the team and shard the hash slot: a script stays in one slot,
and the ACL pattern `~tb:{acme.*` covers exactly one team. Parts that users choose are percent-encoded, and no part can
imitate another.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any, Final

from tellback import clock
from tellback.errors import InvalidInput
from tellback.light_struct import LightStruct
from tellback.names import Family, check_team, shard_of, turn_routing

MINUTE: Final = 60
HOUR: Final = 3_600
DAY: Final = 86_400
DAY_MS: Final = DAY * 1_000
UNOBSERVED_MS: Final = 10_000  # longer than workers leave between two observations of the clock: sweeps make them


class KeyFamily(LightStruct):
    """One kind of key. `lifetime` is its longest time to live in seconds, or None if it stays; `bound` says why."""

    name: str
    owner: str
    type: str
    lifetime: int | None
    cap: int | None
    bound: str


FAMILIES: Final = {
    family.name: family
    for family in (
        KeyFamily("team", "connect", "hash", None, 8, "a few fields for each team"),
        KeyFamily("limits", "limits", "hash", None, 10, "what an operator allows the team, the same in each shard"),
        KeyFamily("bucket", "limits", "hash", HOUR, 2, "the token bucket of events of a limited team's shard"),
        KeyFamily("notifications", "fleet", "stream", None, 100_100, "what is new, until a visit: 100,000"),
        KeyFamily("teams", "fleet", "zset", None, None, "one member for each team: the scheduler's last visit"),
        KeyFamily("active", "fleet", "zset", None, None, "teams and shards visited in each period, by the last visit"),
        KeyFamily("noticed", "fleet", "zset", None, None, "teams named in the last minute, by the last notification"),
        KeyFamily("clock", "steady clock", "hash", None, 69, "steps of the server's clock; the newest 64 who saw it"),
        KeyFamily("worker", "presence", "string", 15, None, "one worker's last heartbeat"),
        KeyFamily("workers", "presence", "zset", 3_600, None, "the workers of the last hour"),
        KeyFamily("beat", "presence", "string", 3_600, None, "when a worker last did what beat had sent"),
        KeyFamily("in", "intake", "stream", None, None, "above intake_max or intake_max_bytes hosts spool to disk"),
        KeyFamily("writer", "intake", "string", 7 * DAY, None, "one process in one stream: 150 bytes"),
        KeyFamily("wakeup", "intake", "string", 10, None, "pending marker: a wake-up is on its way"),
        KeyFamily("lease", "intake", "string", 5 * MINUTE, None, "one consumer"),
        KeyFamily("fence", "intake", "string", None, None, "one counter for each stream"),
        KeyFamily(
            "dead",
            "dead letters",
            "stream",
            30 * DAY,
            10_100,
            "10,000 entries (trimmed to a whole node), 64 MiB or 30 days",
        ),
        KeyFamily(
            "quarantine", "quarantine", "any", 30 * DAY, None, "a key that had another type than Tellback gives it"
        ),
        KeyFamily("audit", "audit", "list", 90 * DAY, 10_000, "manual actions on one shard: the newest 10,000"),
        KeyFamily("alerts", "alerts", "hash", 30 * DAY, 100, "alerts that a receiver was notified of, since when"),
        KeyFamily("alerting", "alerts", "string", HOUR, None, "the process that notifies a receiver"),
        KeyFamily("op", "decisions", "string", 10 * MINUTE, None, "one reply for each operation id"),
        KeyFamily("hist", "history", "list", 7 * DAY, 1_000, "the newest 1,000 entries of a session"),
        KeyFamily("sessions", "sessions", "zset", 7 * DAY, 10_000, "sessions by last activity; the longest idle goes"),
        KeyFamily("activity", "sessions", "hash", 7 * DAY, 8, "one session: host, newest call, counts"),
        KeyFamily("eval", "guidance", "hash", 7 * DAY, 40, "one evaluation's state, its newest 32 calls beside it"),
        KeyFamily("seen", "guidance", "set", 7 * DAY, 50_500, "event ids, two generations of 50,000"),
        KeyFamily("seen-old", "guidance", "set", 7 * DAY, 50_500, "the generation before"),
        KeyFamily("mailbox", "guidance", "list", 7 * DAY, 100, "feedback not yet delivered"),
        KeyFamily("guidestats", "guidance", "hash", 35 * DAY, 5_300, "one day's counters; surplus names count as one"),
        KeyFamily(
            "health", "guidance", "hash", 2 * HOUR, 1_000, "tools that refused lately; the first to return is evicted"
        ),
        KeyFamily("timers", "guidance", "zset", 7 * DAY, None, "evaluations by the time of their next timer"),
        KeyFamily("changes", "guidance", "list", 7 * DAY, 100, "the newest changes shared with a whole session"),
        KeyFamily(
            "provider-call", "guidance", "string", 10 * MINUTE, None, "the custom provider that a process is calling"
        ),
        KeyFamily("job", "commands", "hash", 7 * DAY, 32, "one command's state"),
        KeyFamily(
            "jobs",
            "commands",
            "zset",
            7 * DAY,
            None,
            "queued commands of a pool, by priority and turn; command_queue_max, and lost ones that run again",
        ),
        KeyFamily("joborder", "commands", "hash", 7 * DAY, None, "turns of the sessions that a pool has commands of"),
        KeyFamily("pools", "commands", "zset", 7 * DAY, None, "pools that have queued commands, by last use"),
        KeyFamily("jobwakeup", "commands", "string", MINUTE, None, "pending marker of a pool's repeated wake-up"),
        KeyFamily("jobabsent", "commands", "string", 5 * MINUTE, None, "since when no worker serves a pool's host"),
        KeyFamily("running", "commands", "zset", 7 * DAY, None, "commands under a lease, by its end"),
        KeyFamily("stop", "commands", "list", DAY, 1, "a running command is to be stopped: by whom and why"),
        KeyFamily(
            "follow", "commands", "stream", 10 * MINUTE, 2_000, "output to be followed: the newest pieces, 1 MiB"
        ),
        KeyFamily("done", "commands", "list", HOUR, 1, "a command's record, for those who wait"),
        KeyFamily("records", "commands", "list", 7 * DAY, 200, "newest records of a session, failures kept longest"),
        KeyFamily("recorded", "commands", "string", 7 * DAY, None, "how many records a session has had"),
        KeyFamily("superseded", "commands", "list", 7 * DAY, 50, "records that came when the command had one"),
        KeyFamily("cmdstats", "commands", "hash", None, 8, "records stored, by outcome; counters that only grow"),
        KeyFamily("turn", "turns", "hash", 7 * DAY, 32, "one turn"),
        KeyFamily("handover", "turns", "zset", 7 * DAY, 10_000, "turns handed over to a host; the oldest is dropped"),
        KeyFamily("due", "turns", "zset", 7 * DAY, None, "open turns by deadline"),
        KeyFamily("turns", "turns", "zset", 7 * DAY, 1_000, "the newest turns by time of opening, for listings"),
        KeyFamily("turnstats", "turns", "hash", None, 230, "counters that only grow; surplus channels count as one"),
        KeyFamily("out", "outbox", "zset", 7 * DAY, None, "conversations of a channel that have deliveries"),
        KeyFamily("posted", "outbox", "list", MINUTE, 1, "there if a channel got an answer and no transport waited"),
        KeyFamily("outq", "outbox", "list", 7 * DAY, 1_000, "deliveries of one conversation, in order"),
        KeyFamily("ambiguous", "outbox", "zset", 7 * DAY, None, "conversations to ask the platform about, by when"),
        KeyFamily("polled", "outbox", "zset", 7 * DAY, 1_000, "channels by the time a transport last polled"),
        KeyFamily("channels", "outbox", "zset", 7 * DAY, 1_000, "channels by last use; the longest unused goes"),
        KeyFamily("banks", "signals", "zset", None, None, "the team's banks by last signal"),
        KeyFamily("bank", "signals", "hash", None, 24, "a bank's model, threshold, version and counts"),
        KeyFamily("factscore", "signals", "hash", None, 100_000, "global scores; the least recently signalled goes"),
        KeyFamily("factrecent", "signals", "zset", None, 100_000, "facts by last signal"),
        KeyFamily("factabove", "signals", "zset", None, 100_000, "facts of 0.5 and more, in the order of their scores"),
        KeyFamily("factbelow", "signals", "zset", None, 100_000, "facts below 0.5, those farthest from it last"),
        KeyFamily("bankdays", "signals", "hash", None, 400, "a bank's days with their mean score; the oldest goes"),
        KeyFamily("sigstats", "signals", "hash", None, 8, "signals applied, by type; counters that only grow"),
        KeyFamily("decay", "signals", "hash", None, 16, "the weekly decay: the week done, where a pass stands"),
        KeyFamily("clustervec", "signals", "hash", None, 1_000_000, "query clusters: vectors by slot"),
        KeyFamily(
            "clustertext",
            "signals",
            "hash",
            None,
            1_000_000,
            "query clusters: the query of each, truncated to 2,048 characters",
        ),
        KeyFamily("clusterver", "signals", "zset", None, 1_000_000, "query clusters: slot by version"),
        KeyFamily(
            "clusterstamps", "signals", "zset", None, 10_000, "a random stamp of each change of them, by version"
        ),
        KeyFamily(
            "clusterrecent", "signals", "zset", None, 1_000_000, "query clusters: slot by last signal; the lowest goes"
        ),
        KeyFamily("next", "signals", "hash", 7 * DAY, 8, "the model that a bank is to have, and how far that has come"),
        KeyFamily("nextvec", "signals", "hash", 7 * DAY, 1_000_000, "query clusters: vectors of that model, by slot"),
        KeyFamily(
            "lastvec", "signals", "hash", None, 1_000_000, "vectors of the model before, within the switch alone"
        ),
        KeyFamily(
            "cluster",
            "signals",
            "hash",
            None,
            1_000,
            "one query cluster's scores by fact; about the oldest are evicted",
        ),
        KeyFamily("sigseen", "signals", "set", 7 * DAY, 50_500, "signal ids, two generations of 50,000"),
        KeyFamily("sigseen-old", "signals", "set", 7 * DAY, 50_500, "the generation before"),
        KeyFamily("siglog", "signals", "list", 7 * DAY, 1_000, "a bank's newest signals, as they came"),
        KeyFamily("reply", "recall", "list", MINUTE, 1, "one recall's reply"),
        KeyFamily("vec", "recall", "hash", DAY, 10_600, "embeddings of queries, two generations of 10,000"),
        KeyFamily("vec-old", "recall", "hash", DAY, 10_600, "the generation before"),
        KeyFamily("factinfo", "facts", "hash", None, 9, "model, version and size of a bank's stored facts"),
        KeyFamily("facttext", "facts", "hash", None, 100_000, "stored facts; the least recently stored is evicted"),
        KeyFamily("factver", "facts", "zset", None, 100_000, "stored facts by version"),
        KeyFamily("factstamps", "facts", "zset", None, 10_000, "a random stamp of each change of them, by version"),
        KeyFamily("factset", "facts", "vectorset", None, 100_000, "their vectors, on a server of vector sets"),
        KeyFamily("factvec", "facts", "hash", None, 100_000, "their vectors, on a server that has no vector sets"),
        KeyFamily("factnext", "facts", "hash", 7 * DAY, 8, "the model that they are to have, how far that has come"),
        KeyFamily("factnextvec", "facts", "hash", 7 * DAY, 100_000, "their vectors of that model, where in a hash"),
        KeyFamily("factnextset", "facts", "vectorset", 7 * DAY, 100_000, "their vectors of that model, else"),
        KeyFamily(
            "factbanks", "facts", "zset", None, None, "the team's banks that store facts, by the last one stored"
        ),
        KeyFamily("factdeleted", "facts", "zset", None, 10_000, "facts deleted lately, by version"),
        KeyFamily("factseen", "facts", "set", 7 * DAY, 50_500, "event ids, two generations of 50,000"),
        KeyFamily("factseen-old", "facts", "set", 7 * DAY, 50_500, "the generation before"),
        KeyFamily("encoder", "signals", "hash", DAY, None, "the state of the model on each worker host"),
    )
}


_PLAIN: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~"
_CODES: Final = tuple(chr(byte) if chr(byte) in _PLAIN else f"%{byte:02X}" for byte in range(256))


def _quote(part: str) -> str:
    """Quote as `urllib.parse.quote(part, safe="")` does; importing that is too slow for a short-lived process."""
    if not part.strip(_PLAIN):  # it has no other characters: most names, in a tenth of the time
        return part
    return "".join([_CODES[byte] for byte in part.encode()])


def _not_text(*names: Any) -> InvalidInput:
    return InvalidInput(f"the name is {next(name for name in names if not isinstance(name, str))!r}; use text")


def key_suffix(name: str, *parts: str) -> str:
    """Return what follows a shard's prefix in the key of family `name` for these parts.

    Raises:
        KeyError: no such family is declared.
        InvalidInput: a part is not text, or cannot be encoded as UTF-8.
    """
    family = FAMILIES[name].name
    if not parts:
        return family
    try:
        quoted = [_quote(part) for part in parts]
    except (AttributeError, TypeError):
        raise _not_text(*parts) from None
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{error.object!r} is not valid Unicode text") from None
    return ":".join([family, *quoted])  # a StrEnum is slow to format


def split_key(key: str) -> tuple[str, str, str]:
    """Return a key's TEAM.SHARD, its family, and its parts, still encoded."""
    shard, _, suffix = key.removeprefix("tb:{").partition("}:")
    family, _, parts = suffix.partition(":")
    return shard, family, parts


def pattern_of(team: str) -> str:
    """Return the pattern of a team's keys."""
    return f"tb:{{{team}.*"


class Shard:
    """One shard of one team; it builds every key."""

    __slots__ = ("index", "prefix", "team")

    def __init__(self, team: str, index: int) -> None:
        self.team = team
        self.index = index
        self.prefix = f"tb:{{{team}.{index}}}:"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shard) and (self.team, self.index) == (other.team, other.index)

    def __hash__(self) -> int:
        return hash((self.team, self.index))

    def __repr__(self) -> str:
        return f"Shard({self.team!r}, {self.index})"

    def key(self, name: str, *parts: str) -> str:
        """Return the key of family `name` for these parts.

        Raises:
            KeyError: no such family is declared.
            InvalidInput: a part is not text, or cannot be encoded as UTF-8.
        """
        return self.prefix + key_suffix(name, *parts)


FLEET: Final = Shard("_fleet", 0)
"""Keys of no single team, in one slot. No team can have this name, so no team's access rule covers them."""

NOTIFICATIONS: Final = FLEET.key("notifications")
"""The stream from which dispatchers read what is new."""


class Layout(LightStruct):
    """A team and its number of shards. It refuses a team name that could match another team's keys."""

    team: str
    shards: int
    some: frozenset[int] | None = None

    def __init__(self, team: str, shards: int, some: frozenset[int] | None = None) -> None:
        """Check the team's name.

        Raises:
            InvalidInput: the team's name is not allowed.
        """
        super().__init__(check_team(team), shards, some)

    def shard(self, index: int) -> Shard:
        """Return the shard of this number."""
        return Shard(self.team, index)

    @property
    def all(self) -> tuple[Shard, ...]:
        """Every shard, of those that `only` has left."""
        indexes = range(self.shards) if self.some is None else sorted(self.some)
        return tuple(Shard(self.team, index) for index in indexes)

    def only(self, some: Collection[Shard]) -> Layout:
        """Return this layout with no others than some of its shards in `all`: their nodes do not answer."""
        return self.replace(some=frozenset(shard.index for shard in some))

    def of(self, routing: str) -> Shard:
        """Return the shard of a session or bank.

        Raises:
            InvalidInput: the name is not text, or cannot be encoded as UTF-8.
        """
        try:
            return Shard(self.team, shard_of(routing, self.shards))
        except AttributeError:
            raise _not_text(routing) from None
        except UnicodeEncodeError:
            raise InvalidInput(f"{routing!r} is not valid Unicode text") from None

    def of_turn(self, channel: str, conversation: str) -> Shard:
        """Return the shard of a conversation."""
        return self.of(turn_routing(channel, conversation))


def lifetime_ms(name: str) -> int:
    """Return the declared lifetime of a family, in milliseconds, for PEXPIRE."""
    lifetime = FAMILIES[name].lifetime
    if lifetime is None:
        raise KeyError(f"{name} is declared without a lifetime")
    return lifetime * 1000


def stream_of(shard: Shard, family: Family) -> str:
    """Return the key of a family's intake stream."""
    return shard.key("in", family)


def mark_of(stream: str, writer: str) -> str:
    """Return the key of a writer's mark in an intake stream: the number of its last event there."""
    return f"{stream.replace('}:in:', '}:writer:', 1)}:{_quote(writer)}"


def guidestats_of(shard: Shard, at_ms: int) -> str:
    """Return the key of guidance's counters for this moment."""
    return _guidestats_of_day(shard, at_ms // DAY_MS)


@lru_cache(maxsize=1024)
def _guidestats_of_day(shard: Shard, day: int) -> str:
    """Build the key once a day: every commit needs it."""
    return shard.key("guidestats", clock.utc_day(day))
