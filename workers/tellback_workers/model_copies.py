"""Says when a worker's pool will hold several copies of the embedding model, which is rarely meant."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import structlog
from celery import signals

from tellback.names import Family
from tellback.state.presence import MODEL_ADVICE, MODEL_MB

_log = structlog.get_logger("tellback.models")


def copies(pool: str, concurrency: int, queues: Collection[str]) -> int:
    """Copies of the model that a worker may come to hold: threads share one, a pool's processes each load theirs."""
    serves = not {Family.SIGNALS.value, Family.RECALLS.value}.isdisjoint(queues)
    return (concurrency if "prefork" in pool else 1) if serves else 0


def copies_of(consumer: Any) -> int:
    """`copies` of the worker whose consumer Celery says is ready."""
    concurrency = int(consumer.controller.concurrency or 1)
    return copies(type(consumer.pool).__module__, concurrency, consumer.app.amqp.queues.consume_from)


@signals.worker_ready.connect
def _ready(sender: Any, **_: object) -> None:
    expected = copies_of(sender)
    if expected > 1:
        _log.warning(
            "model.copies",
            copies=expected,
            megabytes=expected * MODEL_MB,
            advice=MODEL_ADVICE,
        )
