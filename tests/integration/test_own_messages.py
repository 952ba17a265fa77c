"""Every message that a worker or beat sends is one that the check of broker messages lets pass."""

from __future__ import annotations

import inspect
import json
from typing import Any, Final

import pytest
from celery import Celery

from tellback.broker import KEY_PREFIX
from tellback.broker_transport import check_envelope, check_task
from tellback.names import Family, Task
from tellback.state.database import Database
from tellback_workers.app import app as worker_app

SAMPLES: Final[dict[str, Any]] = {
    "team": "default",
    "streams": [["default", 3], ["acme", 0]],
    "shard_index": 3,
    "family_name": Family.EVENTS.value,
    "pool": "*",
    "token": "fdbe5869c87dea3c",
}


def possible_arguments(task: str) -> list[list[Any]]:
    """The arguments that the task's function takes: the required ones, then with each optional one more."""
    parameters = list(inspect.signature(worker_app.tasks[task].run).parameters.values())
    required = sum(one.default is inspect.Parameter.empty for one in parameters)
    values = [SAMPLES[one.name] for one in parameters]
    return [values[:count] for count in range(required, len(values) + 1)]


@pytest.mark.parametrize("task", list(Task))
def test_each_form_of_a_task_passes_the_check(task: Task, app: Celery, database: Database) -> None:
    """The message with which a decay continues was rejected: it worked for one second in each lease of 30 only."""
    worker_app.loader.import_default_modules()
    forms = possible_arguments(task.value)
    assert forms
    for arguments in forms:
        app.send_task(task.value, arguments, queue="probe", ignore_result=True)
    raws = database.command("LRANGE", f"{KEY_PREFIX}probe", 0, -1)
    assert len(raws) == len(forms)
    for raw in map(json.loads, raws):
        check_envelope(raw)
        check_task(raw)
    database.command("DEL", f"{KEY_PREFIX}probe", f"{KEY_PREFIX}_kombu.binding.probe")
