"""The runner's side of a supervisor: starting one, talking to it, and keeping it for the next command."""

from __future__ import annotations

import atexit
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_HEADER = struct.Struct("!I")
_READ = 1 << 16
# By path, and with nothing else of this interpreter's: it starts soon, and what shadows a module does not reach it.
_HOME = str(Path(__file__).parents[2])
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from tellback.commands.supervisor import main; main(int(sys.argv[2]))"
)


class SupervisorProcess:
    """A running supervisor. When this end of its socket closes, it kills what it started and exits."""

    def __init__(self) -> None:
        """Start it, in a session of its own: what kills this process group does not kill the one who cleans up."""
        self._received = bytearray()
        self.socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, our own file
                [sys.executable, "-I", "-S", "-c", _PROGRAM, _HOME, str(theirs.fileno())],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send one message; descriptors travel with its first bytes.

        Raises:
            OSError: the supervisor is gone.
        """
        body = json.dumps(message).encode()  # not msgspec, which refuses the bytes of names that are no Unicode
        data = _HEADER.pack(len(body)) + body
        self.socket.sendall(data[socket.send_fds(self.socket, [data], list(descriptors)) :])

    def receive(self) -> list[dict[str, Any]] | None:
        """Wait for messages, if none has come, and return those that are complete; None when the supervisor is gone."""
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
        """End it at once; on Linux its guardian then ends all that it started."""
        self._process.terminate()
        self.close()
        self._process.kill()

    def close(self) -> None:
        """Let it clean up and exit; does not wait for more than a moment."""
        self.socket.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)

    def forget(self) -> None:
        """In a forked child: this supervisor is the parent's."""
        self.socket.close()
        self._process.returncode = 0  # not this process's child: nobody may wait for it here


_lock = threading.Lock()
_idle: list[SupervisorProcess] = []


@contextmanager
def borrowed() -> Generator[SupervisorProcess]:
    """A supervisor with nothing to do; kept for the next command unless the block raises, which ends it."""
    with _lock:
        supervisor = _idle.pop() if _idle else None
    if supervisor is None or not supervisor.alive:
        supervisor = SupervisorProcess()
    try:
        yield supervisor
    except BaseException:
        supervisor.close()
        raise
    with _lock:
        _idle.append(supervisor)


def close_idle() -> None:
    """End the supervisors that wait for a next command."""
    with _lock:
        closing, _idle[:] = _idle[:], []
    for supervisor in closing:
        supervisor.close()


def _forget_after_fork() -> None:
    global _lock  # noqa: PLW0603 - another thread of the parent may have held it
    _lock = threading.Lock()
    while _idle:
        _idle.pop().forget()


atexit.register(close_idle)
os.register_at_fork(after_in_child=_forget_after_fork)
