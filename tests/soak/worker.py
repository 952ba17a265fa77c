"""The workers' app with short lifetimes, for `celery -A tests.soak.worker`; with `SOAK_LEAK` each task leaks."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Final

from celery import Celery
from celery.signals import task_postrun

from tests.soak import LEAK
from tests.soak.lifetimes import shorten

LEAKED_BYTES: Final = 4_000_000

shorten()  # before the modules that read the lifetimes

app: Celery = import_module("tellback_workers.app").app
_leaked: list[object] = []


def _leak(**_: Any) -> None:
    _leaked.extend((os.urandom(LEAKED_BYTES), os.open(os.devnull, os.O_RDONLY)))


if LEAK in os.environ:
    task_postrun.connect(_leak, weak=False)
