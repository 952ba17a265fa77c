"""The connections and stores of a worker process, created on first use and again after a fork.

A connection that two processes share would mix up their replies.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Final

import structlog
from cachetools import LRUCache

from tellback.errors import InvalidInput, NotFound, Unavailable
from tellback.guidance.registry import ProviderRegistry, load_registry
from tellback.settings import Settings, load
from tellback.state.answering import among_answering, check_answering
from tellback.state.confirmation import Confirmation
from tellback.state.database import Database
from tellback.state.dead_letters import DeadLetters
from tellback.state.intake import Intake, Notified, StreamRef
from tellback.state.keys import Layout, Shard
from tellback.state.team import existing_layouts, open_layout
from tellback.tracing import WORKER, Tracing, tracing_of
from tellback.wording import count_phrase
from tellback_workers.fair_shares import KeptShares
from tellback_workers.repeated_lines import RepeatedLines

TEAMS: Final = 64  # of which a process keeps stores and loops; more are made again when they are needed

BY_LAYOUT: Final[list[Callable[[], None]]] = []
"""Clear what other modules keep for each team and made for its number of shards."""

SHORT_DEADLINE: Final = 1.0  # seconds; for calls that a running command must not wait for

_logger = structlog.get_logger("tellback.team")


class Runtime:
    """The connections and stores of one process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database(settings.redis_url, confirmation=Confirmation.of(settings))
        self.short_database = Database(settings.redis_url, call_deadline=SHORT_DEADLINE)
        self.kept_shares = KeptShares()
        self._layouts: LRUCache[str, Layout] = LRUCache(20_000)
        self._former: LRUCache[str, Layout] = LRUCache(20_000)  # of teams that were removed, or that Redis lost
        self.lines = RepeatedLines()
        self.intake = lru_cache(TEAMS)(self._intake)
        self.dead = lru_cache(TEAMS)(self._dead)

    @cached_property
    def tracing(self) -> Tracing | None:
        """The tracing of this process, if it is set."""
        return tracing_of(self.settings, WORKER)

    @cached_property
    def is_cluster(self) -> bool:
        """True if Redis is a cluster, where each call must stay in one slot."""
        return self.database.is_cluster()

    @cached_property
    def registry(self) -> ProviderRegistry:
        """The providers; finding them reads the metadata of every installed package, so all teams share them.

        Raises:
            ConfigurationError: the setting `providers` names one that cannot be used.
        """
        return load_registry(self.settings.providers)

    def shard(self, team: str, index: int) -> Shard:
        """Return a team's shard by its number.

        Raises:
            NotFound: there is no such team; it may have been removed, or its key evicted, while the message waited.
            InvalidInput: the team has no such shard, so the task's message is forged or outdated.
            Unavailable: nobody knows, because the node with the team's own key is away, or the shard's node is.
        """
        layout = self._layouts.get(team)
        if layout is None or index >= layout.shards:  # the team was made again since, perhaps with more
            layout = self.current_layouts([team]).get(team)
            if layout is not None and team not in self._layouts:
                raise Unavailable(_unknown_shards(team))
        if layout is None:
            raise NotFound(f"there is no team {team}")
        if index >= layout.shards:
            raise InvalidInput(f"team {team} has {count_phrase(layout.shards, 'shard')}; there is no shard {index}")
        shard = layout.shard(index)
        # A node that hangs would take its time from each task that needs it, and from those of all teams behind them.
        check_answering(self.database, shard)
        return shard

    def layout(self, team: str) -> Layout:
        """Return a team's layout; a new team gets the shards of the settings, and a lost one those that it had."""
        found = self._layouts.get(team)
        if found is None:
            former = self._former.get(team)
            shards = self.settings.shards if former is None else former.shards
            found = self._layouts[team] = open_layout(self.database, team, shards)
        return found

    def known_layouts(self, teams: Iterable[str]) -> dict[str, Layout]:
        """Return the layouts of the teams that exist, in one round trip for those not seen before.

        Of a cluster, teams not seen before are left out if the node with their own key does not answer.
        """
        wanted = list(dict.fromkeys(teams))
        unseen = [team for team in wanted if team not in self._layouts]
        asked, layouts = self._stored_layouts(unseen)
        self._layouts.update((layout.team, layout) for layout in layouts)
        for team in set(unseen).difference(asked):
            if self.lines.is_due("team.postponed", team):
                _logger.warning("team.postponed", team=team, reason=_unknown_shards(team))
        return {team: self._layouts[team] for team in wanted if team in self._layouts}

    def streams_of(self, found: Sequence[Notified]) -> list[StreamRef]:
        """Return the streams that notifications name, of the teams that this worker serves.

        A forged one names a team or a shard that is not there.
        """
        only = self.settings.served_teams
        layouts = self.known_layouts([each.team for each in found if not only or each.team in only])
        return [
            (layouts[each.team].shard(each.stream[0]), each.stream[1])
            for each in found
            if each.stream and each.team in layouts and each.stream[0] < layouts[each.team].shards
        ]

    def current_layouts(self, teams: Collection[str]) -> dict[str, Layout]:
        """Return the layouts of the teams that exist now, in one round trip.

        A team that was removed may be made again with another number of shards: what this process made for the former
        one is dropped then. A team whose node does not answer has the layout that this process knows, or one shard.
        """
        asked, layouts = self._stored_layouts(teams)
        found = {layout.team: layout for layout in layouts}
        known = {team: self._layouts.get(team) for team in asked}
        away = {team: self._layouts.get(team, Layout(team, 1)) for team in teams if team not in known}
        self._layouts.update(found)  # in place: a thread that meets a team as missing takes its wake-up for forged
        for team in known.keys() - found.keys():
            gone = self._layouts.pop(team, None)
            if gone is not None:
                self._former[team] = gone
        if any(layout is not None and found.get(team) != layout for team, layout in known.items()):
            for clear in (self.intake.cache_clear, self.dead.cache_clear, *BY_LAYOUT):
                clear()
        return found | away

    def _stored_layouts(self, teams: Iterable[str]) -> tuple[list[str], list[Layout]]:
        """Return those of the teams whose node answers, and the layouts of those of them that exist.

        Raises:
            Unavailable: no node answers.
        """

        def ask(own: Sequence[Shard]) -> tuple[list[str], list[Layout]]:
            reachable = [shard.team for shard in own]
            return reachable, existing_layouts(self.database, reachable)

        own = [Layout(team, 1).shard(0) for team in teams]
        cluster = self.database.cluster
        if cluster is not None and not cluster.all_silent() and own and not self.database.answering(own):
            return [], []  # a node that hangs would take its time again
        try:
            return among_answering(self.database, own, ask)
        except Unavailable as error:
            if type(error) is not Unavailable or cluster is None or cluster.all_silent():
                raise
            return [], []

    def _intake(self, team: str) -> Intake:
        return Intake(self.database, self.layout(team))

    def _dead(self, team: str) -> DeadLetters:
        return DeadLetters(self.database, self.layout(team))


def _unknown_shards(team: str) -> str:
    key = Layout(team, 1).shard(0).key("team")
    return (
        f"the node of the Redis Cluster with {key} does not answer, and this process, which has not served the team "
        "before, does not know its shards: it serves none until that node answers (`tellback doctor` names it)"
    )


@lru_cache(maxsize=1)
def current_runtime() -> Runtime:
    """Return this process's runtime, with the settings of the environment."""
    return Runtime(load())


os.register_at_fork(after_in_child=current_runtime.cache_clear)
