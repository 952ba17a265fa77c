"""A Redis and workers of a benchmark's own, the same for both sides of each comparison."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from tellback.errors import Unavailable
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.up.redis_server import configuration, find_program

CONCURRENCY = 2


@dataclass(frozen=True, slots=True)
class BenchmarkSystem:
    """An empty Redis, and the means to start workers on it."""

    settings: Settings
    folder: Path
    database: Database
    stack: ExitStack

    def worker(self, app: str, queue: str, *options: str) -> subprocess.Popen[bytes]:
        """Start a prefork worker and return it; it ends with the system."""
        command = [
            *(sys.executable, "-m", "celery", "-A", app, "worker", "-Q", queue, "-n", f"{queue}@bench"),
            *("--pool=prefork", f"--concurrency={CONCURRENCY}", "--without-gossip", "--without-mingle"),
            *("--loglevel=INFO", *options),
        ]
        environment = {
            **os.environ,
            "TELLBACK_REDIS_URL": self.settings.redis_url,
            "TELLBACK_DATA_DIR": self.settings.data_dir,
        }
        log = self.folder / f"{queue}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
        self.stack.callback(_end, process)
        wait(lambda: " ready." in log.read_text(), 60)
        return process


@contextmanager
def system() -> Generator[BenchmarkSystem]:
    """A system in a folder of its own."""
    with TemporaryDirectory(prefix="tellback-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        with (folder / "redis.log").open("wb") as log:
            server = subprocess.Popen([find_program(folder).path, "-"], stdin=subprocess.PIPE, stdout=log, stderr=log)
        stack.callback(_end, server)
        assert server.stdin is not None
        server.stdin.write(configuration(port=port, password="bench", folder=folder))
        server.stdin.close()
        settings = Settings(redis_url=f"redis://:bench@127.0.0.1:{port}/0", data_dir=str(folder))
        database = Database(settings.redis_url)
        stack.callback(database.close)
        wait(lambda: _answers(database), 10)
        yield BenchmarkSystem(settings, folder, database, stack)


def cpu_seconds() -> float:
    """Processor time of this process and all that it started: unlike elapsed time, a busy machine hardly changes it.

    A child that has ended counts too, because its parent has its time.
    """
    times = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):  # it ended since the list was made
            used = process.cpu_times()
            times += used.user + used.system + used.children_user + used.children_system
    return times


def wait(predicate: Callable[[], bool], seconds: float) -> None:
    """Return when it holds."""
    end = time.monotonic() + seconds
    while not predicate():
        if time.monotonic() > end:
            raise SystemExit("the benchmark's own system did not come up, or lost what it was given")
        time.sleep(0.005)


def _answers(database: Database) -> bool:
    try:
        return bool(database.command("PING"))
    except Unavailable:
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
