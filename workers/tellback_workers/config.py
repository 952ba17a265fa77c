"""Celery's configuration of the workers; the reasons stand beside each choice."""

from __future__ import annotations

from typing import Any, Final

from kombu import Queue

from tellback.broker import broker_config
from tellback.names import SWEEPS_QUEUE, Family, Task, host_queue
from tellback.settings import Settings

DRAIN_LIMIT: Final = 120  # seconds; a drain ends by itself after half its lease, this ends one that hangs


def queues(settings: Settings) -> list[Queue]:
    """Every queue that a worker of this host reads when none is named."""
    return [Queue(name) for name in (*map(str, Family), SWEEPS_QUEUE, host_queue(settings.host_name))]


def config(settings: Settings) -> dict[str, Any]:
    """Settings of the workers' app."""
    return broker_config(settings) | {
        "task_queues": queues(settings),
        "task_routes": {Task.RING.value: {"queue": SWEEPS_QUEUE}},
        "task_acks_late": True,
        "task_reject_on_worker_lost": False,  # True would loop a task that kills its child; streams and sweeps recover
        "task_time_limit": DRAIN_LIMIT,
        "task_soft_time_limit": DRAIN_LIMIT - 10,
        "worker_send_task_events": True,
        "worker_prefetch_multiplier": 1,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_soft_shutdown_timeout": 30,
        "worker_enable_soft_shutdown_on_idle": True,
    }
