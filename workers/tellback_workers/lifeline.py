"""Pool children end with their worker: a busy one would not notice by itself that a SIGKILL took its parent."""

from __future__ import annotations

from billiard.process import current_process
from celery import signals

from tellback.up.launch import die_with_parent


@signals.worker_process_init.connect
def _tie(**_: object) -> None:
    if current_process().name != "MainProcess":  # the solo pool sends this too, and whoever started it may end
        die_with_parent()
