"""A team in the Redis of the settings: its shards, and where on this host its facts are spooled."""

from __future__ import annotations

from tellback.errors import Unavailable
from tellback.log import get_logger
from tellback.messaging.places import HostMemory, Known, SpoolPlace
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.team import open_layout, team_id
from tellback.urls import without_secrets

_log = get_logger("tellback.client")


def find_team(database: Database, settings: Settings) -> tuple[Layout, SpoolPlace]:
    """The team's layout, and where on this host facts for this Redis are spooled.

    While Redis is away: what it said last time; for one never reached, the setting.
    """
    memory = HostMemory(str(settings.data_path), settings.team, settings.redis_url)
    known = memory.read()
    try:
        layout = open_layout(database, settings.team, settings.shards)
        id_ = team_id(database, settings.team)
    except Unavailable:
        _log.warning("connect.redis_away", url=without_secrets(settings.redis_url))
        return Layout(settings.team, known.shards if known else settings.shards), memory.place(known)
    fresh = known.renewed(layout.shards, id_) if known else Known(layout.shards, id_)
    if fresh != known:
        try:
            memory.write(fresh)
        except OSError as error:  # a host without a disk still works, save in an outage
            _log.debug("connect.team_not_kept", reason=str(error))
    return layout, memory.place(fresh)
