"""Celery's configuration of the broker, shared by the apps of workers and beat, with the reason of each choice."""

from __future__ import annotations

from typing import Any, Final

from tellback.names import SWEEPS_QUEUE
from tellback.settings import Settings

KEY_PREFIX: Final = "tbq:"  # the broker may share a Redis with the state: its keys stand apart


def broker_config(settings: Settings) -> dict[str, Any]:
    """Broker and message settings; JSON only."""
    return {
        "broker_url": settings.broker,
        "broker_transport_options": {
            "global_keyprefix": KEY_PREFIX,
            "visibility_timeout": 900,  # above the longest hard limit of a task that must not start twice
            "unacked_restore_interval": 5,  # with the defaults a redelivery after the visibility timeout takes 100 s
            "unacked_restore_throttle": 1,
            "socket_timeout": 10,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "health_check_interval": 15,
        },
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_channel_error_retry": True,  # a full or read-only Redis must not end the process
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_ignore_result": True,
        "task_default_queue": SWEEPS_QUEUE,
        "task_create_missing_queues": True,
        "timezone": "UTC",
        "enable_utc": True,
    }
