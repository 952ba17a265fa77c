"""The dispatcher: hears of new entries and publishes wake-ups.

A step of the *worker* blueprint: consumer steps restart with each broker reconnect and leak what they started. It has
Redis clients of its own, in the worker's main process, before and beside the pool.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import structlog
from celery import Celery, bootsteps

from tellback import clock
from tellback.errors import TellbackError
from tellback.settings import load
from tellback.state.intake import Place
from tellback.state.keys import Layout, Shard
from tellback_workers.runtime import Runtime
from tellback_workers.wakeups import wake, wake_idle, wake_looks

BLOCK_MS: Final = 1_000
DEAF_MS: Final = 25  # what comes when the attending drainer has just gone waits for as long
PAUSE: Final = 0.5
STOP_SECONDS: Final = 3.0

_log = structlog.get_logger("tellback.dispatcher")


class Dispatcher:
    """Listens to every stream of the served teams, on one thread a team, and one a shard on a Redis Cluster."""

    def __init__(self, app: Celery, runtime: Runtime) -> None:
        """Take the app that publishes and connections that no other process shares."""
        self._app = app
        self._runtime = runtime
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._split_teams: set[str] = set()

    def start(self) -> None:
        """Begin to listen; Redis may be away, then listening begins when it is back."""
        for team in self._runtime.settings.served_teams:
            self._spawn(f"dispatcher-{team}", team, None)

    def stop(self) -> None:
        """End the threads, waiting for them a little longer than they block."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(STOP_SECONDS)

    def _spawn(self, name: str, team: str, shard: Shard | None) -> None:
        thread = threading.Thread(target=self._run, name=f"tellback-{name}", args=(team, shard), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, team: str, shard: Shard | None) -> None:
        while not self._stopping.is_set():
            try:
                self._listen(team, shard)
            except TellbackError as trouble:
                _log.warning("dispatcher.retry", team=team, reason=str(trouble))
            except Exception:  # noqa: BLE001 - the thread must outlive whatever the broker or Redis throw at it
                _log.exception("dispatcher.retry", team=team)
            self._stopping.wait(PAUSE)

    def _listen(self, team: str, shard: Shard | None) -> None:
        intake, layout = self._runtime.intake(team), self._runtime.layout(team)
        intake.ensure_groups()
        shards = self._split(layout) if shard is None else (shard,)
        next_look = 0.0
        deaf: dict[Place, float] = {}  # until when: whoever attends to a stream hears of what comes without us
        while not self._stopping.is_set():
            deaf = {place: until for place, until in deaf.items() if until > clock.monotonic()}
            for place in intake.listen(shards, DEAF_MS if deaf else BLOCK_MS, deaf):
                if wake(self._app, intake, *place) == "attended":
                    deaf[place] = clock.monotonic() + DEAF_MS / 1000
            if shard in (None, layout.shard(0)) and clock.monotonic() >= next_look:
                wake_idle(self._app, intake)
                wake_looks(self._app, intake, self._runtime.database, layout)
                next_look = clock.monotonic() + self._runtime.settings.beat_period

    def _split(self, layout: Layout) -> tuple[Shard, ...]:
        """The shards that this thread keeps; on a cluster, where a read stays in one slot, others get their own."""
        if not self._runtime.database.is_cluster():
            return layout.all
        if layout.team not in self._split_teams:
            self._split_teams.add(layout.team)
            for other in layout.all[1:]:
                self._spawn(f"dispatcher-{layout.team}.{other.index}", layout.team, other)
        return layout.all[:1]


class DispatcherStep(bootsteps.StartStopStep):
    """Runs a dispatcher with the worker."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        """Called by Celery with the worker."""
        super().__init__(parent, **kwargs)
        self._dispatcher: Dispatcher | None = None

    def start(self, parent: Any) -> None:
        """Start with the worker, after its pool."""
        self._dispatcher = Dispatcher(parent.app, Runtime(load()))
        self._dispatcher.start()

    def stop(self, parent: Any) -> None:  # noqa: ARG002 - Celery's signature
        """Stop with the worker."""
        if self._dispatcher is not None:
            self._dispatcher.stop()

    terminate = stop
