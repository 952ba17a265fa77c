"""A server that has vector sets, and one that does not let us use them."""

from __future__ import annotations

from typing import Final

import pytest

from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.stored_facts import has_vector_sets
from tests.support.redis_server import RedisServer

DENIED: Final = ("vadd", "vsim", "vrem", "vcard")
KINDS: Final = {"vector sets": "set", "none": "vectors"}
"""The kind of what a bank's facts are kept in, by what the server has."""


def settings_with(server: RedisServer, settings: Settings, vector_sets: str) -> Settings:
    """Settings for a server that has what `vector_sets` says; the test is skipped where it cannot."""
    database = Database(server.url)
    try:
        if vector_sets == "none":
            denied = [f"-{name}" for name in DENIED if database.command("COMMAND", "INFO", name)[0]]
            database.command("ACL", "SETUSER", "plain", "reset", "on", "nopass", "~*", "&*", "+@all", *denied)
            url = server.url.replace("redis://", "redis://plain:any@")
            return Settings(redis_url=url, data_dir=settings.data_dir)
        if not has_vector_sets(database, Layout("default", 1).shard(0)):
            pytest.skip("this redis-server has no vector sets")
        return settings
    finally:
        database.close()
