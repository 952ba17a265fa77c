"""Processes that are forked from one that has imported what they need."""

from __future__ import annotations

import atexit
import faulthandler
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Final, cast

import psutil

from tellback.cli import entry

if TYPE_CHECKING:
    from io import TextIOWrapper

SERVED: Final = multiprocessing.get_context("forkserver")  # as `spawn`, but fifty start in the time of one
# No more of the workers' modules: some read the settings as they are imported, and some map memory that only the
# processes of one worker may share. With those, the first worker that stopped told all later ones to stop.
SERVED.set_forkserver_preload(
    [
        "tellback.cli.app",
        "tellback.client.connection",
        "tellback_workers.sweep_turns",
        "celery.apps.worker",
        "celery.bin.celery",
        "celery.concurrency.prefork",
        "celery.worker.consumer",
        "tellback.embedding.embedder",
        "tellback.guidance.registry",
        "tests.support.forked",
    ]
)

_UNKNOWN: Final = 255  # what multiprocessing says if the process that forks has died


class ForkedProcess:
    """A process that was forked for a test, with those methods of `subprocess.Popen` that tests of workers use."""

    def __init__(self, process: BaseProcess) -> None:
        self._process = process
        assert process.pid is not None
        self.pid = process.pid
        self._own: psutil.Process | None = None
        with suppress(psutil.NoSuchProcess):  # it has ended already
            self._own = psutil.Process(self.pid)

    def poll(self) -> int | None:
        code = self._process.exitcode
        # Once the process that forks has died, nobody reports the end of another: that reads as 255 while it lives on.
        return None if code == _UNKNOWN and self._lives() else code

    def _lives(self) -> bool:
        with suppress(psutil.NoSuchProcess):
            return self._own is not None and self._own.is_running() and self._own.status() != psutil.STATUS_ZOMBIE
        return False

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode == _UNKNOWN and self._own is not None:
            with suppress(psutil.TimeoutExpired):
                self._own.wait(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self._own is not None:
            with suppress(psutil.NoSuchProcess):
                self._own.send_signal(number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def fork_celery(arguments: Sequence[str], env: Mapping[str, str], log: Path) -> ForkedProcess:
    """Start `celery` in a process of its own, for a fourth of the processor time that a start of the program takes."""
    process = SERVED.Process(target=_run_celery, args=(list(arguments), dict(env), str(Path.cwd()), str(log)))
    process.start()
    return ForkedProcess(process)


def _run_celery(arguments: list[str], env: dict[str, str], cwd: str, log: str) -> None:
    _become(env, cwd, [os.devnull, log, log])
    # What these variables say is read where Python starts.
    cast("TextIOWrapper", sys.stdout).reconfigure(line_buffering=env.get("PYTHONUNBUFFERED") == "1")
    if env.get("PYTHONFAULTHANDLER"):
        faulthandler.enable()
    Thread(target=_die_with_tests, daemon=True).start()
    sys.argv = ["celery", *arguments]
    from celery.__main__ import main

    try:
        main()
    finally:
        atexit._run_exitfuncs()  # multiprocessing ends a process without them


def _die_with_tests() -> None:
    """End this worker, and its pool with it, when the process of the tests has died and can end it no more.

    The kernel would kill it with the process that forks. That one waits for its forks instead.
    """
    tests = multiprocessing.parent_process()
    assert tests is not None, "this process was forked"
    tests.join()
    os.kill(os.getpid(), signal.SIGKILL)


def run_tellback(arguments: list[str], env: Mapping[str, str], cwd: Path | None) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, for a tenth of what a start of the program costs.

    For tests of what a command does; those of how the program starts, is stopped, or reads its input start it.
    """
    with TemporaryDirectory() as folder:
        streams = [os.devnull, f"{folder}/out", f"{folder}/err"]
        process = SERVED.Process(target=_run, args=(arguments, dict(env), str(cwd or Path.cwd()), streams))
        process.start()
        process.join(60)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(arguments, 60)
        out, err = (Path(name).read_text("utf-8") for name in streams[1:])
        return subprocess.CompletedProcess(arguments, process.exitcode, out, err)


def _become(env: dict[str, str], cwd: str, streams: list[str]) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    for number, name in enumerate(streams):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), number)


def _run(arguments: list[str], env: dict[str, str], cwd: str, streams: list[str]) -> None:
    _become(env, cwd, streams)
    sys.argv = ["tellback", *arguments]
    entry.main()
