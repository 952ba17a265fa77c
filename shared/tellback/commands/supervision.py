"""The runner's side of a supervisor: starting one, exchanging messages with it, and keeping it for the next command.

Starting a supervisor starts a Python interpreter, so idle ones are kept and reused.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_HEADER = struct.Struct("!I")
_READ = 1 << 16
# Isolated (-I -S) and imported by path: it starts faster, and a module in the user's path cannot shadow ours.
_HOME = str(Path(__file__).parents[2])
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from tellback.commands.supervisor import main; main(int(sys.argv[2]))"
)


# The loader's and the locale's variables; the clock's of `faketime`, with which tests move it.
_PASSED_ON = re.compile(r"(?:LD_|DYLD_|LC_|LANG|FAKETIME).*")


def _environment() -> dict[str, str]:
    """Return the supervisor's environment, without the worker's secrets.

    A command could read them in /proc before the supervisor, which starts in 20 ms, has had time to forbid it.
    """
    return {name: value for name, value in os.environ.items() if _PASSED_ON.fullmatch(name)}


class SupervisorProcess:
    """A running supervisor. When this end of its socket closes, it kills what it started and exits."""

    def __init__(self) -> None:
        # In a session of its own, so that a signal to our process group does not kill the process that cleans up.
        self._received = bytearray()
        self.socket, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _PROGRAM, _HOME, str(theirs.fileno())],
                    cwd="/",
                    env=_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
        except OSError:  # out of processes or descriptors: keep none ourselves
            self.socket.close()
            raise

    @property
    def alive(self) -> bool:
        """True while the supervisor runs."""
        return self._process.poll() is None

    def send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send one message, with the descriptors attached to its first bytes.

        Raises:
            OSError: the supervisor is gone.
        """
        body = json.dumps(message).encode()  # not msgspec, which refuses surrogates: file names need not be Unicode
        data = _HEADER.pack(len(body)) + body
        self.socket.sendall(data[socket.send_fds(self.socket, [data], list(descriptors)) :])

    def receive(self) -> list[dict[str, Any]] | None:
        """Wait for data, and return the messages that are complete, or None if the supervisor is gone."""
        try:
            data = self.socket.recv(_READ)
        except OSError:
            return None
        if not data:
            return None
        self._received += data
        messages: list[dict[str, Any]] = []
        while len(self._received) >= _HEADER.size:
            end = _HEADER.size + _HEADER.unpack_from(self._received)[0]
            if len(self._received) < end:
                break
            messages.append(json.loads(self._received[_HEADER.size : end]))
            del self._received[:end]
        return messages

    def kill(self) -> None:
        """Kill the supervisor at once; on Linux its guardian then kills everything that it started."""
        self._process.terminate()
        self.close()
        self._process.kill()

    def close(self) -> None:
        """Tell the supervisor to clean up and exit, and wait for up to a second."""
        self.socket.close()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            with _lock:
                _late_supervisors.append(self._process)

    def detach_after_fork(self) -> None:
        """Let go of the parent's supervisor in a forked child."""
        self.socket.close()
        self._process.returncode = 0  # not a child of this process, so `Popen` must not wait for it here


_lock = threading.Lock()
_idle_supervisors: list[SupervisorProcess] = []
_late_supervisors: list[subprocess.Popen[bytes]] = []
"""Those that took longer than a second to exit, so that the next command finds no zombie of them."""


@contextmanager
def borrow_supervisor() -> Generator[SupervisorProcess]:
    """Yield an idle supervisor; keep it for the next command, or close it if the block raises."""
    with _lock:
        _late_supervisors[:] = [late for late in _late_supervisors if late.poll() is None]
        supervisor = _idle_supervisors.pop() if _idle_supervisors else None
    if supervisor is not None and not supervisor.alive:
        supervisor.close()
        supervisor = None
    supervisor = supervisor or SupervisorProcess()
    try:
        yield supervisor
    except BaseException:
        supervisor.close()
        raise
    with _lock:
        _idle_supervisors.append(supervisor)


def close_idle() -> None:
    """Close the idle supervisors."""
    with _lock:
        closing, _idle_supervisors[:] = _idle_supervisors[:], []
    for supervisor in closing:
        supervisor.close()


def _forget_after_fork() -> None:
    global _lock  # noqa: PLW0603 - another thread of the parent may have held it at the fork
    _lock = threading.Lock()
    while _idle_supervisors:
        _idle_supervisors.pop().detach_after_fork()


atexit.register(close_idle)
os.register_at_fork(after_in_child=_forget_after_fork)
