"""The start of a worker: it says that its pool will hold several copies of the model, and freezes objects."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from celery.concurrency.prefork import TaskPool as Prefork
from celery.concurrency.thread import TaskPool as Threads
from structlog.testing import capture_logs

from tellback_workers import celery_signals
from tellback_workers.celery_signals import model_copies
from tests.support.processes import run_program


@pytest.mark.parametrize(
    ("pool", "concurrency", "queues", "expected"),
    [
        (Prefork, 8, ("events", "signals"), 8),
        (Prefork, 2, ("recalls",), 2),
        (Prefork, 1, ("signals", "recalls"), 1),
        (Threads, 8, ("signals", "recalls"), 1),
        (Prefork, 8, ("events", "turns"), 0),
    ],
)
def test_processes_have_a_copy_each_and_threads_share_one(
    pool: type, concurrency: int, queues: tuple[str, ...], expected: int
) -> None:
    assert model_copies(pool.__module__, concurrency, queues) == expected
    ready = SimpleNamespace(
        pool=object.__new__(pool),
        controller=SimpleNamespace(concurrency=concurrency),
        app=SimpleNamespace(amqp=SimpleNamespace(queues=SimpleNamespace(consume_from=dict.fromkeys(queues)))),
    )
    assert celery_signals.copies_of(ready) == expected
    with capture_logs() as logs:
        celery_signals._warn_of_copies(ready)
    assert [entry["copies"] for entry in logs] == ([expected] if expected > 1 else [])


# In a process of its own, because handlers of a worker's start stay.
PROGRAM = """
import gc
from celery import signals
import tellback_workers.celery_signals
signals.{signal}.send(sender=None)
print(gc.get_freeze_count())
"""


@pytest.mark.programs
@pytest.mark.parametrize("signal", ["worker_init", "worker_process_init"])
def test_no_process_of_a_worker_scans_what_it_was_born_with(signal: str) -> None:
    program = [sys.executable, "-c", PROGRAM.format(signal=signal)]
    assert int(run_program(program, check=True).stdout) > 1_000
