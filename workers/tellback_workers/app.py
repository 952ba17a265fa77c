"""The Celery app of the workers, for `celery -A tellback_workers.app worker -E`, and its configuration."""

from __future__ import annotations

import sys
from typing import Any, Final

from celery import Celery, signals
from kombu import Queue

from tellback.broker import broker_config, exiting_on_wrong_settings
from tellback.names import SWEEPS_QUEUE, Family, Task, host_queue
from tellback.process_privacy import forbid_dumps
from tellback.settings import Settings, load
from tellback_workers import celery_signals, cgroup_parent, policy_file, presence
from tellback_workers.dispatcher import DispatcherStep
from tellback_workers.log import configure

CONSUME_TIME_LIMIT: Final = 120  # seconds; a consumer returns after half its lease, so this only ends one that hangs


def queues(settings: Settings) -> list[Queue]:
    """Return the queues that a worker of this host reads if you start it without `-Q`."""
    return [Queue(name) for name in (*map(str, Family), SWEEPS_QUEUE, host_queue(settings.host_name))]


def config(settings: Settings) -> dict[str, Any]:
    """Return the configuration of the workers' app."""
    return broker_config(settings) | {
        "task_queues": queues(settings),
        "task_routes": {Task.VISIT_TEAMS.value: {"queue": SWEEPS_QUEUE}},
        "task_acks_late": True,
        "task_reject_on_worker_lost": False,  # True would loop a task that kills its child; streams and sweeps recover
        "task_time_limit": CONSUME_TIME_LIMIT,
        "task_soft_time_limit": CONSUME_TIME_LIMIT - 10,
        "worker_send_task_events": True,
        # A prefetched wake-up would wait behind a long task although another process is free.
        "worker_prefetch_multiplier": 1,
        # With fewer after a lost connection, a worker that has one task at work may take no other message for minutes.
        "worker_enable_prefetch_count_reduction": False,
        # Effects are committed to the state's Redis under a fence; losing the broker does not invalidate them.
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_soft_shutdown_timeout": 30,
        "worker_enable_soft_shutdown_on_idle": True,
    }


def _protect_flower() -> None:
    """In the process of Flower, ask for its password at `/metrics` too, and forbid dumps.

    Flower leaves that page open, and it names workers and tasks. Its environment has the broker's login.
    """
    page: Any = getattr(sys.modules.get("flower.views.monitor"), "Metrics", None)
    if page is not None:
        page.prepare = _authenticate
        forbid_dumps()


def _authenticate(request: Any) -> None:
    _ = request.current_user  # raises 401 if there is a password and the request has another or none


# Importing the other modules is enough: each connects its handlers to Celery's signals.
__all__ = [
    "app",
    "celery_signals",
    "cgroup_parent",
    "policy_file",
    "presence",
]

app = Celery(
    "tellback",
    include=[
        "tellback_workers.tasks",
        "tellback_workers.due_timers",
        "tellback_workers.scheduler",
        "tellback_workers.jobs",
        "tellback_workers.decay",
    ],
)

with exiting_on_wrong_settings():
    app.conf.update(config(load()))

app.steps["worker"].add(DispatcherStep)

app.set_default()

_protect_flower()


@signals.setup_logging.connect
def _configure_logging(loglevel: int, **_: object) -> None:
    configure(loglevel, as_json=load().log_json)
