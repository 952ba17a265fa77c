"""A process of its own that starts commands and ends all that they started; standard library only.

It stands between a runner and its commands so that nothing outlives the runner. It leads its own session, adopts what
a command's children leave behind (Linux: PR_SET_CHILD_SUBREAPER), and kills everything when its runner's socket closes,
when its runner's process is gone, or when the runner has let `ttl` pass without saying that it lives. If it dies, its
guardian ends everything (guardian.py). Starting a command from this small single-threaded process is also what makes
code between fork and exec safe. It runs one command at a time.

Both ways, a message is a 4-byte length and a JSON object. From the runner: `{"op": "start", "argv", "cwd", "env",
"ttl", "limits", "group"}` with the two output descriptors, `{"op": "stop", "grace"}`, `{"op": "alive", "ttl"}`. To
the runner: `{"error", "errno"}` or `{"pid"}`; `{"over"}` with the rule and the limit when it is killed for passing one;
then `{"status", "ms", "idle", "overdue"}` when the command has ended, and `{"idle": true}` when nothing that it started
is alive. On macOS only the command's process group can be found and killed, and only limits of single processes hold.

Limits of single processes are the system's (setrlimit). Those of the whole tree are held by its control group where the
runner has made one (`group`, a directory; see cgroups.py): the command is in it before it runs. Otherwise they are held
by looking at the tree: the system's own limit of processes is one of the user, and does not bind root.
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

from tellback.commands.guardian import guarded
from tellback.commands.preparation import Preparation
from tellback.commands.processes import LINUX, adopt_orphans, descendants, freeze, signal_all

TICK = 0.02  # between looks at what is left of a command, in seconds
WATCH = 0.01  # between looks at what a limited command uses, in seconds; longer where a look takes long
WATCH_SHARE = 4  # of the time, looking may take a fifth
PAGE = resource.getpagesize()
LIFE_CHECK = 1.0  # between looks at the runner, in seconds


class Supervisor:
    """One runner's commands, one at a time."""

    def __init__(self, runner: socket.socket) -> None:
        self.runner = runner
        self.parent = os.getppid()
        self.wake = self._wake_on_child()
        self.group = 0  # the command's process id and group while anything of it may live
        self.ended = False
        self.started = 0.0
        self.alive_until = float("inf")
        self.kill_at = float("inf")
        self.limits: dict[str, int] = {}
        self.control_group: Path | None = None
        self.told_over = False
        self.written_before = 0
        self.next_watch = float("inf")
        adopt_orphans()

    def serve(self) -> None:
        """Until the runner or the guardian is gone; nothing is left alive then."""
        try:
            while os.getppid() == self.parent:
                readable, _, _ = select.select([self.runner, self.wake], [], [], self._patience())
                if self.wake in readable and signal.SIGTERM in self.wake.recv(4096):
                    break
                if self.runner in readable and not self._obey():
                    break
                self._look()
        finally:
            self._end_all()

    def _wake_on_child(self) -> socket.socket:
        reader, writer = socket.socketpair()
        writer.settimeout(0)
        reader.settimeout(0)
        signal.signal(signal.SIGCHLD, _nothing)
        signal.signal(signal.SIGTERM, _nothing)
        signal.set_wakeup_fd(writer.detach(), warn_on_full_buffer=False)
        return reader

    def _patience(self) -> float:
        if not self.group:
            return LIFE_CHECK
        due = min(self.alive_until, self.kill_at, self.next_watch) - time.monotonic()
        if self.ended or due <= 0:
            return min(TICK, max(0.0, self.next_watch - time.monotonic()))
        return min(LIFE_CHECK, due)

    def _obey(self) -> bool:
        """Do what the runner asks; False when it is gone."""
        message, descriptors = _receive(self.runner)
        if message is None:
            return False
        if message["op"] == "start":
            self._start(message, descriptors)
        elif message["op"] == "alive":
            self.alive_until = time.monotonic() + message["ttl"]
        elif message["op"] == "stop":
            self._signal(signal.SIGTERM)
            self.kill_at = time.monotonic() + message["grace"]
        return True

    def _start(self, message: dict[str, Any], descriptors: list[int]) -> None:
        self.limits = {name: limit for name, limit in message["limits"].items() if limit is not None}
        group = message.get("group")
        self.control_group, self.told_over = Path(group) if group else None, False
        preparation = Preparation(self._resource_limits())
        try:
            if self.control_group is not None:
                preparation.enter(self.control_group)
            process = subprocess.Popen(  # noqa: S603 - running what it is told is its purpose
                message["argv"],
                cwd=message["cwd"],
                env=message["env"],
                stdin=subprocess.DEVNULL,
                stdout=descriptors[0],
                stderr=descriptors[1],
                start_new_session=True,
                preexec_fn=preparation.needed(),  # noqa: PLW1509 - one thread here
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            reason = preparation.failure() or str(error)
            _send(self.runner, {"error": reason, "errno": getattr(error, "errno", None)})
            return
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
            preparation.close()
        process.returncode = 0  # the dead are collected below, with those that the command leaves behind
        self.group, self.ended, self.started = process.pid, False, time.monotonic()
        self.alive_until = time.monotonic() + message["ttl"] if message["ttl"] else float("inf")
        self.kill_at = float("inf")
        self.written_before = _written("self") if "written" in self.limits else 0
        watched = LINUX and not self.limits.keys().isdisjoint(("memory", "processes", "written"))
        self.next_watch = self.started if watched else float("inf")
        _send(self.runner, {"pid": self.group})

    def _look(self) -> None:
        """Reap, tell, and kill what has had its time."""
        if not self.group:
            return
        status, left = self._reap()
        if status is not None:
            self.ended = True
            self._tell_over(self._group_limit())
            took = round((time.monotonic() - self.started) * 1000)
            overdue = time.monotonic() >= self.alive_until
            _send(self.runner, {"status": status, "ms": took, "idle": not left, "overdue": overdue})
        elif self.ended and not left:
            self._tell_over(self._group_limit())
            _send(self.runner, {"idle": True})
        if self.ended and not left:
            self.group = 0
        elif time.monotonic() >= min(self.alive_until, self.kill_at):
            self.next_watch = float("inf")
            self._signal(signal.SIGKILL)
        elif time.monotonic() >= self.next_watch:
            self._watch()

    def _watch(self) -> None:
        """Kill it if it uses more than it may."""
        began = time.monotonic()
        rule = self._group_limit() or self._passed_limit()
        if rule is not None:
            self.kill_at = began
            self._signal(signal.SIGKILL)
            self._tell_over(rule)
        ended = time.monotonic()
        self.next_watch = float("inf") if rule else ended + max(WATCH, WATCH_SHARE * (ended - began))

    def _tell_over(self, rule: str | None) -> None:
        if rule is not None and not self.told_over:
            self.told_over = True
            _send(self.runner, {"over": [rule, self.limits[rule]]})

    def _group_limit(self) -> str | None:
        """The rule for which the system has refused something to the command's control group, or killed it."""
        group = self.control_group
        if group is None:
            return None
        if "processes" in self.limits and _counted(group / "pids.events", "max"):
            return "processes"
        # Only with both was it this group's own limit: a fuller one above it kills, too.
        events = group / "memory.events"
        return (
            "memory" if "memory" in self.limits and _counted(events, "oom") and _counted(events, "oom_kill") else None
        )

    def _passed_limit(self) -> str | None:
        """The rule that the tree of the command's processes breaks."""
        grouped = self.control_group is not None
        if grouped and "written" not in self.limits:
            return None
        pids = descendants(os.getpid())
        if not grouped and len(pids) > self.limits.get("processes", len(pids)):
            return "processes"
        if not grouped and "memory" in self.limits and sum(map(_resident, pids)) > self.limits["memory"]:
            return "memory"
        if "written" in self.limits:  # what the dead wrote is counted with who waited for them, in the end with us
            written = sum(map(_written, map(str, pids))) + _written("self") - self.written_before
            return "written" if written > self.limits["written"] else None
        return None

    def _reap(self) -> tuple[int | None, bool]:
        """Collect the dead. The command's exit status (negative for a signal) if it is among them; whether any live."""
        found = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:  # exact on Linux: whoever lost its parent is a child of ours
                return found, not LINUX and self._group_lives()
            if pid == 0:
                return found, True
            if pid == self.group and not self.ended:
                found = os.waitstatus_to_exitcode(status)

    def _group_lives(self) -> bool:
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
            freeze(os.getpid())  # what has left its group, or has none
        with suppress(OSError):  # nobody may be left in the group
            os.killpg(self.group, number)
        if LINUX:
            signal_all(os.getpid(), number)

    def _end_all(self) -> None:
        while self.group:
            self._signal(signal.SIGKILL)
            if not self._reap()[1]:
                break
            time.sleep(TICK)
        if self.control_group is not None:
            with suppress(OSError):  # its maker was here first; what the command made within it, a worker sweeps
                self.control_group.rmdir()

    def _resource_limits(self) -> list[tuple[int, int]]:
        """What the system holds for each process by itself."""
        numbers = {"file": resource.RLIMIT_FSIZE, "cpu": resource.RLIMIT_CPU}
        if self.control_group is None:  # a group counts what is used, not what is asked for
            numbers["memory"] = resource.RLIMIT_DATA
        return [(number, self.limits[name]) for name, number in numbers.items() if name in self.limits]


def _kill_group(group: Path) -> None:
    with suppress(OSError):  # before Linux 5.14 there is no such file, and each process is killed by itself
        descriptor = os.open(group / "cgroup.kill", os.O_WRONLY)
        try:
            os.write(descriptor, b"1")
        finally:
            os.close(descriptor)


def _counted(file: Path, name: str) -> int:
    """A counter of a control group."""
    with suppress(OSError):  # the group is gone
        for line in file.read_text("utf-8").splitlines():
            if line.startswith(f"{name} "):
                return int(line.split()[1])
    return 0


def _nothing(_number: int, _frame: object) -> None:
    """A handler, so that the signal is written to the wake-up descriptor."""


def _resident(pid: int) -> int:
    """Bytes of memory that a process holds."""
    with suppress(OSError):  # it may have ended meanwhile
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * PAGE
    return 0


def _written(pid: str) -> int:
    """Bytes that a process has written, with those of its children that it has waited for."""
    with suppress(OSError, IndexError):  # it may have ended meanwhile, or belong to somebody else now
        return int(Path(f"/proc/{pid}/io").read_bytes().split()[3])
    return 0


def _receive(runner: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
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


def _send(runner: socket.socket, message: dict[str, Any]) -> None:
    body = json.dumps(message).encode()
    with suppress(OSError):  # the runner may be gone; the loop sees it
        runner.sendall(struct.pack("!I", len(body)) + body)


def main(descriptor: int) -> None:
    """Serve the socket of this descriptor."""
    if not guarded(descriptor):
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN if number == signal.SIGPIPE else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    runner = socket.socket(fileno=descriptor)
    runner.set_inheritable(False)
    Supervisor(runner).serve()
