"""The Celery app of beat, for `celery -A tellback_beat.app beat`, and the tick that it sends.

It defines no task; workers run the scheduler at each tick. A tick is safe to run twice, so two beats need no lock
(requirement A-72).
"""

from __future__ import annotations

import logging
from typing import Any

from celery import Celery, signals
from celery.beat import SchedulingError
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

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


class TickFailures(logging.Filter):
    """Shortens what Celery logs of a tick that the broker did not take to one line.

    It is a page of stacks at each period, while the broker is away or full.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep each line, and a traceback of any other cause."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, SchedulingError) and isinstance(error.__context__, (KombuError, RedisError, OSError)):
            record.msg, record.args, record.exc_info = "beat: %s The next tick does the same work.", (error,), None
        return True


_tick_failures = TickFailures()


@signals.beat_init.connect
def _shorten_failures(**_: object) -> None:
    logging.getLogger("celery.beat").addFilter(_tick_failures)  # once, however often beat starts in this process


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
