"""A worker whose pool will hold several copies of the model says so when it is ready."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from celery.concurrency.prefork import TaskPool as Prefork
from celery.concurrency.thread import TaskPool as Threads
from structlog.testing import capture_logs

from tellback_workers import celery_signals
from tellback_workers.celery_signals import model_copies


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
