"""The guard: whatever kills the supervisor, nothing of the system stays behind.

`tellback up` forks. The child supervises; its parent, which the user started, only waits. Each notices the other's
death: the supervisor by a socket that closes, the guard by `waitpid`. The one that is left ends the system. On Linux
both are subreapers, so that what lost its parent comes back to them, and the supervisor's children die with it
(`launch.py`) even if both are killed at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

PR_SET_CHILD_SUBREAPER: Final = 36
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

Supervise = Callable[[socket.socket], int]


def run_guarded(supervise: Supervise) -> int:
    """Run `supervise` in a child process and return its exit code; 1 if it was killed.

    It is given a socket that reads end of file when the guard has died, and on which it writes a line `PID` for each
    process group that it starts and `-PID` when that one has ended. Call it before any thread is started.
    """
    ours, theirs = socket.socketpair()
    become_subreaper()
    sys.stdout.flush()
    sys.stderr.flush()
    supervisor = os.fork()
    if supervisor == 0:
        ours.close()
        _supervise(supervise, theirs)
    theirs.close()
    for number in STOP_SIGNALS:
        signal.signal(number, lambda _number, _frame: _forward(supervisor))
    _, status = os.waitpid(supervisor, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        sys.stderr.write(f"tellback up: the supervisor was killed ({signal.Signals(-code).name}); all is ended\n")
        _kill_groups(ours)
    kill_descendants()
    return code if code >= 0 else 1


def become_subreaper() -> None:
    """On Linux, have orphaned descendants come to this process and not to init."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_descendants() -> None:
    """Kill and reap every child of this process, and on Linux whatever comes back to it as they end."""
    while children := _children():
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _supervise(supervise: Supervise, guard: socket.socket) -> None:
    """In the child: never returns into the parent's code."""
    code = 1
    try:
        os.setsid()  # the terminal's Ctrl-C goes to the guard alone, which passes it on
        become_subreaper()
        code = supervise(guard)
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - the parent's stack below this frame must not run twice
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _forward(supervisor: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(supervisor, signal.SIGTERM)


def _kill_groups(supervisor: socket.socket) -> None:
    """Kill the process groups that the dead supervisor had told of and that had not ended."""
    told = b""
    while chunk := supervisor.recv(65536):
        told += chunk
    lines = told.splitlines()
    for line in lines:
        if not line.startswith(b"-") and b"-" + line not in lines:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(int(line), signal.SIGKILL)


def _children() -> list[int]:
    """Children of this process, by /proc; elsewhere none, since there only process groups are known."""
    found: list[int] = []
    for status in Path("/proc").glob("[0-9]*/stat") if sys.platform == "linux" else ():
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = status.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                found.append(int(status.parent.name))
    return found
