"""Holding a command's lease while it runs: renewing it, hearing of a cancellation, stopping what may not go on."""

from __future__ import annotations

import math
import threading
from types import TracebackType
from typing import Final

from tellback import clock
from tellback.commands.runner import Control
from tellback.errors import Unavailable
from tellback.state.jobs import JobLease, Jobs
from tellback_workers.shutdown import shutting_down

# Of the lease: when to renew, when to stop what could not be renewed, when it is killed whatever happens here.
RENEW_AT, STOP_AT, KILL_AT = 0.3, 0.6, 0.85
QUICK: Final = 0.2  # seconds; most commands have ended by then and cost no thread and no connection for cancellations
LISTEN: Final = 0.5  # seconds of one blocking read; a cancellation ends it at once
PAUSE: Final = 0.2
SHUTDOWN_PATIENCE: Final = 3.0  # seconds that commands have to end by themselves when their worker is to stop
STOPPED: Final = "stopped: its worker was shut down"


class Hold:
    """A thread beside one command that is not quick, to the end of the `with` block; nobody waits for its end."""

    def __init__(self, jobs: Jobs, lease: JobLease, cwd: str, seconds: float) -> None:
        """Take the lease, where the command runs, and the lease's length."""
        self._jobs = jobs
        self._lease = lease
        self._cwd: str | None = cwd
        self._seconds = seconds
        self._renewed_at = lease.asked
        self._stop_at = math.inf
        self._ended = threading.Event()
        self._control = Control(after=QUICK, begin=self._begin)

    def __enter__(self) -> Control:
        """What reaches the command."""
        return self._control

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The command has ended."""
        self._ended.set()
        self._control.close()

    def _begin(self) -> None:
        threading.Thread(target=self._run, name="job-lease", daemon=True).start()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._heed_shutdown()
                self._tell_cwd()
                if self._jobs.stop_requested(self._lease, LISTEN):
                    self._control.stop("cancelled")
                    self._ended.wait(LISTEN)  # the request stays until the record is stored
                if not self._ended.is_set() and clock.monotonic() >= self._renewed_at + self._seconds * RENEW_AT:
                    self._renew()
            except Unavailable:
                if clock.monotonic() >= self._renewed_at + self._seconds * STOP_AT:
                    self._control.stop("the lease could not be renewed: Redis is away")
                self._ended.wait(PAUSE)

    def _tell_cwd(self) -> None:
        """For the record of a loss; most commands have ended before that is worth a round trip."""
        if self._cwd is not None:
            self._jobs.starts_in(self._lease, self._cwd)
            self._cwd = None

    def _heed_shutdown(self) -> None:
        now = clock.monotonic()
        if shutting_down():
            self._stop_at = min(self._stop_at, now + SHUTDOWN_PATIENCE)
        if now >= self._stop_at:
            self._control.stop(STOPPED)

    def _renew(self) -> None:
        asked = clock.monotonic()
        if self._jobs.renew(self._lease, self._seconds):
            self._renewed_at = asked
            self._control.renewed(self._seconds * KILL_AT - (clock.monotonic() - asked))
        else:
            self._control.stop("the lease was lost: this command was declared lost while it ran")
            self._ended.wait(LISTEN)
