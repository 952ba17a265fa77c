"""Says when a worker's pool will hold several copies of the embedding model, which is rarely meant."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import structlog
from celery import signals

from tellback.names import Family

MODEL_MB: Final = 700

_log = structlog.get_logger("tellback.models")


def copies(pool: str, concurrency: int, queues: Collection[str]) -> int:
    """Copies of the model that a worker may come to hold: threads share one, a pool's processes each load theirs."""
    serves = not {Family.SIGNALS.value, Family.RECALLS.value}.isdisjoint(queues)
    return (concurrency if "prefork" in pool else 1) if serves else 0


@signals.worker_ready.connect
def _ready(sender: Any, **_: object) -> None:
    pool = type(sender.pool).__module__
    expected = copies(pool, int(sender.controller.concurrency or 1), sender.app.amqp.queues.consume_from)
    if expected > 1:
        _log.warning(
            "model.copies",
            copies=expected,
            megabytes=expected * MODEL_MB,
            advice="serve signals and recalls by a worker of their own: -Q signals,recalls --pool threads",
        )
