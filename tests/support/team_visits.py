"""Visits of teams, made by hand as a worker's process makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tellback.state.database import Database
from tellback.state.fleet import TeamVisits
from tellback.state.intake import StreamRef
from tellback_workers.runtime import Runtime
from tellback_workers.scheduler import EARLY, SILENT_PERIODS, TeamScheduler

TEAM: Final = "default"


def nobody_woken(places: Sequence[StreamRef]) -> None:
    """Accept streams to wake, and wake none."""


def visit(runtime: Runtime, periods: float = EARLY, wake: Callable[[Sequence[StreamRef]], None] = nobody_woken) -> None:
    """Visit the teams that are due, as one worker of many does."""
    TeamScheduler(runtime, wake).run(periods)


def stand_in(runtime: Runtime) -> None:
    """Visit the teams that nobody has visited for so long that beat must be silent."""
    visit(runtime, SILENT_PERIODS)


def due_at_once(database: Database) -> None:
    """Note what is new, and let a long time go by for the teams."""
    fleet = TeamVisits(database)
    fleet.claim_visits(60.0, 100)
    fleet.visit_soon(fleet.known())
