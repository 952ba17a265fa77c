"""What beat sends, and how often. Every entry is safe to run twice, so that two beats need no lock."""

from __future__ import annotations

from typing import Any

from tellback.names import SWEEPS_QUEUE, Task
from tellback.settings import Settings

_SWEEPS = (Task.RING, Task.SWEEP_TURNS, Task.SWEEP_JOBS)


def schedule(settings: Settings) -> dict[str, dict[str, Any]]:
    """Celery's `beat_schedule`: each sweep for each team. A sweep that nobody took within its period expires."""
    period = settings.beat_period
    return {
        f"{task}:{team}": {
            "task": task.value,
            "schedule": period,
            "args": (team,),
            "options": {"queue": SWEEPS_QUEUE, "expires": max(period, 1.0), "ignore_result": True},
        }
        for task in _SWEEPS
        for team in settings.served_teams
    }
