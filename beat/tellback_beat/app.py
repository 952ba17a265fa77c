"""The Celery app of beat, for `celery -A tellback_beat.app beat`, and the tick that it sends.

It defines no task; workers run the scheduler at each tick. A tick is safe to run twice, so two beats need no lock
(requirement A-72).
"""

from __future__ import annotations

from typing import Any

from celery import Celery, signals

from tellback.broker import broker_config, exiting_on_wrong_settings
from tellback.names import SWEEPS_QUEUE, Task
from tellback.process_privacy import forbid_dumps
from tellback.settings import Settings, load
from tellback.unknown_variables import log_unknown_variables


@signals.beat_init.connect
def _name_unknown_variables(**_: object) -> None:
    log_unknown_variables()


@signals.beat_init.connect
def _forbid_dumps(**_: object) -> None:
    forbid_dumps()  # commands may run on this host as this user


def schedule(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return Celery's `beat_schedule`: the one tick of the scheduler, whatever teams there are."""
    return {
        Task.VISIT_TEAMS.value: {
            "task": Task.VISIT_TEAMS.value,
            "schedule": settings.beat_period,
            "options": {
                "queue": SWEEPS_QUEUE,
                # The next tick does the same work, so a queue without workers does not collect old ones.
                "expires": max(settings.beat_period, 1.0),
                "ignore_result": True,
            },
        }
    }


app = Celery("tellback")

with exiting_on_wrong_settings():
    _settings = load()
    app.conf.update(broker_config(_settings), beat_schedule=schedule(_settings))
