"""A team's layout: the number of shards is fixed by whoever uses the team first."""

from __future__ import annotations

import secrets

from tellback.state.database import Database
from tellback.state.keys import Layout


def open_layout(database: Database, team: str, shards: int) -> Layout:
    """The team's layout; `shards` counts only for a team that is new.

    Raises:
        InvalidInput: the team's name is not allowed.
        Unavailable: Redis does not answer.
    """
    key = Layout(team, 1).shard(0).key("team")
    _, stored = database.pipeline([("HSETNX", key, "shards", shards), ("HGET", key, "shards")])
    return Layout(team, int(stored))


def team_id(database: Database, team: str) -> str:
    """What names the team in this Redis and in no other: facts kept on a disk for one must not reach another.

    Raises:
        InvalidInput: the team's name is not allowed.
        Unavailable: Redis does not answer.
    """
    key = Layout(team, 1).shard(0).key("team")
    _, stored = database.pipeline([("HSETNX", key, "id", secrets.token_hex(8)), ("HGET", key, "id")])
    return str(stored.decode())
