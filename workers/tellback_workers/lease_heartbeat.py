"""The heartbeat of a running command: it renews the lease, waits for a cancellation, and stops the command if it must.

The command must stop if it was cancelled, if its worker shuts down, or if its lease could not be renewed in time.

Redis cannot tell a dead worker from one that is cut off, and a worker cannot tell a dead Redis from a cut link. So each
side counts for itself from the last renewal, and these inequalities keep two attempts apart:

    on_lost="retry":   stop < kill < lease    the command is dead before Redis lets the next attempt begin
    on_lost="record":  lease <= stop < kill   no other attempt begins, so the loss is recorded early

    stop = TELLBACK_JOB_LEASE + TELLBACK_COMMAND_REDIS_WAIT    TERM, by the worker
    kill = stop + TELLBACK_COMMAND_GRACE + spare               KILL, by the supervisor, whatever the worker does

The price is that the retry of a killed worker's command waits for as long as a cut-off worker could run it. The
alternative kills every healthy command whenever Redis is unavailable for longer than a short lease: 0.1.0 did so after
six seconds.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import Final, Self

import structlog

from tellback import clock
from tellback.commands.control import CommandControl
from tellback.contracts.commands import OnLost
from tellback.errors import Unavailable
from tellback.settings import Settings
from tellback.state.job_claims import JobLease
from tellback.state.jobs import Jobs
from tellback.state.redis_py import SOCKET_TIMEOUT
from tellback_workers.celery_signals import shutting_down

# All are fractions of TELLBACK_JOB_LEASE.
RENEW_AT: Final = 0.3  # two renewals may fail before the lease ends

START_UNTIL: Final = 0.85  # a command that has not started by then is not started: it may be declared lost any moment

SPARE: Final = 0.2  # between stop, kill and the end in Redis, for a busy host


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Times of one command, in seconds since its last renewal was requested."""

    renew: float
    start: float  # the latest start
    stop: float
    kill: float
    lease: float
    exclusive: bool  # another attempt may begin when the lease ends

    @classmethod
    def of(cls, settings: Settings, on_lost: OnLost) -> LeaseTimes:
        """Return the times of a command. `Settings` checks the bounds at load time, so the inequalities hold."""
        exclusive = on_lost == "retry"
        spare = settings.job_lease * SPARE
        stop = settings.job_lease + settings.command_redis_wait
        kill = stop + settings.command_grace + spare
        lease = kill + spare if exclusive else settings.job_lease
        return cls(settings.job_lease * RENEW_AT, settings.job_lease * START_UNTIL, stop, kill, lease, exclusive)


# Seconds. Most commands have ended by then, and cost neither a thread nor a connection that waits for cancellations.
START_AFTER: Final = 0.2

# Seconds. A record that is sent on a connection that fell silent is sent again after the general timeout. Without a
# heartbeat only leases from here on outlast that; a shorter one is renewed from the start.
ENOUGH: Final = 1.2 * SOCKET_TIMEOUT

POLL_SECONDS: Final = 0.5  # of one blocking read; a cancellation ends it at once

BACKOFF: Final = 0.2  # seconds

SHUTDOWN_GRACE: Final = 3.0  # seconds that a command has to end by itself when its worker shuts down

SHUTDOWN_REASON: Final = "stopped: its worker was shut down"

NOT_RENEWED: Final = (
    "stopped: its lease could not be renewed, since Redis was away for longer than TELLBACK_COMMAND_REDIS_WAIT"
)

DECLARED_LOST: Final = "the lease was lost: this command was declared lost while it ran"

_logger = structlog.get_logger("tellback.jobs")


class LeaseHeartbeat:
    """A thread that runs beside one command until the `with` block ends.

    Quick commands do not start it, unless their lease is shorter than `ENOUGH`.

    After an outage a lease is renewed late, unless the command was declared lost meanwhile. The command is stopped only
    when a renewal that began after the deadline fails, so a host that slept tries to renew first.
    """

    def __init__(self, jobs: Jobs, lease: JobLease, times: LeaseTimes) -> None:
        """Set up the heartbeat; calls of `jobs` must fail fast, or one lost reply of them costs the lease."""
        self.cwd = ""  # the command's directory; '' again once Redis has it
        self.times = times
        self.control = CommandControl(after=START_AFTER, begin=self._begin)
        self._jobs = jobs
        self._lease = lease
        self._renewed_at = lease.asked
        self._failing_since = math.inf
        self._stop_at = math.inf
        self._ended = threading.Event()
        self._begun = False

    def __enter__(self) -> Self:
        if self.times.lease < ENOUGH:
            self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        # The thread is not joined: it may be in a blocking read, and the record should not wait for that.
        self._ended.set()
        self.control.close()

    def _begin(self) -> None:
        if self._begun:
            return
        self._begun = True
        threading.Thread(target=self._run, name="job-lease", daemon=True).start()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._check_shutdown()
            asked = clock.since_boot()
            try:
                # The first renewal comes early, to store the directory; quick commands end before this round trip.
                if self.cwd or asked >= self._renewed_at + self.times.renew:
                    self._renew(asked)
                    continue
                cancelled = self._jobs.stop_requested(self._lease, POLL_SECONDS)
                if cancelled is not None:
                    self.control.request_stop(cancelled)
                    self._ended.wait(POLL_SECONDS)  # the request stays in Redis until the record is stored
            except Exception as trouble:  # without this thread a healthy command loses its lease
                if not isinstance(trouble, Unavailable):
                    _logger.exception("job.heartbeat_failed", command_id=self._lease.command_id)
                self._failed(asked)
                self._ended.wait(BACKOFF)

    def _failed(self, asked: float) -> None:
        """Stop the command if renewals have failed for too long."""
        # An exclusive attempt counts from the last renewal, as Redis does, because the next attempt may begin then. Any
        # other counts from the first failure: time for which the host slept is no outage.
        self._failing_since = min(self._failing_since, asked)
        since = self._renewed_at if self.times.exclusive else self._failing_since
        if asked >= since + self.times.stop:
            self.control.request_stop(NOT_RENEWED)

    def _check_shutdown(self) -> None:
        now = clock.monotonic()
        if shutting_down():
            self._stop_at = min(self._stop_at, now + SHUTDOWN_GRACE)
        if now >= self._stop_at:
            self.control.request_stop(SHUTDOWN_REASON)

    def _renew(self, asked: float) -> None:
        if self._jobs.renew(self._lease, self.times.lease, self.cwd):
            self._renewed_at, self._failing_since, self.cwd = asked, math.inf, ""
            self.control.lease_renewed(asked + self.times.kill)
        else:
            self.control.request_stop(DECLARED_LOST)
            self._ended.wait(POLL_SECONDS)
