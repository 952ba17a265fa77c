"""A team's layout: the first process that uses a team fixes its number of shards and its id."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from tellback.errors import NotFound, Unavailable
from tellback.names import stored_shards, stored_team_id
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.readable import readable, reply_of
from tellback.state.script_calls import Arg


def open_layout(database: Database, team: str, shards: int) -> Layout:
    """Return the team's layout; `shards` is used only for a new team.

    Raises:
        InvalidInput: the team's name is not allowed, or the number of shards that is stored is none.
        Unavailable: Redis does not answer.
    """
    key = Layout(team, 1).shard(0).key("team")
    return Layout(team, stored_shards(team, _fixed(database, key, "shards", shards)))


def stored_layout(database: Database, team: str) -> Layout | None:
    """Return the layout of a team; None if there is no such team.

    Raises:
        InvalidInput: the number of shards that is stored is none.
        Unavailable: Redis does not answer.
    """
    stored = database.command("HGET", Layout(team, 1).shard(0).key("team"), "shards")
    return None if stored is None else Layout(team, stored_shards(team, stored))


def existing_layouts(database: Database, teams: Sequence[str]) -> list[Layout]:
    """Return the layouts of those of the teams that exist.

    Raises:
        Unavailable: Redis does not answer.
    """
    layouts, away = layouts_within_reach(database, teams)
    if away:
        raise next(iter(away.values()))
    return layouts


def layouts_within_reach(database: Database, teams: Sequence[str]) -> tuple[list[Layout], dict[str, Unavailable]]:
    """Return the layouts of those of the teams that exist, and the error of each whose node does not answer."""
    replies = database.run_each([], [("HGET", Layout(team, 1).shard(0).key("team"), "shards") for team in teams])
    replied = list(zip(teams, replies, strict=True))
    away = {team: reply for team, reply in replied if type(reply) is Unavailable}
    found = [(team, reply) for team, reply in replied if reply is not None and team not in away]
    return readable("team", found, _layout), away


def _layout(stored: tuple[str, Any]) -> Layout:
    team, shards = stored
    return Layout(team, stored_shards(team, reply_of(shards)))


def no_team(team: str) -> NotFound:
    """Return the error for a team that does not exist."""
    return NotFound(
        f"there is no team {team}: `tellback teams list` shows those that exist, and a team's first client creates it"
    )


def team_id(database: Database, team: str) -> str:
    """Return an id of the team that is unique to this Redis: events spooled for one Redis must not reach another.

    Raises:
        InvalidInput: the team's name is not allowed, or the id that is stored is none.
        Unavailable: Redis does not answer.
    """
    key = Layout(team, 1).shard(0).key("team")
    return stored_team_id(team, _fixed(database, key, "id", secrets.token_hex(8)))


def _fixed(database: Database, key: str, field: str, value: Arg) -> Any:
    """Return the first value that anyone stored. It reads first: an existing team opens even while Redis is full."""
    stored = database.command("HGET", key, field)
    if stored is None:
        # race: HSETNX checks again; the first one decides, and HGET returns its value
        _, stored = database.pipeline([("HSETNX", key, field, value), ("HGET", key, field)])
    return stored
