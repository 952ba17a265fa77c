"""A Redis and workers of a benchmark's own, the same for both sides of each comparison."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from tellback.settings import Settings
from tellback.state.database import Database
from tellback.up.redis_server import configuration, find_program
from tests.support.waiting import answers

CONCURRENCY = 2
PASSWORD = "bench"


@dataclass(frozen=True, slots=True)
class BenchmarkSystem:
    """An empty Redis, and the means to start workers on it."""

    settings: Settings
    folder: Path
    database: Database
    stack: ExitStack
    port: int
    password: str = PASSWORD

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
        server.stdin.write(configuration(port=port, password=PASSWORD, folder=folder))
        server.stdin.close()
        settings = Settings(redis_url=f"redis://:{PASSWORD}@127.0.0.1:{port}/0", data_dir=str(folder))
        database = Database(settings.redis_url)
        stack.callback(database.close)
        wait(lambda: answers(database), 10)
        yield BenchmarkSystem(settings, folder, database, stack, port)


@dataclass(frozen=True, slots=True)
class CpuSeconds:
    """Processor time of the host (this process), Redis and workers; a busy machine hardly changes it."""

    host: float
    redis: float
    workers: float

    def of_each(self, begun: CpuSeconds, amount: int) -> str:
        """Return what one of `amount` cost since `begun`, in microseconds, by process."""
        parts = (self.host - begun.host, self.workers - begun.workers, self.redis - begun.redis)
        host, workers, redis = (part / amount * 1e6 for part in parts)
        return f"host {host:.1f}, worker {workers:.1f}, Redis {redis:.1f}"


def cpu_by_process() -> CpuSeconds:
    """Return the processor time so far of this process and all that it started."""
    own = psutil.Process()
    redis = workers = 0.0
    for process in own.children(recursive=True):
        try:
            name, seconds = process.name(), _seconds_of(process)
        except psutil.NoSuchProcess:  # a command, for example, that has ended since
            continue
        if name.startswith("redis-server"):
            redis += seconds
        else:
            workers += seconds
    return CpuSeconds(_seconds_of(own), redis, workers)


def cpu_seconds() -> float:
    """Return the processor time of this process and all that it started."""
    now = cpu_by_process()
    return now.host + now.redis + now.workers


def _seconds_of(process: psutil.Process) -> float:
    """Return its processor time, with that of its children that have ended, such as commands."""
    times = process.cpu_times()
    return times.user + times.system + times.children_user + times.children_system


def wait(predicate: Callable[[], bool], seconds: float) -> None:
    """Return when it holds."""
    end = time.monotonic() + seconds
    while not predicate():
        if time.monotonic() > end:
            raise SystemExit("the benchmark's own system did not come up, or lost what it was given")
        time.sleep(0.005)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
