"""Workers that tests fork, from a process that may die."""

from __future__ import annotations

import os
import signal

import psutil

from tests.support.processes import tree_of
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers


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


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
