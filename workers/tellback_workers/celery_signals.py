"""Handlers of Celery's signals over a worker's life: start-up checks, pool children, shutdown.

A worker with unusable providers, systems or settings refuses to start, because it would fail every batch later. Celery
reports a shutdown to the main process only, and that process waits for running tasks without a limit, while a command
may take an hour. So the pool children watch a byte of memory shared across the fork; when it is set, they stop.

An unnamed file, which pool processes inherit, holds a byte for each broker message that this worker rejected; its
presence reports the count. Appending a byte needs no lock, and a lock could be left behind by a killed process.
"""

from __future__ import annotations

import gc
import mmap
import os
from collections.abc import Collection
from tempfile import TemporaryFile
from typing import IO, Any, Final

import structlog
from billiard.process import current_process
from celery import signals

from tellback.broker import exiting_on_wrong_settings
from tellback.broker_transport import on_rejected
from tellback.errors import ConfigurationError, InvalidInput
from tellback.guidance.registry import load_registry
from tellback.names import Family
from tellback.process_privacy import forbid_dumps
from tellback.settings import PREFIX, Settings, load
from tellback.state.database import Database
from tellback.state.presence import MODEL_ADVICE, MODEL_MB
from tellback.tracing import WORKER, tracing_of
from tellback.unknown_variables import log_unknown_variables
from tellback.up.launch import die_with_parent
from tellback_workers.isolation import pipeline_of


@signals.celeryd_init.connect
def _forbid_dumps(**_: object) -> None:
    forbid_dumps()  # pool processes inherit it; commands, which run as this user, do not


@signals.worker_init.connect
@signals.worker_process_init.connect
def _freeze_objects(**_: object) -> None:
    # Inherited objects live as long as the process, so the collector need not scan them again and again. In the main
    # process, before it forks: a scan writes to each object, and so copies the pages that its pool's processes share;
    # visits of many teams made it take 22 MB.
    gc.freeze()


@signals.worker_process_init.connect
def _die_with_worker(**_: object) -> None:
    # A busy child does not notice a SIGKILL of its worker. Celery asks for this too, but not if the worker is still
    # there, so nothing ended a child that was forked as the worker died and that hung. The solo pool sends this signal
    # from the main process, whose parent is a shell that may exit.
    if current_process().name != "MainProcess":
        die_with_parent(_worker_pid[-1])


@signals.worker_process_shutdown.connect
def _export_spans(**_: object) -> None:
    tracing = tracing_of(load(), WORKER)  # a pool process ends without `atexit`
    if tracing is not None:
        tracing.close()


_stopping: Final = mmap.mmap(-1, 1)  # made at import, before the pool forks


@signals.worker_shutting_down.connect
def _note_shutdown(**_: object) -> None:
    _stopping[0] = 1


def shutting_down() -> bool:
    """Return True once the worker was asked to stop; pool children see it too."""
    return _stopping[0] != 0


_logger = structlog.get_logger("tellback.models")


def model_copies(pool: str, concurrency: int, queues: Collection[str]) -> int:
    """Return how many copies of the model a worker may load: one for all threads, or one for each pool process."""
    serves = not {Family.SIGNALS.value, Family.RECALLS.value}.isdisjoint(queues)
    return (concurrency if "prefork" in pool else 1) if serves else 0


def copies_of(consumer: Any) -> int:
    """Return `model_copies` for the worker of a Celery consumer, as the signal `worker_ready` passes it."""
    concurrency = int(consumer.controller.concurrency or 1)
    return model_copies(type(consumer.pool).__module__, concurrency, consumer.app.amqp.queues.consume_from)


@signals.worker_ready.connect
def _warn_of_copies(sender: Any, **_: object) -> None:
    log_unknown_variables()  # not earlier, since Celery sets up the log after it has checked the settings
    expected = copies_of(sender)
    if expected > 1:  # rarely intended: each copy takes MODEL_MB of memory
        _logger.warning(
            "model.copies",
            copies=expected,
            megabytes=expected * MODEL_MB,
            advice=MODEL_ADVICE,
        )


def _check_places(settings: Settings) -> None:
    _ = settings.data_path  # raises for a user without a home directory
    try:
        Database(settings.redis_url).close()
    except ConfigurationError as error:
        raise ConfigurationError(f"{PREFIX}REDIS_URL: {error}") from None


@signals.celeryd_init.connect
def _check_settings(**_: object) -> None:
    with exiting_on_wrong_settings():
        settings = load()
        _check_places(settings)
        tracing_of(settings, WORKER)
        load_registry(settings.providers)  # also fails when two packages register a provider under one name
        pipeline_of(settings, custom=True)


_worker_pid: Final[list[int]] = []  # the worker's process id
_rejections: Final[list[IO[bytes]]] = []


def count_rejections() -> int:
    """Return the number of messages rejected since the worker started."""
    return os.fstat(_rejections[0].fileno()).st_size if _rejections else 0


def _count_rejection(**_: object) -> None:
    if _rejections:
        _rejections[0].write(b"x")


@signals.worker_init.connect
def _prepare_worker(**_: object) -> None:
    _worker_pid.append(os.getpid())
    _rejections.append(TemporaryFile("ab", buffering=0))  # noqa: SIM115 - open until the process ends
    on_rejected.append(_count_rejection)
    signals.task_rejected.connect(_count_rejection)
    signals.task_unknown.connect(_count_rejection)


@signals.task_failure.connect
def _count_impossible_task(exception: Any = None, **_: object) -> None:
    # The arguments had the right types but named an impossible shard, so only the task could reject them. A team that
    # does not exist (`NotFound`) is no sign of another writer: wake-ups outlive a team that was removed or evicted.
    if isinstance(exception, InvalidInput):
        _count_rejection()
