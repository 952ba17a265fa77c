"""What beat sends, and how often. Every entry is safe to run twice, so that two beats need no lock."""

from __future__ import annotations

from typing import Any, Final

from tellback.names import SWEEPS_QUEUE, Task
from tellback.settings import Settings

DECAYS: Final = 30  # periods between two looks at whether the week's decay is due: a minute, by default
_SWEEPS: Final = {Task.RING: 1, Task.SWEEP_TURNS: 1, Task.SWEEP_JOBS: 1, Task.DECAY: DECAYS}


def schedule(settings: Settings) -> dict[str, dict[str, Any]]:
    """Celery's `beat_schedule`: each sweep for each team. A sweep that nobody took within its period expires.

    The weekly decay is no crontab: beat, or all workers, may be away when a week begins.
    """
    return {
        f"{task}:{team}": {
            "task": task.value,
            "schedule": settings.beat_period * periods,
            "args": (team,),
            "options": {
                "queue": SWEEPS_QUEUE,
                "expires": max(settings.beat_period * periods, 1.0),
                "ignore_result": True,
            },
        }
        for task, periods in _SWEEPS.items()
        for team in settings.served_teams
    }
