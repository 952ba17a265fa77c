"""The connections and stores of a worker process, created on first use and again after a fork.

A connection that two processes share would mix up their replies.
"""

from __future__ import annotations

import os
from functools import cache, cached_property, lru_cache
from typing import Final

from tellback.errors import InvalidInput
from tellback.settings import Settings, load
from tellback.state.confirmation import Confirmation
from tellback.state.database import Database
from tellback.state.dead_letters import DeadLetters
from tellback.state.intake import Intake
from tellback.state.keys import Layout, Shard
from tellback.state.team import open_layout
from tellback.tracing import WORKER, Tracing, tracing_of
from tellback.wording import count_phrase

SHORT_DEADLINE: Final = 1.0  # seconds; for calls that a running command must not wait for


class Runtime:
    """The connections and stores of one process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database(settings.redis_url, confirmation=Confirmation.of(settings))
        self.short_database = Database(settings.redis_url, call_deadline=SHORT_DEADLINE)
        self.layout = cache(self._layout)
        self.intake = cache(self._intake)
        self.dead = cache(self._dead)

    @property
    def tracing(self) -> Tracing | None:
        """The tracing of this process, if it is set."""
        return tracing_of(self.settings, WORKER)

    @cached_property
    def is_cluster(self) -> bool:
        """True if Redis is a cluster, where each call must stay in one slot."""
        return self.database.is_cluster()

    def shard(self, team: str, index: int) -> Shard:
        """Return a team's shard by its number.

        Raises:
            InvalidInput: the team has no such shard, so the task's message is forged or outdated.
        """
        layout = self.layout(team)
        if index >= layout.shards:
            raise InvalidInput(f"team {team} has {count_phrase(layout.shards, 'shard')}; there is no shard {index}")
        return layout.shard(index)

    def _layout(self, team: str) -> Layout:
        return open_layout(self.database, team, self.settings.shards)

    def _intake(self, team: str) -> Intake:
        return Intake(self.database, self.layout(team))

    def _dead(self, team: str) -> DeadLetters:
        return DeadLetters(self.database, self.layout(team))


@lru_cache(maxsize=1)
def runtime() -> Runtime:
    """Return this process's runtime, with the settings of the environment."""
    return Runtime(load())


os.register_at_fork(after_in_child=runtime.cache_clear)
