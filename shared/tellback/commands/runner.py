"""The runner of one command, used by workers and by `tellback run`.

The command gets an empty input, a session and process group of its own, and no shell. Nothing that it started is alive
when `run` returns: on a timeout, on a stop, or after the command's end, everything gets TERM and, after a grace period,
KILL. A supervisor process does the starting and killing; this module reads the output and watches the deadlines.
"""

from __future__ import annotations

import fcntl
import math
import os
import selectors
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from tellback import clock
from tellback.commands import start_errors
from tellback.commands.control import CommandControl
from tellback.commands.follow import FollowTap
from tellback.commands.resource_limits import NO_LIMITS, CommandLimits, command_cgroup, limit_error, refused_by_policy
from tellback.commands.supervision import SupervisorProcess, borrow_supervisor
from tellback.commands.truncation import CapturedOutput, StreamTruncator
from tellback.redaction import Redactor

GRACE: Final = 5.0  # seconds between TERM and KILL, in which a program may clean up
OVERDUE: Final = "killed: its lease was not renewed"
NOT_STARTED: Final = "its lease ran out before it could be started"
_READ: Final = 1 << 20
_F_SETPIPE_SZ: Final = 1031  # Linux: not every build of Python before 3.12 names it in `fcntl`
_MAX_LAST_READS: Final = 64  # a process outside the tree may have been passed the pipe, and still write
_LONGEST_SELECT: Final = 60.0  # the system call refuses very large timeouts
_START_TIMEOUT: Final = 30.0  # for a program or directory on a file system that hangs
_KILL_TIMEOUT: Final = 5.0  # after KILL, for a process stuck in the kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSpec:
    """The command to run. `cwd` is absolute; `env` is the whole environment; `timeout` and `grace` are seconds.

    By `clock.since_boot`, it isn't started after `start_until`, and is killed at `alive_until`, even if this process
    hangs, unless `CommandControl.lease_renewed` moves that. If it is `exclusive`, another attempt begins then, so time
    asleep counts and it dies with its supervisor. A command over one of its `limits` is killed; control groups below
    `groups`, if given, enforce memory and processes. With `real_cwd` the start must be in `cwd` itself, not by a link.
    The file `executable`, if given, runs under the name `argv[0]`, whatever that leads to.
    """

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    timeout: float
    grace: float = GRACE
    start_until: float | None = None
    alive_until: float | None = None
    exclusive: bool = False
    limits: CommandLimits = NO_LIMITS
    groups: Path | None = None
    real_cwd: bool = False
    executable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The result of a command. `exit_code` is negative after a signal, and None if `error` says why there is none."""

    stdout: CapturedOutput
    stderr: CapturedOutput
    exit_code: int | None
    signal: str | None = None
    error: str | None = None
    started_at: datetime | None = None
    duration_ms: int = 0


class SupervisorLost(Exception):
    """Raised when the supervisor ended or does not answer, so nothing more is known of the command."""


def run(
    execution: ExecutionSpec,
    *,
    redactor: Redactor | None = None,
    control: CommandControl | None = None,
    now: Callable[[], datetime] = clock.utc_now,
    tap: FollowTap | None = None,
) -> CommandResult:
    """Run a command to its end; if it cannot run, the result's error says why. A `tap` gets the output as it comes."""
    streams = (StreamTruncator(redactor or Redactor()), StreamTruncator(redactor or Redactor()))
    if reason := start_errors.command_error(execution.argv, execution.cwd, execution.env):
        return CommandResult(stdout=streams[0].finish(), stderr=streams[1].finish(), exit_code=None, error=reason)
    return _run_supervised(execution, streams, control or CommandControl(after=math.inf), now, tap)


def _run_supervised(
    execution: ExecutionSpec,
    streams: tuple[StreamTruncator, StreamTruncator],
    control: CommandControl,
    now: Callable[[], datetime],
    tap: FollowTap | None,
) -> CommandResult:
    running = _CommandRun(execution, control, streams, now, tap)
    try:
        with command_cgroup(execution.groups, execution.limits) as running.group, borrow_supervisor() as supervisor:
            running.run_loop(supervisor)
    except SupervisorLost as lost:
        running.supervisor_lost(str(lost))
    except OSError as error:  # out of processes or descriptors; the supervisor was closed, so it kills the command
        running.error = f"could not be run on this host: {error}"
    finally:
        running.close()
    return running.result()


@dataclass(slots=True)
class _CommandRun:
    """The state of one command from start to end."""

    execution: ExecutionSpec
    control: CommandControl
    streams: tuple[StreamTruncator, StreamTruncator]
    now: Callable[[], datetime]
    tap: FollowTap | None
    supervisor: SupervisorProcess = field(init=False)
    group: Path | None = None
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    pipes: dict[int, StreamTruncator] = field(default_factory=dict[int, StreamTruncator])
    pid: int | None = None
    started_at: datetime | None = None
    began: float = 0.0
    status: int | None = None
    duration_ms: int | None = None
    error: str | None = None
    stop_reason: str | None = None
    printed: int = 0
    idle: bool = False
    output_until: float | None = None  # after the command's end, until when its children may still write
    give_up_at: float | None = None
    check_control_at: float = math.inf
    asked: int | None = None  # the descriptor that is readable when the control has a request

    def run_loop(self, supervisor: SupervisorProcess) -> None:
        """Run until no process of the command is alive."""
        self.supervisor = supervisor
        self.give_up_at = clock.monotonic() + _START_TIMEOUT
        self._start()
        self.check_control_at = clock.monotonic() + self.control.after
        self._check_control()
        while not self.idle:
            for key, _ in self.selector.select(self._select_timeout()):
                self._handle_descriptor(key.fd)
            self._check_deadlines()
            self._check_control()
        self._read_rest_of_pipes()

    def _start(self) -> None:
        ends: list[int] = []
        try:
            for stream in self.streams:
                reader, writer = os.pipe()
                ends.append(writer)
                self._open_pipe(reader, stream)
            self._send_supervisor(self._order(), ends)
        finally:
            for end in ends:
                os.close(end)
        self.selector.register(self.supervisor.socket, selectors.EVENT_READ)

    def _order(self) -> dict[str, Any]:
        given, group = self.execution, None if self.group is None else str(self.group)
        order: dict[str, Any] = {"op": "start", "argv": list(given.argv), "cwd": given.cwd, "env": dict(given.env)}
        order |= {"start_until": given.start_until, "alive_until": given.alive_until, "exclusive": given.exclusive}
        order |= {"real_cwd": given.real_cwd, "executable": given.executable, "group": group}
        return order | {"limits": msgspec.structs.asdict(given.limits)}

    def _check_control(self) -> None:
        """Begin to accept requests once it is time."""
        if clock.monotonic() < self.check_control_at:
            return
        self.check_control_at = math.inf
        self.asked = self.control.wake_descriptor()
        self.selector.register(self.asked, selectors.EVENT_READ)
        if self.control.begin is not None:
            self.control.begin()

    def _open_pipe(self, reader: int, stream: StreamTruncator) -> None:
        self.pipes[reader] = stream
        os.set_blocking(reader, False)
        if sys.platform == "linux":
            with suppress(OSError):  # the user's limit may be reached, and a smaller pipe is only slower
                fcntl.fcntl(reader, _F_SETPIPE_SZ, _READ)
        self.selector.register(reader, selectors.EVENT_READ)

    def _send_supervisor(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        try:
            self.supervisor.send(message, descriptors)
        except OSError as error:
            raise SupervisorLost(str(error)) from error

    def _select_timeout(self) -> float:
        due = [self.began + self.execution.timeout] if self.pid is not None and self.stop_reason is None else []
        due += [at for at in (self.output_until, self.give_up_at, self.check_control_at) if at is not None]
        return max(0.0, min([_LONGEST_SELECT, *(at - clock.monotonic() for at in due)]))

    def _handle_descriptor(self, descriptor: int) -> None:
        if descriptor in self.pipes:
            self._read_output(descriptor)
        elif descriptor == self.asked:
            reason, renewed = self.control.take_requests()
            if renewed is not None:
                self._send_supervisor({"op": "alive", "until": renewed})
            if reason is not None:
                self._request_stop(reason)
        else:
            self._receive_supervisor()

    def _read_output(self, descriptor: int) -> bool:
        """Read what is available; return False if there was nothing."""
        try:
            data = os.read(descriptor, _READ)
        except BlockingIOError:
            return False
        if data:
            stream = self.pipes[descriptor]
            if self.tap is not None:
                self.tap.take_chunk(self.streams.index(stream), data, stream)
            stream.feed(data)
            self._count_output(len(data))
        else:
            self._close_pipe(descriptor)
        return bool(data)

    def _count_output(self, size: int) -> None:
        self.printed += size
        if (limit := self.execution.limits.output) is not None and self.printed > limit:
            self._request_stop(limit_error("output", limit), grace=0.0)

    def _close_pipe(self, descriptor: int) -> None:
        self.selector.unregister(descriptor)
        del self.pipes[descriptor]
        os.close(descriptor)

    def _receive_supervisor(self) -> None:
        messages = self.supervisor.receive()
        if messages is None:
            raise SupervisorLost("the process that watched the command died")
        for message in messages:
            self._handle_message(message)

    def _handle_message(self, message: dict[str, Any]) -> None:
        if "pid" in message:
            self.pid, self.began, self.started_at = message["pid"], clock.monotonic(), self.now()
            self.give_up_at = None if self.stop_reason is None else self.give_up_at
        elif "error" in message:
            self._failed_to_start(message)
        elif "late" in message:
            self.error, self.idle = NOT_STARTED, True
        elif "over" in message:
            self.error = limit_error(*message["over"])
        if "status" in message:
            self.status, self.duration_ms = message["status"], message["ms"]
            # Only then was it the lease that killed the command: it may also have ended by itself just in time.
            if message["overdue"] and self.status == -signal.SIGKILL and self.stop_reason is None:
                self.error = OVERDUE
            self.output_until = clock.monotonic() + self.execution.grace
        self.idle = self.idle or message.get("idle", False)

    def _failed_to_start(self, message: dict[str, Any]) -> None:
        given, cause = self.execution, (message["errno"], message["error"])
        self.error = start_errors.start_error(*cause, argv=given.argv, cwd=given.cwd, env=given.env)
        if "elsewhere" in message:
            self.error = refused_by_policy("directories", f"{given.cwd} became {message['elsewhere']} before the start")
        self.idle = True

    def _check_deadlines(self) -> None:
        now = clock.monotonic()
        if self.give_up_at is not None:
            if now >= self.give_up_at:
                raise SupervisorLost("it could not be started" if self.pid is None else "it could not be killed")
        elif self.pid is None:
            return
        elif self.status is not None:
            self._end_background_processes(now)
        elif self.stop_reason is None and now >= self.began + self.execution.timeout and not self._has_message():
            self._request_stop(f"timed out after {self.execution.timeout:g} s")

    def _has_message(self) -> bool:
        """Return whether the supervisor said more: the command may have ended while its output was searched."""
        return any(key.fileobj is self.supervisor.socket for key, _ in self.selector.select(0))

    def _end_background_processes(self, now: float) -> None:
        """Stop what the command left running in the background, after its output or the grace period has ended."""
        if self.output_until is not None and (not self.pipes or now >= self.output_until):
            self._send_supervisor({"op": "stop", "grace": max(0.0, self.output_until - now)})
            self.give_up_at = max(now, self.output_until) + _KILL_TIMEOUT

    def _request_stop(self, reason: str, grace: float | None = None) -> None:
        grace = self.execution.grace if grace is None else grace
        if self.stop_reason is None and self.status is None:
            self.stop_reason = reason
            # The supervisor reads this after the start message, so a command that is still starting is stopped too.
            self._send_supervisor({"op": "stop", "grace": grace})
            self.give_up_at = clock.monotonic() + grace + _KILL_TIMEOUT

    def _read_rest_of_pipes(self) -> None:
        """Read what is still in the pipes, now that no process of the command is left to write."""
        for descriptor in list(self.pipes):
            for _ in range(_MAX_LAST_READS):
                if not self._read_output(descriptor):
                    break

    def supervisor_lost(self, reason: str) -> None:
        """Kill what can be reached without the supervisor, and set the error."""
        self.supervisor.kill()
        if self.pid is not None and self.status is None:
            with suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
        self._read_rest_of_pipes()
        self.error = f"{self.stop_reason}; {reason}" if self.stop_reason else reason

    def close(self) -> None:
        """Free the descriptors."""
        for descriptor in list(self.pipes):
            self._close_pipe(descriptor)
        self.selector.close()

    def result(self) -> CommandResult:
        """Return what is known about the result."""
        error = self.error or self.stop_reason
        took = round((clock.monotonic() - self.began) * 1000) if self.duration_ms is None else self.duration_ms
        return CommandResult(
            stdout=self.streams[0].finish(),
            stderr=self.streams[1].finish(),
            exit_code=None if error else self.status,
            signal=start_errors.signal_name(self.status),
            error=error,
            started_at=self.started_at,
            duration_ms=took if self.started_at else 0,
        )
