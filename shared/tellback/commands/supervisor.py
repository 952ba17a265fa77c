"""A process of its own that starts commands and ends all that they started; run by path, standard library only.

It stands between a runner and its commands so that nothing outlives the runner. It leads its own session, adopts what
a command's children leave behind (Linux: PR_SET_CHILD_SUBREAPER), and kills everything when its runner's socket closes,
when its runner's process is gone, or when the runner has let `ttl` pass without saying that it lives. A command dies
with its supervisor (Linux: PR_SET_PDEATHSIG). Starting a command from this small single-threaded process is also what
makes code between fork and exec safe. It runs one command at a time.

Both ways, a message is a 4-byte length and a JSON object. From the runner: `{"op": "start", "argv", "cwd", "env",
"ttl", "limits"}` with the two output descriptors, `{"op": "stop", "grace"}`, `{"op": "alive", "ttl"}`. To the runner:
`{"error", "errno"}` or `{"pid"}`; `{"over"}` with the rule and the limit when it is killed for passing one; then
`{"status", "ms", "idle", "overdue"}` when the command has ended, and `{"idle": true}` when nothing that it started is
alive. On macOS only the command's process group can be found and killed, and only limits of single processes hold.

Limits of single processes are the system's (setrlimit). Those of the whole tree are held by looking at it: the system's
own limit of processes is one of the user, and does not bind root.
"""

from __future__ import annotations

import array
import ctypes
import errno
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
TICK = 0.02  # between looks at what is left of a command, in seconds
WATCH = 0.01  # between looks at what a limited command uses, in seconds; longer where a look takes long
WATCH_SHARE = 4  # of the time, looking may take a fifth
FREEZES = 100  # rounds at most to find what forks while it is being stopped
PAGE = resource.getpagesize()
LIFE_CHECK = 1.0  # between looks at the runner, in seconds
LINUX = sys.platform.startswith("linux")
LIBC = ctypes.CDLL(None, use_errno=True)


class Supervisor:
    """One runner's commands, one at a time."""

    def __init__(self, runner: socket.socket) -> None:
        self.runner = runner
        self.runner_pid = os.getppid()
        self.wake = self._wake_on_child()
        self.child: subprocess.Popen[bytes] | None = None
        self.group = 0  # the command's process group while anything of it may live
        self.ended = False
        self.started = 0.0
        self.alive_until = float("inf")
        self.kill_at = float("inf")
        self.limits: dict[str, int] = {}
        self.written_before = 0
        self.next_watch = float("inf")
        if LINUX:
            LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def serve(self) -> None:
        """Until the runner is gone; nothing is left alive then."""
        try:
            while os.getppid() == self.runner_pid:
                readable, _, _ = select.select([self.runner, self.wake], [], [], self._patience())
                if self.wake in readable:
                    self.wake.recv(4096)
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
        stdout, stderr = descriptors
        self.limits = {name: limit for name, limit in message["limits"].items() if limit is not None}
        try:
            self.child = subprocess.Popen(  # noqa: S603 - running what it is told is its purpose
                message["argv"],
                cwd=message["cwd"],
                env=message["env"],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                preexec_fn=partial(_prepare, _resource_limits(self.limits)),  # noqa: PLW1509 - one thread here
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            _send(self.runner, {"error": str(error), "errno": getattr(error, "errno", None)})
            return
        finally:
            os.close(stdout)
            os.close(stderr)
        self.group, self.ended, self.started = self.child.pid, False, time.monotonic()
        self.alive_until = time.monotonic() + message["ttl"] if message["ttl"] else float("inf")
        self.kill_at = float("inf")
        self.written_before = _written("self")
        watched = LINUX and not self.limits.keys().isdisjoint(("memory", "processes", "written"))
        self.next_watch = self.started if watched else float("inf")
        _send(self.runner, {"pid": self.child.pid})

    def _look(self) -> None:
        """Reap, tell, and kill what has had its time."""
        if not self.group:
            return
        status, left = self._reap()
        if status is not None:
            self.ended = True
            took = round((time.monotonic() - self.started) * 1000)
            overdue = time.monotonic() >= self.alive_until
            _send(self.runner, {"status": status, "ms": took, "idle": not left, "overdue": overdue})
        elif self.ended and not left:
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
        rule = self._passed_limit(_descendants(os.getpid()))
        if rule is not None:
            self.kill_at = began
            self._signal(signal.SIGKILL)
            _send(self.runner, {"over": [rule, self.limits[rule]]})
        ended = time.monotonic()
        self.next_watch = float("inf") if rule else ended + max(WATCH, WATCH_SHARE * (ended - began))

    def _passed_limit(self, pids: list[int]) -> str | None:
        """The rule that the tree of these processes breaks."""
        if len(pids) > self.limits.get("processes", len(pids)):
            return "processes"
        if "memory" in self.limits and sum(map(_resident, pids)) > self.limits["memory"]:
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
            if self.child is not None and pid == self.child.pid:
                found = self.child.returncode = os.waitstatus_to_exitcode(status)

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
            _freeze(os.getpid())
        with suppress(OSError):  # nobody may be left in the group
            os.killpg(self.group, number)
        for pid in _descendants(os.getpid()) if LINUX else []:
            with suppress(OSError):  # it may have ended meanwhile
                os.kill(pid, number)

    def _end_all(self) -> None:
        while self.group:
            self._signal(signal.SIGKILL)
            if not self._reap()[1]:
                return
            time.sleep(TICK)


def _prepare(limits: list[tuple[int, int]]) -> None:
    """Runs between fork and exec."""
    for number, limit in limits:
        hard = resource.getrlimit(number)[1]  # of the worker itself: nobody but root may raise it
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(number, (value, value))
    if LINUX:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == 1:  # the supervisor died before it could be watched
            os.kill(os.getpid(), signal.SIGKILL)


def _resource_limits(limits: dict[str, int]) -> list[tuple[int, int]]:
    """What the system holds for each process by itself."""
    numbers = {"memory": resource.RLIMIT_DATA, "file": resource.RLIMIT_FSIZE, "cpu": resource.RLIMIT_CPU}
    return [(number, limits[name]) for name, number in numbers.items() if name in limits]


def _nothing(_number: int, _frame: object) -> None:
    """A handler, so that the signal is written to the wake-up descriptor."""


def _descendants(root: int) -> list[int]:
    """Every process below `root`, by one look at /proc (its `children` files may miss some)."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it may have ended meanwhile
                stat = (entry / "stat").read_bytes()
                children.setdefault(int(stat.rpartition(b")")[2].split()[1]), []).append(int(entry.name))
    found: list[int] = []
    parents = [root]
    while parents:
        below = children.get(parents.pop(), [])
        found += below
        parents += below
    return found


def _freeze(root: int) -> None:
    """Stop every process below `root`: what stands still starts no other while the rest is found and killed."""
    stopped: set[int] = set()
    for _ in range(FREEZES):
        found = set(_descendants(root)) - stopped
        if not found:
            return
        for pid in found:
            with suppress(OSError):  # it may have ended meanwhile
                os.kill(pid, signal.SIGSTOP)
        stopped |= found


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


def main() -> None:
    """Serve the socket whose descriptor is the first argument."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN if number == signal.SIGPIPE else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    Supervisor(socket.socket(fileno=int(sys.argv[1]))).serve()


if __name__ == "__main__":
    main()
