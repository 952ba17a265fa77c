"""Connecting, also while Redis is away: facts go to the disk for the right shard, decisions say so."""

from __future__ import annotations

import msgspec
import pytest

import tellback
from tellback import Settings, connect
from tellback.errors import ConfigurationError, Unavailable
from tellback.state.database import Database


def test_a_host_that_starts_while_redis_is_away_knows_the_layout_of_last_time(
    settings: Settings,
    database: Database,  # noqa: ARG001 - an empty Redis
) -> None:
    with connect(settings=msgspec.structs.replace(settings, shards=7)) as tb:
        assert tb.context.layout.shards == 7
    away = msgspec.structs.replace(settings, redis_url="redis://127.0.0.1:1/0")
    with connect(settings=away) as tb:
        assert tb.context.layout.shards == 7
        with pytest.raises(Unavailable):
            tb.history("s1")


def test_a_host_that_never_saw_redis_assumes_the_setting(settings: Settings) -> None:
    with connect(settings=msgspec.structs.replace(settings, redis_url="redis://127.0.0.1:1/0", shards=3)) as tb:
        assert tb.context.layout.shards == 3


def test_the_team_given_to_connect_counts(settings: Settings, database: Database) -> None:
    with connect(database.url, team="acme") as tb:
        assert tb.context.layout.team == "acme"
    with pytest.raises(ConfigurationError, match="TELLBACK_TEAM"):
        connect(settings.redis_url, team="No Team")


def test_every_exported_name_is_there_and_no_other_is() -> None:
    import typing

    assert typing.TYPE_CHECKING is False
    for name in tellback._EXPORTS:
        assert getattr(tellback, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = tellback.nonsense


def test_type_checkers_and_the_interpreter_see_the_same_names() -> None:
    import ast
    from pathlib import Path

    tree = ast.parse(Path(tellback.__file__ or "").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: statement.module
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert seen == dict(tellback._EXPORTS)
