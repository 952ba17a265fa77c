"""The guard: whatever kills the supervisor, no process of the system stays behind.

`tellback up` forks. The child supervises; its parent, which the user started, only waits. Each detects the other's
death: the supervisor by a closed socket, the guard by `waitpid`. The survivor ends the system. On Linux both are
subreapers, so they adopt orphaned descendants; and the supervisor's children die with it (`launch.py`) even if both
are killed at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Final

import psutil

from tellback.commands.process_tree import become_subreaper
from tellback.commands.start_errors import signal_name

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

Supervise = Callable[[socket.socket], int]


def run_guarded(supervise: Supervise) -> int:
    """Run `supervise` in a child process and return its exit code; 1 if it was killed.

    `supervise` gets a socket. It reads end of file when the guard has died, and takes a line `PID` for each process
    group that was started and `-PID` once that group has ended. Call this before any thread is started: it forks.
    """
    ours, theirs = socket.socketpair()
    become_subreaper()
    sys.stdout.flush()
    sys.stderr.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # until both processes handle them
    supervisor = os.fork()
    if supervisor == 0:
        ours.close()
        _run_supervisor(supervise, theirs)
    theirs.close()
    for number in STOP_SIGNALS:
        signal.signal(number, lambda _number, _frame: _forward_signals(supervisor))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _, status = os.waitpid(supervisor, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        sys.stderr.write(f"tellback up: the supervisor was killed ({signal_name(code)}); stopped everything\n")
        _kill_process_groups(ours)
    kill_descendants()
    return code if code >= 0 else 1


def kill_descendants() -> None:
    """Kill and reap every child of this process, and on Linux the orphans that it adopts as they end."""
    while children := psutil.Process().children():
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        for child in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child.pid, 0)


def _run_supervisor(supervise: Supervise, guard: socket.socket) -> None:
    """Run `supervise` in the forked child, and exit; never returns into the parent's code."""
    code = 1
    try:
        # `supervise` handles them before it starts anything. A Ctrl-C of the terminal may come before `setsid`.
        for number in STOP_SIGNALS:
            signal.signal(number, _stop_at_once)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        os.setsid()  # the terminal's Ctrl-C goes to the guard alone, which passes it on
        become_subreaper()
        code = supervise(guard)
    except BaseException:  # noqa: BLE001 - the parent's stack below this frame must not run twice
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # such as that of a full disk
                stream.flush()
        os._exit(code)


def _stop_at_once(_number: int, _frame: object) -> None:
    os._exit(0)


def _forward_signals(supervisor: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(supervisor, signal.SIGTERM)


def _kill_process_groups(supervisor: socket.socket) -> None:
    """Kill the process groups that the dead supervisor had reported as started and not as ended."""
    received = b""
    while chunk := supervisor.recv(65536):
        received += chunk
    lines = received.splitlines()
    for line in lines:
        if not line.startswith(b"-") and b"-" + line not in lines:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(int(line), signal.SIGKILL)
