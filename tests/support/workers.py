"""Real Celery worker processes for tests, each with its log in a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypedDict, Unpack

import psutil

from tellback.settings import Settings
from tests.support.forked import ForkedProcess, fork_celery
from tests.support.processes import tree_of
from tests.support.waiting import wait_until

APP = "tellback_workers.app"
STARTED = "ready."


def environment(settings: Settings, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child process with these settings."""
    default = Settings()
    given = {
        f"TELLBACK_{name.upper()}": str(getattr(settings, name))
        for name in Settings.__struct_fields__
        if getattr(settings, name) != getattr(default, name)
    }
    return {**os.environ, **given, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1", **(extra or {})}


WorkerProcess = subprocess.Popen[bytes] | ForkedProcess


def _settled(process: WorkerProcess, log: Path) -> bool:
    return process.poll() is not None or STARTED in log.read_text()


class Workers:
    """Some `celery worker` processes of one configuration.

    `forked` ones start in a fourth of the processor time (`tests.support.forked`), but their `/proc` shows neither
    their arguments nor their environment.
    """

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        *,
        queues: str | None = None,
        pool: str = "prefork",
        concurrency: int = 2,
        env: Mapping[str, str] | None = None,
        app: str = APP,
        prefix: Sequence[str] = (),
        forked: bool = False,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._options = [f"--pool={pool}", f"--concurrency={concurrency}", *([f"-Q{queues}"] if queues else [])]
        # billiard keeps a directory for as long as a worker lives; that of a killed one goes with the test's folder.
        self._env = environment(settings, {"TMPDIR": str(folder), **(env or {})})
        self._app = app
        self._prefix = prefix
        self._forked = forked and not prefix and "PYTHONPATH" not in (env or {})  # which only a new Python reads
        self.processes: list[WorkerProcess] = []
        self.logs: list[Path] = []
        self._log_of: dict[int, Path] = {}

    def start(self, n: int = 1) -> None:
        """Start `n` more and wait until all are ready."""
        for _ in range(n):
            self.launch()
        self.wait_ready()

    def wait_ready(self) -> None:
        """Return when every process that was launched and lives has said that it is ready."""
        for process in self.processes:
            log = self._log_of[process.pid]
            wait_until(partial(_settled, process, log), f"a worker is ready, see {log}")
            assert process.poll() is None, log.read_text()

    def kill(self, index: int = 0) -> None:
        """SIGKILL one worker with its pool, as the death of its host would."""
        process = self.processes.pop(index)
        for member in tree_of(process):  # itself first, so that it starts no other
            with suppress(psutil.NoSuchProcess):
                member.kill()
        process.wait()

    def kill_all(self) -> None:
        """SIGKILL all of them: a warm shutdown takes an idle worker seconds, and most tests prove nothing by it."""
        while self.processes:
            self.kill()

    def children(self, index: int = 0) -> list[psutil.Process]:
        """The pool processes of one worker."""
        return psutil.Process(self.processes[index].pid).children()

    def stop(self) -> None:
        """SIGTERM, then SIGKILL what is still there."""
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        while self.processes:
            try:
                self.processes[0].wait(timeout=15)
            except subprocess.TimeoutExpired:
                self.kill()
            else:
                self.processes.pop(0)

    def log(self) -> str:
        """The log lines of all of them."""
        return "\n".join(path.read_text() for path in self.logs)

    def launch(self) -> None:
        """Start one more without waiting for it."""
        name = f"w{len(self.logs)}-{os.getpid()}"
        log = self._folder / f"{name}.log"
        arguments = ["-A", self._app, "worker", "-E", "-n", f"{name}@test", "--loglevel=INFO"]
        arguments += ["--without-gossip", "--without-mingle", *self._options]
        process = self._fork(arguments, log) if self._forked else self._run(arguments, log)
        self.processes.append(process)
        self.logs.append(log)
        self._log_of[process.pid] = log

    def _run(self, arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
        command = [*self._prefix, sys.executable, "-m", "celery", *arguments]
        with log.open("wb") as out:
            return subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=self._env)

    def _fork(self, arguments: list[str], log: Path) -> ForkedProcess:
        log.touch()
        return fork_celery(arguments, self._env, log)


class WorkerOptions(TypedDict, total=False):
    """The options of `Workers`."""

    queues: str
    pool: str
    concurrency: int
    env: Mapping[str, str]
    app: str
    prefix: Sequence[str]
    forked: bool


class StartWorkers:
    """The fixture `start_workers`; what it starts is killed when the test ends."""

    def __init__(self, settings: Settings, folder: Path, *, forked: bool) -> None:
        self._settings = settings
        self._folder = folder
        self._forked = forked
        self._started: list[Workers] = []

    def __call__(self, n: int = 1, **options: Unpack[WorkerOptions]) -> Workers:
        """Start `n` worker processes."""
        options.setdefault("forked", self._forked)
        workers = Workers(self._settings, self._folder, **options)
        self._started.append(workers)
        workers.start(n)
        return workers

    def kill_all(self) -> None:
        for workers in self._started:
            workers.kill_all()


@contextmanager
def stopped(workers: Workers) -> Generator[None]:
    """The worker with its pool does nothing."""
    members = tree_of(workers.processes[0])
    for member in members:
        member.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for member in members:
            member.send_signal(signal.SIGCONT)
