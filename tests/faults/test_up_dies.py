"""Whatever kills `tellback up`, no process of it stays; and a stop lets what runs finish."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psutil
import pytest

from tellback import Tellback, connect
from tellback.settings import Settings
from tellback.up.supervisor import REDIS_STOP_SECONDS, STOP_SECONDS
from tests.support.redis_server import RedisServer
from tests.support.up import RunningUp, gone, running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(120)]

Kill = Callable[[RunningUp], None]
WAITS: Final = STOP_SECONDS + REDIS_STOP_SECONDS
BUSY: Final = 30.0  # seconds that a busy machine may add; what is not waited for takes five minutes


def kill_what_the_user_started(up: RunningUp) -> None:
    up.process.kill()


def kill_the_supervisor(up: RunningUp) -> None:
    os.kill(up.supervisor, signal.SIGKILL)


def kill_both_at_once(up: RunningUp) -> None:
    """The supervisor is stopped first, so that it cannot act on the guard's death."""
    supervisor = up.supervisor
    os.kill(supervisor, signal.SIGSTOP)
    up.process.kill()
    os.kill(supervisor, signal.SIGKILL)


@pytest.mark.parametrize("kill", [kill_what_the_user_started, kill_the_supervisor, kill_both_at_once])
def test_a_killed_up_leaves_no_process(tmp_path: Path, kill: Kill) -> None:
    """Redis, busy pool children, and the command that one of them runs end too."""
    with RunningUp.start(tmp_path, env={"TELLBACK_COMMAND_ROOTS": str(tmp_path)}) as up:
        started = tmp_path / "started"
        with connect(up.redis_url) as tb:
            busy(tb, started)
        wait_until(started.exists, "a command runs")
        tree = up.tree()
        pools = [child for child in tree if child.ppid() == up.pids["commands-1"]]
        assert len(pools) >= 4
        assert any("time.sleep(300)" in " ".join(process.cmdline()) for process in tree)
        kill(up)
        gone(tree)


def busy(tb: Tellback, started: Path) -> None:
    code = f"import time, pathlib; pathlib.Path({str(started)!r}).touch(); time.sleep(300)"
    tb.submit([sys.executable, "-c", code], session="s1", cwd=str(started.parent), timeout=400)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_finishes_what_runs_within_ten_seconds(
    tmp_path: Path, redis_server: RedisServer, number: signal.Signals
) -> None:
    """A command that takes three more seconds ends in its record."""
    started = tmp_path / "started"
    code = f"import time, pathlib; pathlib.Path({str(started)!r}).touch(); time.sleep(3); print('finished')"
    settings = Settings(redis_url=redis_server.url, data_dir=str(tmp_path))
    arguments, env = ("--redis-url", redis_server.url, "--no-flower"), {"TELLBACK_COMMAND_ROOTS": str(tmp_path)}
    with RunningUp(tmp_path, *arguments, env=env) as up, connect(settings=settings) as tb:
        job = tb.submit([sys.executable, "-c", code], session=f"stop-{number.name}", cwd=str(tmp_path), timeout=60)
        wait_until(started.exists, "the command runs")
        tree = up.tree()
        begun = time.monotonic()
        up.process.send_signal(number)
        assert up.process.wait(timeout=60) == 0
        assert WAITS < 10
        assert time.monotonic() - begun < WAITS + BUSY
        assert running(tree) == []
        record = job.wait(timeout=BUSY)
        assert record.exit_code == 0
        assert "finished" in record.stdout_tail


def test_a_stop_does_not_wait_for_what_takes_longer_and_the_next_up_records_it(tmp_path: Path) -> None:
    """A command that was cut off ends in one record, with no exit and an error."""
    env = {"TELLBACK_COMMAND_ROOTS": str(tmp_path), "TELLBACK_JOB_LEASE": "3"}
    with RunningUp.start(tmp_path, env=env) as up:
        started = tmp_path / "started"
        with connect(up.redis_url) as tb:
            busy(tb, started)
        wait_until(started.exists, "a command runs")
        tree = up.tree()
        begun = time.monotonic()
        up.process.terminate()
        assert up.process.wait(timeout=60) == 0
        assert WAITS < 10
        assert time.monotonic() - begun < WAITS + BUSY
        assert running(tree) == []
    with RunningUp.start(tmp_path, env=env) as up, connect(up.redis_url) as tb:
        (record,) = wait_until(lambda: tb.records("s1"), "the command has a record")
        assert record.exit_code is None
        assert record.error


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with RunningUp.start(tmp_path, env={"TELLBACK_COMMAND_ROOTS": str(tmp_path)}) as up:
        started = tmp_path / "started"
        with connect(up.redis_url) as tb:
            busy(tb, started)
        wait_until(started.exists, "a command runs")
        tree = up.tree()
        up.process.send_signal(signal.SIGINT)
        # Two signals that a busy process has not heard are one.
        wait_until(lambda: not psutil.pid_exists(up.pids["beat"]), "the first signal is heard: beat has ended")
        begun = time.monotonic()
        up.process.send_signal(signal.SIGINT)
        assert up.process.wait(timeout=60) == 0
        assert time.monotonic() - begun < 6, "with one signal alone it waits for seven seconds"
        assert running(tree) == []


def test_an_orphan_of_a_dead_worker_is_reaped(tmp_path: Path) -> None:
    with RunningUp.start(tmp_path, env={"TELLBACK_COMMAND_ROOTS": str(tmp_path)}) as up:
        pool = psutil.Process(up.pids["loops-1"]).children()
        assert pool
        os.kill(up.pids["loops-1"], signal.SIGKILL)
        wait_until(lambda: not any(psutil.pid_exists(child.pid) for child in pool), "its pool is gone and reaped")
