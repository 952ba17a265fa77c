"""The team of replays: nothing else is in it, so that a replay changes no live statistics and can be undone.

Undoing deletes what the team stores, so it is refused for a team that no replay has marked. A team is marked only while
it is empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tellback.errors import InvalidInput, StateConflict
from tellback.names import REPLAY_TEAM, Family
from tellback.state.audit import Author, log_act
from tellback.state.database import Database, small_write
from tellback.state.keys import FAMILIES, Layout, Shard, stream_of

MARK: Final = "replay"  # field of the team's hash
KEPT: Final = frozenset(
    {"team", "clock", "worker", "workers", "beat", "in", "writer", "wakeup", "lease", "fence", "audit"}
)
"""Families of keys that workers and writers keep using; the streams are empty when a replay is undone."""

_USED: Final = ("sessions", "turns", "banks", "factbanks", "channels")
_SCAN_COUNT: Final = 1_000
_ROUNDS: Final = 5


def claim_team(database: Database, layout: Layout) -> None:
    """Mark the team as that of replays, if it is empty or already marked.

    Raises:
        InvalidInput: something else is in it.
    """
    if is_marked(database, layout):
        return
    counts = database.pipeline([("ZCARD", shard.key(name)) for shard in layout.all for name in _USED])
    lengths = database.pipeline([("XLEN", key) for shard in layout.all for key in _streams(shard)])
    if any(counts) or any(lengths):
        raise InvalidInput(
            f"team {layout.team} has data of its own; name the team to play into with --team, or use another for it"
        )
    # race: a host that begins to use the team at this moment shares it with replays, as if it had begun a moment later
    database.run(small_write("HSET", layout.shard(0).key("team"), MARK, 1))


def is_marked(database: Database, layout: Layout) -> bool:
    """Check whether a replay has made this team its own."""
    return database.command("HGET", layout.shard(0).key("team"), MARK) is not None


def undo(database: Database, layout: Layout, author: Author) -> int:
    """Delete everything that replays have left in their team, and return the number of keys.

    The audit log names the author, unless there is nothing to delete.

    Raises:
        InvalidInput: this is not the team of replays, or it is on a cluster.
        StateConflict: events of it still wait to be applied.
    """
    if not is_marked(database, layout):
        raise InvalidInput(
            f"team {layout.team} is not one of replays only, so a replay in it cannot be told from the rest; undo "
            f"works for team {REPLAY_TEAM}, where replays play without --team"
        )
    if database.is_cluster():
        raise InvalidInput(
            "a replay on a cluster cannot be undone: its keys are on several servers. Most expire in 7 days"
        )
    if any(database.pipeline([("XLEN", stream_of(shard, family)) for shard in layout.all for family in Family])):
        raise StateConflict(
            "events of the replay still wait; undo it when the workers have applied them, or delete them too: "
            f"tellback teams remove {layout.team}"
        )
    if any(True for shard in layout.all for _ in _stored(database, shard)):
        log_act(database, layout, author, "undo", layout.team)
    return sum(_delete(database, shard) for shard in layout.all)


def _delete(database: Database, shard: Shard) -> int:
    deleted = 0
    for _ in range(_ROUNDS):  # a sweep may write while we delete
        found = list(_stored(database, shard))
        for start in range(0, len(found), _SCAN_COUNT):
            # race: every key of this marked team goes, also what was written since
            deleted += database.command("UNLINK", *found[start : start + _SCAN_COUNT])
        if not found:
            break
    return deleted


def _stored(database: Database, shard: Shard) -> Iterator[bytes]:
    """Yield the keys of a shard that a replay may have written."""
    for keys in database.scan(f"{shard.prefix}*", _SCAN_COUNT):
        for key in keys:
            family = key.decode(errors="replace").removeprefix(shard.prefix).partition(":")[0]
            if family in FAMILIES and family not in KEPT:
                yield key


def _streams(shard: Shard) -> list[str]:
    return [shard.key("dead"), *(stream_of(shard, family) for family in Family)]
