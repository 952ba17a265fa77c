"""Local processes in the place of pytest-celery's containers: the same nodes, with no engine."""

from __future__ import annotations

import signal as signals
from pathlib import Path
from typing import Any, Protocol

from tellback import Settings
from tests.support.redis_server import RedisServer
from tests.support.workers import Workers


class Node(Protocol):
    """The part of a pytest-celery node that the tests use."""

    container: Any

    def kill(self, signal: str | int = "SIGKILL") -> None: ...
    def restart(self) -> None: ...
    def assert_log_exists(self, log: str) -> None: ...


class LocalBroker:
    """A redis-server with the interface of a container of pytest-celery."""

    name = id = "local-broker"

    def __init__(self, folder: Path) -> None:
        self.server = RedisServer.start(folder)
        self.status = "running"

    @property
    def celeryconfig(self) -> dict[str, Any]:
        return {"url": self.server.url, "host_url": self.server.url}

    def ready(self) -> bool:
        return self.status == "running"

    def logs(self) -> str:
        return (self.server.folder / "redis.log").read_text()

    def kill(self, signal: str | int = "SIGKILL") -> None:
        self.server.kill()
        self.status = "exited"

    def empty(self) -> None:
        """Lose everything: the process and its data."""
        self.kill()
        for file in self.server.folder.glob("appendonlydir/*"):
            file.unlink()

    def reload(self) -> None:
        """The status is always fresh."""

    def restart(self, timeout: float = 10) -> None:
        self.server.restart()
        self.status = "running"

    def teardown(self) -> None:
        self.server.kill()


class LocalWorker:
    """A `celery worker` process with the interface of a container of pytest-celery."""

    name = id = "local-worker"

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._workers = Workers(settings, folder, concurrency=1, queues="events,sweeps")
        self._workers.launch()

    @property
    def celeryconfig(self) -> dict[str, Any]:
        return {}

    @property
    def status(self) -> str:
        return "running" if self._workers.processes and self._workers.processes[0].poll() is None else "exited"

    def ready(self) -> bool:
        self._workers.wait_ready()
        return True

    def logs(self) -> str:
        return self._workers.log()

    def kill(self, signal: str | int = "SIGKILL") -> None:
        number = signals.Signals[signal] if isinstance(signal, str) else signals.Signals(signal)
        if number is signals.SIGKILL:
            self._workers.kill()
        else:
            self._workers.processes[0].send_signal(number)
            self._workers.processes.pop(0).wait(timeout=60)

    def reload(self) -> None:
        """The status is always fresh."""

    def restart(self, timeout: float = 10) -> None:
        self._workers.stop()
        self._workers.start()

    def teardown(self) -> None:
        self._workers.stop()
