"""What a worker process needs, made on first use and again after a fork: no connection crosses one."""

from __future__ import annotations

import os
from functools import cache, cached_property, lru_cache
from typing import Final

from tellback.settings import Settings, load
from tellback.state.database import Database
from tellback.state.dead import DeadLetters
from tellback.state.intake import Intake
from tellback.state.keys import Layout
from tellback.state.team import open_layout

BRIEF: Final = 1.0  # seconds that a call may take for what a command must not wait for


class Runtime:
    """The connections and stores of one process."""

    def __init__(self, settings: Settings) -> None:
        """Take the settings; connections are made when first used."""
        self.settings = settings
        self.database = Database(settings.redis_url)
        self.brief = Database(settings.redis_url, patience=BRIEF)
        self.layout = cache(self._layout)
        self.intake = cache(self._intake)
        self.dead = cache(self._dead)

    @cached_property
    def is_cluster(self) -> bool:
        """Whether a call of Redis must stay in one slot."""
        return self.database.is_cluster()

    def _layout(self, team: str) -> Layout:
        return open_layout(self.database, team, self.settings.shards)

    def _intake(self, team: str) -> Intake:
        return Intake(self.database, self.layout(team))

    def _dead(self, team: str) -> DeadLetters:
        return DeadLetters(self.database, self.layout(team))


@lru_cache(maxsize=1)
def runtime() -> Runtime:
    """This process's runtime, from the environment's settings."""
    return Runtime(load())


os.register_at_fork(after_in_child=runtime.cache_clear)
