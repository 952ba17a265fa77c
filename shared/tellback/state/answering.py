"""A call of several shards, of which one primary of a Redis Cluster that is dead must not cost the others anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tellback.errors import Unavailable
from tellback.state.database import Database
from tellback.state.keys import Shard

T = TypeVar("T")


def check_answering(database: Database, shard: Shard) -> None:
    """Return unless the node with this shard did not answer a moment ago: the call would wait for it again.

    Raises:
        Unavailable: it did not.
    """
    if not database.answering([shard]):
        place = f"{shard.team}.{shard.index}"
        raise Unavailable(
            f"the node of the Redis Cluster with {place} left a call unanswered (`tellback doctor` names it)"
        )


def among_answering(database: Database, shards: Sequence[Shard], call: Callable[[Sequence[Shard]], T]) -> T:
    """Return what `call` returns for these shards, without those whose node does not answer.

    If one falls silent meanwhile, it is called again for the others, so it must be one that may be repeated. On one
    server it is called once, for all shards.

    Raises:
        Unavailable: no node answers.
    """
    left = database.answering(shards) or shards
    try:
        return call(left)
    except Unavailable:
        fewer = database.answering(left)
        if not fewer or len(fewer) == len(left):
            raise
        return among_answering(database, fewer, call)
