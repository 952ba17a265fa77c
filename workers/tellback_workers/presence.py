"""The heartbeat of a worker's presence, from when its Celery consumer is ready until it shuts down.

`tellback doctor` and the sweep of commands for absent hosts read it. Each heartbeat also loads the Lua scripts that
Redis lacks, since hosts may be users who can only run them. Requirement A-94.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
from celery import signals
from redis import exceptions

from tellback.embedding.encoder import encoder_for
from tellback.errors import TellbackError, Unavailable
from tellback.settings import Settings, load
from tellback.state.all_scripts import all_scripts
from tellback.state.presence import HEARTBEAT_SECONDS, PreloadState, Presence, Worker
from tellback.state.server_info import read_eviction
from tellback.state.unavailable import NotPermitted
from tellback_workers.celery_signals import copies_of, count_rejections
from tellback_workers.cgroup_parent import describe_limits
from tellback_workers.repeated_lines import RepeatedLines
from tellback_workers.runtime import Runtime

_logger = structlog.get_logger("tellback.presence")


class ModelPreload:
    """Loads the embedding model at a worker's start, so that no first signal or recall waits for it. Requirement A-129.

    It takes half a minute on a busy machine, and longer than the deadline of a recall almost anywhere. Tasks that need
    the model wait for the same load.
    """

    def __init__(self, settings: Settings, *, wanted: bool) -> None:
        self._settings = settings
        self._state: PreloadState = "loading" if wanted else ""

    @property
    def state(self) -> PreloadState:
        """The state of the model; `loaded` also if a signal or a recall has loaded it after a failure."""
        if self._state == "failed" and encoder_for(self._settings).dimension:
            self._state = "loaded"
        return self._state

    def start(self, *, then: Callable[[], None]) -> None:
        """Begin, if it is wanted, and call `then` when the state has changed."""
        if self._state:
            threading.Thread(target=self._load, args=(then,), name="tellback-model-preload", daemon=True).start()

    def _load(self, then: Callable[[], None]) -> None:
        try:
            encoder_for(self._settings).load()
        except Unavailable as error:  # the first signal or recall tries again
            _logger.error("encoder.failed", reason=str(error))  # noqa: TRY400 - its text says what is wrong
            self._state = "failed"
        else:
            self._state = "loaded"
        then()


class PresenceHeartbeat:
    """A thread of the worker's main process that announces the worker, over connections of its own."""

    def __init__(self, runtime: Runtime, worker: Worker, preload: ModelPreload) -> None:
        self._runtime = runtime
        self._worker = worker
        self._preload = preload
        self._presence = Presence(runtime.database, runtime.settings.team)
        self._lines = RepeatedLines()
        self._stopping = threading.Event()
        self._due = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tellback-presence", daemon=True)

    def start(self) -> None:
        """Start the thread; while Redis is unavailable it retries."""
        self._thread.start()
        self._preload.start(then=self._due.set)

    def stop(self) -> None:
        """Stop the thread and withdraw the worker's presence."""
        self._stopping.set()
        self._due.set()
        self._thread.join(HEARTBEAT_SECONDS)
        try:
            self._presence.withdraw(self._worker.name)
        except TellbackError as trouble:
            _logger.debug("presence.not_withdrawn", reason=str(trouble))  # it expires by itself

    def _run(self) -> None:
        is_warned = False
        while not self._stopping.is_set():
            self._load_scripts()
            is_warned = is_warned or self._warn_of_eviction()
            try:
                worker = msgspec.structs.replace(self._worker, rejected=count_rejections(), preload=self._preload.state)
                self._presence.announce(worker)
            except TellbackError as trouble:
                _logger.debug("presence.postponed", reason=str(trouble))
            except Exception:  # the thread must survive every error of Redis
                _logger.exception("presence.postponed")
            self._due.wait(HEARTBEAT_SECONDS)
            if not self._stopping.is_set():
                self._due.clear()

    def _load_scripts(self) -> None:
        """Load what Redis lacks: a restart or a failover forgets all scripts.

        The next heartbeat tries again. While Redis is away, the worker's loops log it.
        """
        try:
            self._runtime.database.load_scripts(all_scripts())
        except (TellbackError, exceptions.RedisError) as trouble:
            is_away = isinstance(trouble, Unavailable) and not isinstance(trouble, NotPermitted)
            if not is_away and self._lines.is_due("scripts.not_loaded", str(trouble)):
                _logger.error("scripts.not_loaded", reason=str(trouble))  # noqa: TRY400 - its text says what is wrong

    def _warn_of_eviction(self) -> bool:
        """Log which servers may evict keys; return True if they could be asked."""
        try:
            found = read_eviction(self._runtime.database).policies
        except (TellbackError, exceptions.RedisError) as trouble:
            _logger.debug("eviction.unknown", reason=str(trouble))  # the next heartbeat tries again
            return False
        for node, policy in found.items():
            advice = "it may delete events and answers that wait: set `maxmemory-policy noeviction`"
            _logger.error("redis.evicts", policy=policy, node=node, advice=advice)
        return True


_running: Final[list[PresenceHeartbeat]] = []


@signals.worker_ready.connect
def _ready(sender: Any, **_: object) -> None:
    if _running:  # Celery restarts its consumer, and sends this signal again, after each loss of the broker
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
        teams=settings.served_teams,
    )
    preload = ModelPreload(settings, wanted=settings.model_preload and worker.model_copies == 1)
    _running.append(PresenceHeartbeat(Runtime(settings), worker, preload))
    _running[0].start()


def _policy(settings: Settings) -> str:
    name = settings.command_policy
    return f"{Path(name).resolve()}; limits of memory and processes: {describe_limits()}" if name else "no policy file"


@signals.worker_shutdown.connect
def _shutdown(**_: object) -> None:
    while _running:
        _running.pop().stop()
