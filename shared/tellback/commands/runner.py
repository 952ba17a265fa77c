"""Runs one command and tells what it did; the same for workers and for `tellback run`.

The command gets end of file on its input, a session and process group of its own, and no shell. Nothing that it started
is alive when `run` returns: on a timeout or a stop everything gets TERM, a grace period, KILL; after a normal end the
same holds for what it left in the background, which has at most the grace period to finish its output.
"""

from __future__ import annotations

import fcntl
import math
import os
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from tellback import clock
from tellback.commands import failures
from tellback.commands.cgroups import group_for
from tellback.commands.follow import Tap
from tellback.commands.limits import NO_LIMITS, Limits
from tellback.commands.supervision import SupervisorProcess, borrowed
from tellback.commands.truncation import Capture, Truncation
from tellback.redaction import Redactor

GRACE: Final = 5.0
_READ: Final = 1 << 20
_F_SETPIPE_SZ: Final = 1031  # Linux: fcntl has no name for it before Python 3.12 on every build
_MAX_DRAIN_READS: Final = 64  # a stranger who was handed the pipe may still write
_LONGEST_SELECT: Final = 60.0  # the system's call does not take every number
_START_PATIENCE: Final = 30.0  # for a program or directory on a file system that hangs
_KILL_PATIENCE: Final = 5.0  # after KILL, for a process that the kernel does not let go


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What to run. `cwd` is absolute; `env` is the whole environment; `timeout` and `grace` are seconds.

    With a `lease`, in seconds, the command is killed when the lease passes without a `Control.renewed`, even if this
    process hangs. It is killed too when it passes one of the `limits`; with `groups`, a directory below which control
    groups may be made (`cgroups`), the system holds those of memory and processes.
    """

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    timeout: float
    grace: float = GRACE
    lease: float | None = None
    limits: Limits = NO_LIMITS
    groups: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a command did. `exit_code` is None where `error` says why there is none; negative for a signal's death."""

    stdout: Capture
    stderr: Capture
    exit_code: int | None
    signal: str | None = None
    error: str | None = None
    started_at: datetime | None = None
    duration_ms: int = 0


class Control:
    """Reaches a running command from other threads."""

    def __init__(self, *, after: float = 0.0, begin: Callable[[], None] | None = None) -> None:
        """Heed what is asked from `after` seconds into the command, when `begin` is called once, by its own thread.

        So that most commands, which end sooner, cost neither a thread nor descriptors for those who may ask.
        """
        self.after = after
        self.begin = begin
        self._lock = threading.RLock()  # a signal handler may stop the command of its own thread
        self._ends: tuple[socket.socket, socket.socket] | None = None
        self._reason: str | None = None
        self._ttl: float | None = None

    def stop(self, reason: str) -> None:
        """End the command; `reason` becomes the record's error. The first reason stays."""
        with self._lock:
            self._reason = self._reason or reason
            self._wake()

    def renewed(self, ttl: float) -> None:
        """The lease holds for `ttl` more seconds."""
        with self._lock:
            self._ttl = ttl
            self._wake()

    def _wake(self) -> None:
        if self._ends is not None:
            with suppress(OSError):  # full: it will wake anyway; closed: nothing runs any more
                self._ends[1].send(b"!")

    def open(self) -> int:
        """A descriptor that is readable when something was asked."""
        with self._lock:
            if self._ends is None:
                self._ends = socket.socketpair()
                for end in self._ends:
                    end.setblocking(False)  # noqa: FBT003 - a socket takes it by position
            if self._reason is not None or self._ttl is not None:
                self._wake()
            return self._ends[0].fileno()

    def taken(self) -> tuple[str | None, float | None]:
        """What was asked since the last call: a reason to stop, a renewal."""
        with self._lock:
            if self._ends is not None:
                with suppress(BlockingIOError):
                    self._ends[0].recv(4096)
            ttl, self._ttl = self._ttl, None
            return self._reason, ttl

    def close(self) -> None:
        """Free the descriptors."""
        with self._lock:
            for end in self._ends or ():
                end.close()


class SupervisorLost(Exception):
    """The supervisor ended, or does not answer: nothing more is known of the command."""


def run(
    execution: Execution,
    *,
    redactor: Redactor | None = None,
    control: Control | None = None,
    now: Callable[[], datetime] = clock.utc_now,
    tap: Tap | None = None,
) -> Outcome:
    """Run it to its end. Whatever keeps it from running is an `Outcome` too, with an error that says which thing.

    A `tap` is given the output as it comes.
    """
    streams = (Truncation(redactor or Redactor()), Truncation(redactor or Redactor()))
    if reason := failures.invalid(execution.argv, execution.cwd, execution.env):
        return Outcome(stdout=streams[0].finish(), stderr=streams[1].finish(), exit_code=None, error=reason)
    return _run(execution, streams, control or Control(after=math.inf), now, tap)


def _run(
    execution: Execution,
    streams: tuple[Truncation, Truncation],
    control: Control,
    now: Callable[[], datetime],
    tap: Tap | None,
) -> Outcome:
    running = _Running(execution, control, streams, now, tap)
    try:
        with group_for(execution.groups, execution.limits) as running.group, borrowed() as supervisor:
            running.loop(supervisor)
    except SupervisorLost as lost:
        running.lost(str(lost))
    except OSError as error:  # no process or descriptor is to be had: the supervisor has been closed, and kills
        running.error = f"could not be run on this host: {error}"
    finally:
        running.close()
    return running.outcome()


@dataclass(slots=True)
class _Running:
    """One command from start to end."""

    execution: Execution
    control: Control
    streams: tuple[Truncation, Truncation]
    now: Callable[[], datetime]
    tap: Tap | None
    supervisor: SupervisorProcess = field(init=False)
    group: Path | None = None
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    pipes: dict[int, Truncation] = field(default_factory=dict[int, Truncation])
    pid: int | None = None
    started_at: datetime | None = None
    began: float = 0.0
    status: int | None = None
    duration_ms: int | None = None
    error: str | None = None
    stop_reason: str | None = None
    printed: int = 0
    idle: bool = False
    output_until: float | None = None  # after the command's end: how long its children may still write
    give_up_at: float | None = None
    listen_at: float = math.inf
    asked: int | None = None  # the descriptor on which the control tells that something was asked

    def loop(self, supervisor: SupervisorProcess) -> None:
        """Until nothing of the command is alive."""
        self.supervisor = supervisor
        self.give_up_at = clock.monotonic() + _START_PATIENCE
        self._start()
        self.listen_at = clock.monotonic() + self.control.after
        self._listen()
        while not self.idle:
            for key, _ in self.selector.select(self._patience()):
                self._handle(key.fd)
            self._watch_time()
            self._listen()
        self._drain()

    def _start(self) -> None:
        ends: list[int] = []
        try:
            for stream in self.streams:
                reader, writer = os.pipe()
                ends.append(writer)
                self._open_pipe(reader, stream)
            message: dict[str, Any] = {"op": "start", "argv": list(self.execution.argv), "cwd": self.execution.cwd}
            message |= {"env": dict(self.execution.env), "ttl": self.execution.lease}
            message |= {"limits": msgspec.structs.asdict(self.execution.limits)}
            message |= {"group": None if self.group is None else str(self.group)}
            self._tell(message, ends)
        finally:
            for end in ends:
                os.close(end)
        self.selector.register(self.supervisor.socket, selectors.EVENT_READ)

    def _listen(self) -> None:
        """Heed what is asked of the command, once it is time."""
        if clock.monotonic() < self.listen_at:
            return
        self.listen_at = math.inf
        self.asked = self.control.open()
        self.selector.register(self.asked, selectors.EVENT_READ)
        if self.control.begin is not None:
            self.control.begin()

    def _open_pipe(self, reader: int, stream: Truncation) -> None:
        self.pipes[reader] = stream
        os.set_blocking(reader, False)
        if sys.platform == "linux":
            with suppress(OSError):  # a smaller pipe is only slower
                fcntl.fcntl(reader, _F_SETPIPE_SZ, _READ)
        self.selector.register(reader, selectors.EVENT_READ)

    def _tell(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        try:
            self.supervisor.send(message, descriptors)
        except OSError as error:
            raise SupervisorLost(str(error)) from error

    def _patience(self) -> float:
        due = [self.began + self.execution.timeout] if self.pid is not None and self.stop_reason is None else []
        due += [at for at in (self.output_until, self.give_up_at, self.listen_at) if at is not None]
        return max(0.0, min([_LONGEST_SELECT, *(at - clock.monotonic() for at in due)]))

    def _handle(self, descriptor: int) -> None:
        if descriptor in self.pipes:
            self._read(descriptor)
        elif descriptor == self.asked:
            reason, ttl = self.control.taken()
            if ttl is not None:
                self._tell({"op": "alive", "ttl": ttl})
            if reason is not None:
                self._stop(reason)
        else:
            self._hear()

    def _read(self, descriptor: int) -> bool:
        """Take what is there; whether there was something."""
        try:
            data = os.read(descriptor, _READ)
        except BlockingIOError:
            return False
        if data:
            stream = self.pipes[descriptor]
            if self.tap is not None:
                self.tap.take(self.streams.index(stream), data, stream)
            stream.feed(data)
            self._count(len(data))
        else:
            self._close_pipe(descriptor)
        return bool(data)

    def _count(self, size: int) -> None:
        self.printed += size
        limit = self.execution.limits.output
        if limit is not None and self.printed > limit:
            self._stop(_over("output", limit), grace=0.0)

    def _close_pipe(self, descriptor: int) -> None:
        self.selector.unregister(descriptor)
        del self.pipes[descriptor]
        os.close(descriptor)

    def _hear(self) -> None:
        messages = self.supervisor.receive()
        if messages is None:
            raise SupervisorLost("the process that watched the command died")
        for message in messages:
            self._heard(message)

    def _heard(self, message: dict[str, Any]) -> None:
        if "pid" in message:
            self.pid, self.began, self.started_at = message["pid"], clock.monotonic(), self.now()
            self.give_up_at = None if self.stop_reason is None else self.give_up_at
        elif "error" in message:
            self._failed_to_start(message)
        elif "over" in message:
            self.error = _over(*message["over"])
        if "status" in message:
            self.status, self.duration_ms = message["status"], message["ms"]
            if message["overdue"] and self.status == -signal.SIGKILL and self.stop_reason is None:
                self.error = "killed: its lease was not renewed"
            self.output_until = clock.monotonic() + self.execution.grace
        self.idle = self.idle or message.get("idle", False)

    def _failed_to_start(self, message: dict[str, Any]) -> None:
        self.error = failures.describe(
            message["errno"],
            message["error"],
            argv=self.execution.argv,
            cwd=self.execution.cwd,
            env=self.execution.env,
        )
        self.idle = True

    def _watch_time(self) -> None:
        now = clock.monotonic()
        if self.give_up_at is not None:
            if now >= self.give_up_at:
                raise SupervisorLost("it could not be started" if self.pid is None else "it could not be killed")
        elif self.pid is None:
            return
        elif self.status is not None:
            self._end_leftovers(now)
        elif self.stop_reason is None and now >= self.began + self.execution.timeout:
            self._stop(f"timed out after {self.execution.timeout:g} s")

    def _end_leftovers(self, now: float) -> None:
        """The command has ended and something that it started has not: its output is awaited, then it ends too."""
        if self.output_until is not None and (not self.pipes or now >= self.output_until):
            self._tell({"op": "stop", "grace": max(0.0, self.output_until - now)})
            self.give_up_at = max(now, self.output_until) + _KILL_PATIENCE

    def _stop(self, reason: str, grace: float | None = None) -> None:
        grace = self.execution.grace if grace is None else grace
        if self.stop_reason is None and self.status is None:
            self.stop_reason = reason
            # One that is still being started gets the message as soon as it runs.
            self._tell({"op": "stop", "grace": grace})
            self.give_up_at = clock.monotonic() + grace + _KILL_PATIENCE

    def _drain(self) -> None:
        """Nobody is left to write: take what still stands in the pipes."""
        for descriptor in list(self.pipes):
            for _ in range(_MAX_DRAIN_READS):
                if not self._read(descriptor):
                    break

    def lost(self, reason: str) -> None:
        """The supervisor is gone or stuck: kill what can be reached and say so."""
        self.supervisor.kill()
        if self.pid is not None and self.status is None:
            with suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
        self._drain()
        self.error = f"{self.stop_reason}; {reason}" if self.stop_reason else reason

    def close(self) -> None:
        """Free the descriptors."""
        for descriptor in list(self.pipes):
            self._close_pipe(descriptor)
        self.selector.close()

    def outcome(self) -> Outcome:
        """What is known now."""
        error = self.error or self.stop_reason
        took = round((clock.monotonic() - self.began) * 1000) if self.duration_ms is None else self.duration_ms
        return Outcome(
            stdout=self.streams[0].finish(),
            stderr=self.streams[1].finish(),
            exit_code=None if error else self.status,
            signal=signal.Signals(-self.status).name if self.status is not None and self.status < 0 else None,
            error=error,
            started_at=self.started_at,
            duration_ms=took if self.started_at else 0,
        )


def _over(rule: str, limit: int) -> str:
    return f"killed by this host's policy, rule {rule}: over {limit}"
