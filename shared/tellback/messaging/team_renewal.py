"""The renewal of a team's entry in Redis, by the hosts that work for it."""

from __future__ import annotations

from typing import ClassVar, Final

from redis import exceptions

from tellback import clock
from tellback.errors import TellbackError
from tellback.log import get_logger
from tellback.messaging.append_call import notification
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.team import existing_layouts, open_layout, team_id

RESTART: Final = "restart this process: workers read none of its shards beyond those that are stored"

_logger = get_logger("tellback.team")


class TeamRenewal:
    """Stores a team again that is gone while this process works for it.

    Redis lost its data, or was away when this process started, or an operator removed the team. Workers visit only
    teams that are stored: events would wait unseen, and users would get no fallback.
    """

    EVERY: ClassVar[float] = 20.0

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        self._layout = layout
        self.due_at = clock.monotonic() + self.EVERY
        """The monotonic time of the next renewal; whoever connected has stored the team."""

    def renew(self) -> None:
        """Store the team if it is not there; do nothing if Redis is away."""
        self.due_at = clock.monotonic() + self.EVERY
        team, shards = self._layout.team, self._layout.shards
        try:
            if not self._db.answering([self._layout.shard(0)]):  # else events of other nodes wait for one that hangs
                return
            stored = existing_layouts(self._db, [team])
            if stored and stored[0] != self._layout:  # it was made again, or another Redis stands at the same address
                _logger.error("team.other_shards", team=team, stored=stored[0].shards, used=shards, advice=RESTART)
            elif not stored:
                open_layout(self._db, team, shards)
                team_id(self._db, team)
                self._db.command(*notification(team))  # race: another client that stores it again announces it too
                _logger.warning("team.stored_again", team=team, shards=shards)
        except (TellbackError, exceptions.RedisError) as error:
            _logger.debug("team.not_checked", team=team, reason=str(error))
