"""The process tree of a command: finding and killing it by /proc, and the guardian that does so if the supervisor dies.

    runner ── guardian ── supervisor ── the command and everything that it starts

On Linux a process that loses its parent is adopted by its nearest ancestor that asked for it (PR_SET_CHILD_SUBREAPER).
So an adopting process finds everything below itself, even after setsid or a double fork. The guardian only waits, so
little can happen to it; if it is killed, the supervisor ends everything. The alternative was that each command asks the
kernel for a signal at its supervisor's death. Only the forked child can ask, which costs a full fork for each command,
the most expensive part of a short one, and the command's own children would survive anyway.

What processes use is read here too: memory from /proc, written bytes, and the counters of a control group. Standard
library only: psutil would cost each supervisor a third of its start (docs/decisions/libraries.md).
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from tellback.process_privacy import forbid_dumps

PR_SET_PDEATHSIG = 1

PR_SET_CHILD_SUBREAPER = 36

MAX_FREEZE_ROUNDS = 100  # a process may fork before it is stopped, so each round looks for new ones

PAGE = resource.getpagesize()

LINUX = sys.platform.startswith("linux")

LIBC = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Adopt every descendant that loses its parent, on Linux; do nothing elsewhere."""
    if LINUX:
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def signal_on_parents_death(number: int) -> None:
    """Ask the kernel to signal this process when its parent dies, on Linux; do nothing elsewhere."""
    if LINUX:
        LIBC.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)


def descendants(root: int) -> list[int]:
    """Return the ids of every process below `root`, by one pass over /proc."""
    # Not by /proc/PID/task/TID/children: the kernel may omit entries there if a process exits meanwhile.
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it may have exited
                stat = (entry / "stat").read_bytes()
                children.setdefault(int(stat.rpartition(b")")[2].split()[1]), []).append(int(entry.name))
    found: list[int] = []
    parents = [root]
    while parents:
        below = children.get(parents.pop(), [])
        found += below
        parents += below
    return found


def freeze_tree(root: int) -> None:
    """Stop every process below `root`, because a stopped process cannot fork while the others are being killed."""
    stopped: set[int] = set()
    for _ in range(MAX_FREEZE_ROUNDS):
        found = set(descendants(root)) - stopped
        if not found:
            return
        for pid in found:
            with suppress(OSError):  # it may have exited
                os.kill(pid, signal.SIGSTOP)
        stopped |= found


def signal_tree(root: int, number: int) -> None:
    """Send a signal to every process below `root`."""
    for pid in descendants(root):
        with suppress(OSError):  # it may have exited
            os.kill(pid, number)


LIFE_CHECK = 1.0  # seconds between checks that the runner is alive

CHECK_INTERVAL = 0.02  # seconds between checks that all processes are gone


def split_off_guardian(descriptor: int) -> bool:
    """Fork into guardian and supervisor; return True in the supervisor, and False in the guardian once it is done.

    `descriptor` is the runner's socket. Only the supervisor keeps it open, so its end of file tells the runner that the
    supervisor is gone. On macOS, which does not adopt orphans, this process becomes the supervisor.
    """
    if not LINUX:
        return True
    become_subreaper()
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD, signal.SIGTERM))
    guardian, runner = os.getpid(), os.getppid()
    supervisor = os.fork()
    if supervisor:
        os.close(descriptor)
        forbid_dumps()
        _guard_supervisor(supervisor, runner)
        return False
    signal_on_parents_death(signal.SIGTERM)
    os.setsid()
    if os.getppid() != guardian:  # it died before its death could be watched
        os.kill(os.getpid(), signal.SIGTERM)
    return True


def _guard_supervisor(supervisor: int, runner: int) -> None:
    """Wait for the supervisor's end, and kill it if the runner is gone or sends SIGTERM; then kill the whole tree."""
    while os.waitpid(supervisor, os.WNOHANG) == (0, 0):
        received = signal.sigtimedwait((signal.SIGCHLD, signal.SIGTERM), LIFE_CHECK)
        if os.getppid() != runner or (received is not None and received.si_signo == signal.SIGTERM):
            with suppress(OSError):
                os.kill(supervisor, signal.SIGKILL)
    while _has_processes():
        freeze_tree(os.getpid())
        signal_tree(os.getpid(), signal.SIGKILL)
        time.sleep(CHECK_INTERVAL)


def _has_processes() -> bool:
    """Reap dead children; return True if a process is left below this one."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return False
    return True


def resident_bytes(pid: int) -> int:
    """Return the memory that a process has in use."""
    with suppress(OSError):  # it may have exited
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * PAGE
    return 0


def written_bytes(pid: int) -> int:
    """Return the bytes that a process and its reaped children have written."""
    with suppress(OSError, IndexError):  # it may have exited, or belong to another user now
        return _written(Path(f"/proc/{pid}/io").read_bytes())
    return 0


class OwnWrites:
    """The bytes that this process and its reaped children have written.

    Open it before `forbid_dumps`, which makes `/proc/self/io` root's. A descriptor opened earlier still reads it.
    """

    def __init__(self) -> None:
        self._descriptor: int | None = None
        with suppress(OSError):  # no such file: not Linux
            self._descriptor = os.open("/proc/self/io", os.O_RDONLY)

    def count(self) -> int:
        """Return the bytes written so far."""
        return 0 if self._descriptor is None else _written(os.pread(self._descriptor, 4096, 0))


def _written(text: bytes) -> int:
    return int(text.split()[3])


def cgroup_counter(file: Path, name: str) -> int:
    """Return one counter of a control group's file of events."""
    with suppress(OSError):  # the group is gone
        for line in file.read_text("utf-8").splitlines():
            if line.startswith(f"{name} "):
                return int(line.split()[1])
    return 0
