"""The sweep of turns where beat is silent: in the main process of every worker, whatever queues it reads.

It needs Redis and nothing else. So users are answered while beat is dead, while no worker reads the queue of sweeps or
each of its processes is busy with something long, and while the broker is away. One worker at a time stands in.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import structlog
from celery import bootsteps

from tellback.errors import TellbackError
from tellback.settings import load
from tellback.state.sweeps import Sweeps
from tellback.state.turns import Turns
from tellback_workers.runtime import Runtime
from tellback_workers.sweep_turns import QUIET, sweep_all
from tellback_workers.unknown_channels import bury_unknown

PAUSE: Final = 0.5  # after trouble; half of the shortest period that is worth having
LEAST: Final = 0.01  # between two looks
STOP_SECONDS: Final = 3.0

_log = structlog.get_logger("tellback.turns")


class Sweeper:
    """Sweeps the turns of the served teams when nobody else does, on one thread a team."""

    def __init__(self, runtime: Runtime) -> None:
        """Take connections that no other process shares."""
        self._runtime = runtime
        self._quiet = QUIET * runtime.settings.beat_period
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin to look; Redis may be away, then looking begins when it is back."""
        for team in self._runtime.settings.served_teams:
            thread = threading.Thread(target=self._run, name=f"tellback-sweeper-{team}", args=(team,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End the threads, waiting for them a little longer than a run takes."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(STOP_SECONDS)

    def stand_in(self, team: str) -> float:
        """Sweep if nobody has for a while; seconds until it is worth another look.

        Raises:
            Unavailable: Redis is away; every turn stays due.
        """
        database, layout = self._runtime.database, self._runtime.layout(team)
        sweeps = Sweeps(database, layout)
        left = sweeps.left()
        if left or not sweeps.claim(self._quiet):
            return max(min(left, self._quiet), LEAST)  # a server's clock that is set back makes the rest long
        turns = Turns(database, layout)
        while not sweep_all(turns, self._runtime.settings) and not self._stopping.is_set():
            sweeps.note(self._quiet)  # so many are overdue that a run was not enough: it stays ours
        sweeps.note(self._quiet)
        bury_unknown(database, layout, self._runtime.settings)  # what beat's sweep does besides
        return self._quiet

    def _run(self, team: str) -> None:
        while not self._stopping.is_set():
            pause = PAUSE
            try:
                pause = self.stand_in(team)
            except TellbackError as trouble:
                _log.warning("sweeper.postponed", team=team, reason=str(trouble))
            except Exception:  # noqa: BLE001 - the thread must outlive whatever Redis throws at it
                _log.exception("sweeper.postponed", team=team)
            self._stopping.wait(pause)


class SweeperStep(bootsteps.StartStopStep):
    """Runs a sweeper with the worker."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        """Called by Celery with the worker."""
        super().__init__(parent, **kwargs)
        self._sweeper: Sweeper | None = None

    def start(self, parent: Any) -> None:  # noqa: ARG002 - Celery's signature
        """Start with the worker, after its pool."""
        self._sweeper = Sweeper(Runtime(load()))
        self._sweeper.start()

    def stop(self, parent: Any) -> None:  # noqa: ARG002 - Celery's signature
        """Stop with the worker."""
        if self._sweeper is not None:
            self._sweeper.stop()

    terminate = stop
