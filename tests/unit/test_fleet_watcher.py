"""The watcher of all teams' alerts, where no receiver is needed."""

from __future__ import annotations

import threading
from unittest import mock

from tellback.alerts.fleet_watcher import FleetWatcher
from tellback.alerts.settings import AlertSettings
from tellback.errors import Unavailable
from tellback.state.keys import Layout


def test_while_redis_is_away_no_team_is_asked_for() -> None:
    """Each team would wait for the same server."""
    database, sink = mock.Mock(cluster=None), mock.Mock()
    sink.name = sink.receiver = "webhook"
    watcher = FleetWatcher(sink, database, mock.Mock(side_effect=Unavailable("gone")), AlertSettings())
    watcher._due = {Layout("default", 4): 0.0}
    assert watcher.step(threading.Event()) == AlertSettings().period
    database.answering.assert_not_called()


def test_a_notice_of_the_servers_that_was_not_taken_is_sent_again_before_the_next_search() -> None:
    sink = mock.Mock()
    sink.name = sink.receiver = "webhook"
    watcher = FleetWatcher(sink, mock.Mock(cluster=None), mock.Mock(return_value=[]), AlertSettings())
    watcher._next_search = 1e12
    watcher._servers = mock.Mock(step=mock.Mock(return_value=1.0))
    assert watcher.step(threading.Event()) <= 1 < AlertSettings().period
