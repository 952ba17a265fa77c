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
    sink.name = "webhook"
    watcher = FleetWatcher(sink, database, mock.Mock(side_effect=Unavailable("gone")), AlertSettings())
    watcher._due = {Layout("default", 4): 0.0}
    assert watcher.step(threading.Event()) == AlertSettings().period
    database.answering.assert_not_called()
