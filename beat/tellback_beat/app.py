"""The Celery app of beat, for `celery -A tellback_beat.app beat`, and the periodic tasks that it sends.

It defines no tasks; workers run what it sends. Each one is safe to run twice, so two beats need no lock (requirement
A-72).
"""

from __future__ import annotations

from typing import Any, Final

from celery import Celery, signals

from tellback.broker import broker_config
from tellback.names import SWEEPS_QUEUE, Task
from tellback.process_privacy import forbid_dumps
from tellback.settings import Settings, load

# The weekly decay is checked once a minute by default: a check that finds nothing to do is two round trips.
DECAY_PERIODS: Final = 30

_TASK_PERIODS: Final = {Task.WAKE_STREAMS: 1, Task.SWEEP_TURNS: 1, Task.SWEEP_JOBS: 1, Task.DECAY: DECAY_PERIODS}


@signals.beat_init.connect
def _forbid_dumps(**_: object) -> None:
    forbid_dumps()  # commands may run on this host as this user


def schedule(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return Celery's `beat_schedule`, with each sweep once for each team."""
    # The decay is not a crontab entry: beat or all workers may be down at the moment when a week begins.
    return {
        f"{task}:{team}": {
            "task": task.value,
            "schedule": settings.beat_period * periods,
            "args": (team,),
            "options": {
                "queue": SWEEPS_QUEUE,
                # The next sweep does the same work, so a queue without workers does not collect old ones.
                "expires": max(settings.beat_period * periods, 1.0),
                "ignore_result": True,
            },
        }
        for task, periods in _TASK_PERIODS.items()
        for team in settings.served_teams
    }


_settings = load()

app = Celery("tellback")

app.conf.update(broker_config(_settings), beat_schedule=schedule(_settings))
