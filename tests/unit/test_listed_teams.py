"""The scheduler's visits of the teams of its last list, where no server is needed."""

from __future__ import annotations

from collections.abc import Collection
from unittest import mock

import pytest

from tellback import Settings, clock
from tellback.state.fleet import Visits
from tellback.state.keys import FLEET
from tellback_workers.scheduler import BATCH, RUN_SECONDS, TeamScheduler


def test_each_run_goes_on_where_the_last_one_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """If each began with the first team, those behind a run's second would wait for as long as the node is away."""
    runtime = mock.Mock(settings=Settings())
    runtime.database.answering.return_value = []
    scheduler, visited, now = TeamScheduler(runtime, mock.Mock()), list[str](), [0.0]

    def visit(teams: Collection[str]) -> tuple[dict[str, object], ...]:
        visited.extend(teams)
        now[0] += RUN_SECONDS * 0.6
        return {}, {}, {}

    monkeypatch.setattr(scheduler, "_wake_at", visit)
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    teams = [f"team-{number}" for number in range(3 * BATCH)]
    scheduler._listed.extend(teams)
    scheduler.visit_listed()
    assert visited == teams[: 2 * BATCH]
    scheduler.visit_listed()
    assert visited == [*teams, *teams[:BATCH]]


def test_the_list_is_read_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only who has beat's tick visits listed teams, and only on a cluster; thousands of teams make the list long."""
    runtime, fleet = mock.Mock(settings=Settings()), mock.Mock()
    runtime.database.answering.return_value = [FLEET]
    fleet.claim_visits.return_value = Visits([], [], more=False)
    fleet.known.return_value = ["acme", "zoo"]
    fleet.work.return_value = {}
    scheduler = TeamScheduler(runtime, mock.Mock())
    for name, value in (("_fleet", fleet), ("_search", mock.Mock())):
        monkeypatch.setattr(scheduler, name, value)
    scheduler.run()
    runtime.database.cluster = None
    scheduler.list_teams()
    fleet.known.assert_not_called()
    runtime.database.cluster = mock.Mock()
    for _ in range(2):
        scheduler.list_teams()
    fleet.known.assert_called_once()
    assert list(scheduler._listed) == ["acme", "zoo"]
