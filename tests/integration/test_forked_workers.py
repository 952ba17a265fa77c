"""Workers that tests fork, from a process that may die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from tellback.settings import Settings
from tests.support.processes import tree_of
from tests.support.waiting import wait_until
from tests.support.workers import STARTED, StartWorkers


def test_a_worker_is_killed_with_its_pool_though_the_process_that_forks_has_died(start_workers: StartWorkers) -> None:
    """Its end is reported by that process; a worker that lived on read as ended, and was left over."""
    workers = start_workers(1, queues="turns", concurrency=1, forked=True)
    process = workers.processes[0]
    members = tree_of(process)
    forks = psutil.Process(process.pid).parent()
    assert forks is not None
    assert forks.pid != os.getpid()
    forks.send_signal(signal.SIGKILL)
    wait_until(lambda: not forks.is_running() or forks.status() == psutil.STATUS_ZOMBIE, "it is dead")
    assert process.poll() is None
    workers.kill_all()
    wait_until(lambda: not any(_lives(member) for member in members), "none is left")
    workers.start()
    assert workers.processes[0].poll() is None, "another forks"


FORK = """
import pathlib, sys
from tests.support.forked import fork_celery
from tests.support.workers import APP, environment
from tellback.settings import Settings
arguments = ["-A", APP, "worker", "-n", "w@test", "-Qturns", "--concurrency=1", "-lINFO"]
env = environment(Settings(redis_url=sys.argv[1], data_dir=sys.argv[2]), {"TMPDIR": sys.argv[2]})
print(fork_celery(arguments, env, pathlib.Path(sys.argv[2], "log")).pid, flush=True)
input()
"""


def test_a_worker_ends_with_the_tests_even_if_they_are_killed(settings: Settings, tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORK, settings.redis_url, str(tmp_path)]
    (log := tmp_path / "log").touch()  # the worker opens it some time after it was forked
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tests:
        assert tests.stdout is not None
        try:
            worker = psutil.Process(int(tests.stdout.readline()))
            wait_until(lambda: STARTED in log.read_text(), "it is ready")
            members = [worker, *worker.children(), *psutil.Process(tests.pid).children()]
        finally:
            tests.kill()
    wait_until(lambda: not any(_lives(member) for member in members), "none is left")


def test_a_worker_that_crashes_shows_where(start_workers: StartWorkers) -> None:
    workers = start_workers(1, queues="turns", concurrency=1, forked=True)
    workers.processes[0].send_signal(signal.SIGABRT)
    wait_until(lambda: "Fatal Python error: Aborted" in workers.log(), "its log has the traceback of its threads")


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
