"""A worker's signs of life, from the moment its consumer is ready until it shuts down; `tellback doctor` reads them."""

from __future__ import annotations

import os
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import structlog
from celery import signals

from tellback.errors import TellbackError
from tellback.settings import Settings, load
from tellback.state.presence import PERIOD, Presence, Worker
from tellback_workers.groups import described
from tellback_workers.model_copies import copies_of
from tellback_workers.runtime import Runtime

_log = structlog.get_logger("tellback.presence")


class SignsOfLife:
    """A thread of the worker's main process, with connections of its own."""

    def __init__(self, runtime: Runtime, worker: Worker) -> None:
        """Take connections that no other process shares, and what to say."""
        self._runtime = runtime
        self._worker = worker
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tellback-presence", daemon=True)

    def start(self) -> None:
        """Begin; Redis may be away, then they are given when it is back."""
        self._thread.start()

    def stop(self) -> None:
        """End, and say so to those who ask."""
        self._stopping.set()
        self._thread.join(PERIOD)
        for presence in self._presences():
            try:
                presence.gone(self._worker.name)
            except TellbackError as trouble:
                _log.debug("presence.not_withdrawn", reason=str(trouble))  # it runs out by itself

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                for presence in self._presences():
                    presence.here(self._worker)
            except TellbackError as trouble:
                _log.debug("presence.postponed", reason=str(trouble))
            except Exception:  # noqa: BLE001 - the thread must outlive whatever Redis throws at it
                _log.exception("presence.postponed")
            self._stopping.wait(PERIOD)

    def _presences(self) -> list[Presence]:
        runtime = self._runtime
        return [Presence(runtime.database, runtime.layout(team)) for team in runtime.settings.served_teams]


_running: Final[list[SignsOfLife]] = []


@signals.worker_ready.connect
def _ready(sender: Any, **_: object) -> None:
    if _running:  # the consumer was started again after the broker had been away
        return
    settings = load()
    worker = Worker(
        name=sender.hostname,
        host=settings.host_name,
        pid=os.getpid(),
        queues=tuple(sorted(sender.app.amqp.queues.consume_from)),
        version=version("tellback"),
        policy=_policy(settings),
        model_copies=copies_of(sender),
    )
    _running.append(SignsOfLife(Runtime(settings), worker))
    _running[0].start()


def _policy(settings: Settings) -> str:
    name = settings.command_policy
    return f"{Path(name).resolve()}; limits of memory and processes: {described()}" if name else "no policy file"


@signals.worker_shutdown.connect
def _shutdown(**_: object) -> None:
    while _running:
        _running.pop().stop()
