"""The supervisor: a process between a runner and its commands, which starts them and lets nothing outlive the runner.

It leads a session of its own, adopts the orphans of a command (on Linux), and kills everything when its runner's socket
closes, when its runner's process is gone, or when the time that the runner gave is over. If it dies, its guardian kills
everything (process_tree.py). It runs one command at a time and uses the standard library only. It is small and has one
thread, which also makes it safe to run code between fork and exec (`ExecPreparation`).

Times are absolute, by the clock since boot, which both processes read: a runner may stand still between its last check
of the lease and its message, and a length that counts from the receipt would give the command its full time again.

A message in either direction is a 4-byte length and a JSON object. From the runner: `{"op": "start", "argv", "cwd",
"executable", "real_cwd", "env", "start_until", "alive_until", "exclusive", "limits", "group"}` with the two output
descriptors, `{"op": "stop", "grace"}` and `{"op": "alive", "until"}`. To the runner: `{"error", "errno"}`, `{"late"}`
if the order came after `start_until`, or `{"pid"}`; `{"over"}` with the rule and the limit, if the command is killed
for exceeding one; `{"status", "ms", "idle", "overdue"}` when the command has ended; and `{"idle": true}` when nothing
that it started is alive.

The system enforces limits of single processes (setrlimit). The command's control group, if the runner made one
(`group`, see resource_limits.py), enforces those of the whole tree, and the command enters it before it runs. Otherwise
the supervisor watches the tree, because the system's limit of processes counts all processes of a user and does not
bind root. With `real_cwd` the directory must be `cwd` itself once the change into it is done (C-71). On macOS only the
command's process group is found and killed, and only limits of single processes hold.
"""

from __future__ import annotations

import array
import errno
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tellback.clock import since_boot
from tellback.commands.exec_preparation import ExecPreparation
from tellback.commands.process_tree import (
    LIFE_CHECK,
    LINUX,
    OwnWrites,
    become_subreaper,
    cgroup_counter,
    descendants,
    freeze_tree,
    resident_bytes,
    signal_tree,
    split_off_guardian,
    written_bytes,
)
from tellback.process_privacy import forbid_dumps

TICK = 0.02  # seconds between checks of what is left of a command

WATCH = 0.01  # seconds between checks of a limited command's usage, if a check is quick

WATCH_SHARE = 4  # the pause after a check is four times its length, so checks take a fifth of the time at most

ASLEEP = 2.0  # seconds that a wait may end late; beyond that the machine slept, or this process was stopped


HOME = "/"  # the supervisor's own directory between two commands, so that it keeps none from being removed


class CommandSupervisor:
    """The loop that runs one runner's commands, one at a time."""

    def __init__(self, runner: socket.socket, own_writes: OwnWrites) -> None:
        self.runner = runner
        self.own_writes = own_writes
        self.parent = os.getppid()
        self.wake = self._wake_on_child()
        self.group = 0  # the command's process id and group while anything of it may live
        self.ended = False
        self.started = 0.0
        self.alive_until = float("inf")
        self.exclusive = False
        self.overdue = False  # the end of the lease killed the command; a renewal that comes then changes nothing
        self.kill_at = float("inf")
        self.limits: dict[str, int] = {}
        self.control_group: Path | None = None
        self.excess_reported = False
        self.written_before = 0
        self.next_watch = float("inf")
        become_subreaper()

    def serve(self) -> None:
        """Serve requests until the runner or the guardian is gone, then kill everything."""
        try:
            while os.getppid() == self.parent:
                timeout, began = self._select_timeout(), since_boot()
                readable, _, _ = select.select([self.runner, self.wake], [], [], timeout)
                self._wake_up(since_boot() - began - timeout)
                if self.wake in readable and signal.SIGTERM in self.wake.recv(4096):
                    break
                if self.runner in readable and not self._handle_request():
                    break
                self._tick()
        finally:
            self._kill_everything()

    def _wake_on_child(self) -> socket.socket:
        reader, writer = socket.socketpair()
        writer.settimeout(0)
        reader.settimeout(0)
        signal.signal(signal.SIGCHLD, _ignore_signal)
        signal.signal(signal.SIGTERM, _ignore_signal)
        signal.set_wakeup_fd(writer.detach(), warn_on_full_buffer=False)
        return reader

    def _wake_up(self, late: float) -> None:
        """Extend the lease by the time asleep, unless another attempt may begin when the lease ends."""
        if late > ASLEEP and not self.exclusive:
            self.alive_until += late

    def _select_timeout(self) -> float:
        if not self.group:
            return LIFE_CHECK
        due = min(self.alive_until, self.kill_at, self.next_watch) - since_boot()
        if self.ended or due <= 0:
            return min(TICK, max(0.0, self.next_watch - since_boot()))
        return min(LIFE_CHECK, due)

    def _handle_request(self) -> bool:
        """Handle the runner's next request; return False if the runner is gone."""
        message, descriptors = _receive_request(self.runner)
        if message is None:
            return False
        if message["op"] == "start":
            self._start(message, descriptors)
        elif message["op"] == "alive":
            # Never shortened: a host that slept after the renewal has just added that time (`_wake_up`).
            self.alive_until = max(self.alive_until, message["until"])
        elif message["op"] == "stop":
            self._signal(signal.SIGTERM)
            self.kill_at = since_boot() + message["grace"]
        return True

    def _start(self, message: dict[str, Any], descriptors: list[int]) -> None:
        if since_boot() >= _time(message["start_until"]):
            for descriptor in descriptors:
                os.close(descriptor)
            _send_message(self.runner, {"late": True})
            return
        self.limits = {name: limit for name, limit in message["limits"].items() if limit is not None}
        group = message.get("group")
        self.control_group, self.excess_reported = Path(group) if group else None, False
        self.exclusive = message.get("exclusive", False)
        preparation = ExecPreparation(self._resource_limits(), tied=self.exclusive)
        try:
            if self.control_group is not None:
                preparation.use_cgroup(self.control_group)
            _enter_directory(message["cwd"], real=message["real_cwd"])
            started = time.monotonic()  # before: on a busy machine the command may end before `Popen` returns
            process = subprocess.Popen(
                message["argv"],
                executable=message["executable"],
                env=message["env"],
                stdin=subprocess.DEVNULL,
                stdout=descriptors[0],
                stderr=descriptors[1],
                start_new_session=True,
                preexec_fn=preparation.preexec(),  # noqa: PLW1509 - one thread here
            )
        except _OtherDirectory as other:
            _send_message(self.runner, {"error": "", "errno": None, "elsewhere": str(other)})
            return
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            reason = preparation.failure_reason() or str(error)
            _send_message(self.runner, {"error": reason, "errno": getattr(error, "errno", None)})
            return
        finally:
            os.chdir(HOME)
            for descriptor in descriptors:
                os.close(descriptor)
            preparation.close()
        process.returncode = 0  # `_reap_children` collects the status, so `Popen` must not wait for it
        self.group, self.ended, self.overdue, self.started = process.pid, False, False, started
        self.alive_until = _time(message["alive_until"])
        self.kill_at = float("inf")
        self.written_before = self.own_writes.count() if "written" in self.limits else 0
        watched = LINUX and not self.limits.keys().isdisjoint(("memory", "processes", "written"))
        self.next_watch = since_boot() if watched else float("inf")
        _send_message(self.runner, {"pid": self.group})

    def _tick(self) -> None:
        """Reap children, report the command's end, and kill it if its time is over or a limit is exceeded."""
        if not self.group:
            return
        status, left = self._reap_children()
        if status is not None:
            self.ended = True
            self._report_limit(self._cgroup_limit_reached())
            took = round((time.monotonic() - self.started) * 1000)
            _send_message(self.runner, {"status": status, "ms": took, "idle": not left, "overdue": self.overdue})
        elif self.ended and not left:
            self._report_limit(self._cgroup_limit_reached())
            _send_message(self.runner, {"idle": True})
        if self.ended and not left:
            self.group = 0
        elif (now := since_boot()) >= min(self.alive_until, self.kill_at):
            self.overdue = self.overdue or now < self.kill_at
            self.next_watch = float("inf")
            self._signal(signal.SIGKILL)
        elif since_boot() >= self.next_watch:
            self._check_usage()

    def _check_usage(self) -> None:
        """Kill the command if it exceeds a limit."""
        began = since_boot()
        rule = self._cgroup_limit_reached() or self._exceeded_limit()
        if rule is not None:
            self.kill_at = began
            self._signal(signal.SIGKILL)
            self._report_limit(rule)
        ended = since_boot()
        self.next_watch = float("inf") if rule else ended + max(WATCH, WATCH_SHARE * (ended - began))

    def _report_limit(self, rule: str | None) -> None:
        if rule is not None and not self.excess_reported:
            self.excess_reported = True
            _send_message(self.runner, {"over": [rule, self.limits[rule]]})

    def _cgroup_limit_reached(self) -> str | None:
        """Return the limit at which the kernel refused or killed a process of the command's control group."""
        group = self.control_group
        if group is None:
            return None
        if "processes" in self.limits and cgroup_counter(group / "pids.events", "max"):
            return "processes"
        # Both counters, because a full group above this one kills too, and then only `oom_kill` grows here.
        events = group / "memory.events"
        return (
            "memory"
            if "memory" in self.limits and cgroup_counter(events, "oom") and cgroup_counter(events, "oom_kill")
            else None
        )

    def _exceeded_limit(self) -> str | None:
        """Return the limit that the command's process tree exceeds."""
        grouped = self.control_group is not None
        if grouped and "written" not in self.limits:
            return None
        pids = descendants(os.getpid())
        if not grouped and len(pids) > self.limits.get("processes", len(pids)):
            return "processes"
        if not grouped and "memory" in self.limits and sum(map(resident_bytes, pids)) > self.limits["memory"]:
            return "memory"
        if "written" in self.limits:  # the kernel adds a dead process's bytes to the one that reaped it, finally to us
            written = sum(map(written_bytes, pids)) + self.own_writes.count() - self.written_before
            return "written" if written > self.limits["written"] else None
        return None

    def _reap_children(self) -> tuple[int | None, bool]:
        """Reap dead children; return the command's exit status, if it is among them, and True if any is alive."""
        found = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:  # exact on Linux, where orphans become our children
                return found, not LINUX and self._process_group_alive()
            if pid == 0:
                return found, True
            if pid == self.group and not self.ended:
                found = os.waitstatus_to_exitcode(status)

    def _process_group_alive(self) -> bool:
        try:
            os.killpg(self.group, 0)
        except OSError as error:
            return error.errno != errno.ESRCH
        return True

    def _signal(self, number: int) -> None:
        if not self.group:
            return
        if number == signal.SIGKILL and LINUX:
            if self.control_group is not None:
                _kill_group(self.control_group)
            freeze_tree(os.getpid())  # for processes outside the control group, or without one
        with suppress(OSError):  # the process group may be empty
            os.killpg(self.group, number)
        if LINUX:
            signal_tree(os.getpid(), number)

    def _kill_everything(self) -> None:
        while self.group:
            self._signal(signal.SIGKILL)
            if not self._reap_children()[1]:
                break
            time.sleep(TICK)
        if self.control_group is not None:
            with suppress(OSError):  # the runner may have removed it; a worker sweeps what the command made below
                self.control_group.rmdir()

    def _resource_limits(self) -> list[tuple[int, int]]:
        """Return the limits that the system enforces for each process."""
        numbers = {"file": resource.RLIMIT_FSIZE, "cpu": resource.RLIMIT_CPU}
        if self.control_group is None:  # a group counts memory in use, RLIMIT_DATA also what is only reserved
            numbers["memory"] = resource.RLIMIT_DATA
        return [(number, self.limits[name]) for name, number in numbers.items() if name in self.limits]


def _time(given: float | None) -> float:
    return float("inf") if given is None else given


def _kill_group(group: Path) -> None:
    with suppress(OSError):  # before Linux 5.14 there is no such file, and each process is signalled
        descriptor = os.open(group / "cgroup.kill", os.O_WRONLY)
        try:
            os.write(descriptor, b"1")
        finally:
            os.close(descriptor)


def _ignore_signal(_number: int, _frame: object) -> None:
    """Do nothing; Python writes a signal to the wake-up descriptor only if it has a handler."""


class _OtherDirectory(Exception):
    """Raised when the change led elsewhere; the text is the directory that was entered."""


def _enter_directory(cwd: str, *, real: bool) -> None:
    """Change into a command's directory, which its process inherits; with `real`, it must be this very directory.

    The policy saw a path. Whoever may write above it can put a link in the path's place before the change: 89 of 199
    swaps led outside. The directory that a process is in cannot be swapped, so the kernel is asked afterwards.
    """
    os.chdir(cwd)
    if real and (entered := str(Path.cwd())) != cwd:
        raise _OtherDirectory(entered)


def _receive_request(runner: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    descriptors: array.array[int] = array.array("i")
    header, ancillary, _, _ = runner.recvmsg(4, socket.CMSG_SPACE(2 * descriptors.itemsize))
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - the standard library's signature
    if not header:
        return None, []
    size = struct.unpack("!I", header)[0]
    body = bytearray()
    while len(body) < size:
        part = runner.recv(size - len(body))
        if not part:
            return None, []
        body += part
    return json.loads(body), list(descriptors)


def _send_message(runner: socket.socket, message: dict[str, Any]) -> None:
    body = json.dumps(message).encode()
    with suppress(OSError):  # the runner may be gone; the loop notices it
        runner.sendall(struct.pack("!I", len(body)) + body)


def main(descriptor: int) -> None:
    """Run a supervisor on the socket with this descriptor."""
    if not split_off_guardian(descriptor):
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN if number == signal.SIGPIPE else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    runner = socket.socket(fileno=descriptor)
    runner.set_inheritable(False)
    own_writes = OwnWrites()
    forbid_dumps()
    CommandSupervisor(runner, own_writes).serve()
