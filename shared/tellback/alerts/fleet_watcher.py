"""The loop of one receiver: the Redis servers, and the teams that exist, one after another. Requirement A-553."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

from tellback import clock
from tellback.alerts.settings import AlertSettings
from tellback.alerts.sinks import Sink
from tellback.alerts.watcher import AlertWatcher, read_servers
from tellback.client.fleet import team_status
from tellback.errors import Unavailable
from tellback.log import get_logger
from tellback.state.database import Database
from tellback.state.keys import FLEET, Layout
from tellback.state.notified_alerts import NotifiedAlerts
from tellback.state.team import layouts_within_reach

_logger = get_logger("tellback.alerts")


class FleetWatcher:
    """Notifies one receiver of the alerts of the servers and of many teams; `names` returns those that it may be about.

    Teams come and go: in each period those that exist are found again.
    """

    def __init__(
        self, sink: Sink, database: Database, names: Callable[[], Sequence[str]], settings: AlertSettings
    ) -> None:
        self._sink = sink
        self._db = database
        self._names = names
        self._settings = settings
        self._watchers: dict[Layout, AlertWatcher] = {}
        self._due: dict[Layout, float] = {}
        self._next_search = 0.0
        # Not by team: each would ask every server again, and send a notice of its own.
        known, read = NotifiedAlerts(database, FLEET, sink.receiver), partial(read_servers, database)
        self._servers = AlertWatcher(sink, known, read, settings)
        self._servers_due = 0.0

    def run(self, stop: threading.Event) -> None:
        """Check the teams that are due until `stop` is set."""
        while not stop.wait(self.step(stop)):
            pass
        for watcher in (self._servers, *self._watchers.values()):
            try:
                watcher.release()
            except Unavailable:  # another process takes over when the lease ends
                return

    def step(self, stop: threading.Event) -> float:
        """Check the teams that are due, and return the seconds until the next one is."""
        begun = clock.monotonic()
        if begun >= self._next_search:
            self._next_search = begun + self._settings.period
            try:
                self._find_teams()
            except Unavailable as error:
                _logger.warning("alerts.redis_unavailable", receiver=self._sink.name, reason=str(error))
                if self._db.cluster is None:  # each team would wait for the same server
                    return self._settings.period
            except Exception:  # a key that somebody changed by hand, perhaps: no thread may end for good
                _logger.exception("alerts.failed", receiver=self._sink.name)
        if begun >= self._servers_due:
            self._servers_due = begun + self._servers.step()
        for layout in [layout for layout, due in self._due.items() if due <= begun]:
            if stop.is_set():
                break
            checked = self._answers(layout)
            self._due[layout] = begun + (self._watchers[layout].step() if checked else self._settings.period)
        return max(0.0, min([self._next_search, self._servers_due, *self._due.values()]) - clock.monotonic())

    def _answers(self, layout: Layout) -> bool:
        """Check whether each node with a part of a team answers: each team would wait for one that hangs."""
        try:
            if len(self._db.answering(layout.all)) == layout.shards:
                return True
            reason = "a node of the Redis Cluster with a shard of the team left a call unanswered"
        except Unavailable as error:
            reason = str(error)
        _logger.warning("alerts.redis_unavailable", receiver=self._sink.name, team=layout.team, reason=reason)
        return False

    def _find_teams(self) -> None:
        own = {team: Layout(team, 1).shard(0) for team in self._names()}
        asked = [shard.team for shard in self._db.answering(list(own.values()))]
        layouts, away = layouts_within_reach(self._db, asked)
        unknown = away.keys() | (own.keys() - asked)
        for layout in self._watchers.keys() - layouts:
            if layout.team not in unknown:
                del self._watchers[layout], self._due[layout]
        for layout in layouts:
            if layout not in self._watchers:
                notified = NotifiedAlerts(self._db, layout.shard(0), self._sink.receiver)
                read = partial(team_status, self._db, layout)
                self._watchers[layout] = AlertWatcher(self._sink, notified, read, self._settings)
                self._due[layout] = 0.0
