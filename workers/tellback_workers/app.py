"""The Celery app of the workers: `celery -A tellback_workers.app worker -E`."""

from __future__ import annotations

from celery import Celery, signals

from tellback.settings import load
from tellback_workers import collecting, groups, lifeline, model_copies, policy_file, presence, provider_check
from tellback_workers.config import config
from tellback_workers.dispatcher import DispatcherStep
from tellback_workers.log import configure
from tellback_workers.sweeper import SweeperStep

__all__ = [
    "app",
    "collecting",
    "groups",
    "lifeline",
    "model_copies",
    "policy_file",
    "presence",
    "provider_check",
]  # the seven connect themselves to Celery's signals

app = Celery(
    "tellback",
    include=[
        "tellback_workers.tasks",
        "tellback_workers.looks",
        "tellback_workers.sweep_turns",
        "tellback_workers.jobs",
        "tellback_workers.sweep_jobs",
        "tellback_workers.decay",
    ],
)
app.conf.update(config(load()))
app.steps["worker"].add(DispatcherStep)
app.steps["worker"].add(SweeperStep)
app.set_default()


@signals.setup_logging.connect
def _logging(loglevel: int, **_: object) -> None:
    configure(loglevel)
