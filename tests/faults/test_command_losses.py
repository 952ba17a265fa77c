"""Commands whose worker dies, freezes, is shut down or cannot reach Redis."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tellback import Tellback
from tellback.commands.runner import OVERDUE
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.job_claims import JobClaimant
from tellback.state.job_keys import ANY_POOL
from tellback.state.jobs import Jobs
from tellback.state.keys import Layout
from tellback.state.records import Records
from tellback_workers.lease_heartbeat import NOT_RENEWED
from tests.support.commands import alive, brisk, until
from tests.support.jobs import CommandQueue
from tests.support.link import Link
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, Workers

LEASE: Final = 4.0  # seconds: with 1.5, a process that got no core for 1.3 s lost its command before it began
HANGS: Final = 60.0  # seconds: on a busy machine what takes two seconds may take twenty
PATIENT: Final = {"TELLBACK_JOB_LEASE": "60", "TELLBACK_COMMAND_REDIS_WAIT": "60"}  # no absence is too long


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Short leases, so that a lost worker is noticed soon."""
    return msgspec.structs.replace(brisk(settings), job_lease=LEASE, command_redis_wait=1.0)


@pytest.mark.faults
@pytest.mark.usefixtures("beat")
@pytest.mark.parametrize("victim", ["pool child", pytest.param("worker", marks=pytest.mark.slow)])
def test_a_killed_worker_leaves_one_record_and_no_command(
    tb: Tellback, workers: Workers, start_workers: StartWorkers, victim: str
) -> None:
    """SIGKILL in the middle of a command: the command dies, and when its lease has ended there is one record."""
    tag = f"3300.{os.getpid()}"
    job = tb.submit(["sh", "-c", f"setsid sleep {tag} & sleep {tag}"], session="s1")
    wait_until(lambda: len(alive(tag)) == 3, "the command runs", HANGS)
    if victim == "worker":
        workers.kill()
        start_workers()
    else:
        busy = [child for child in workers.children() if child.children()]
        assert len(busy) == 1
        busy[0].kill()
    wait_until(lambda: not alive(tag), "the command is dead", timeout=HANGS)
    record = job.wait(timeout=HANGS)
    assert record.exit_code is None
    assert record.error is not None
    assert record.error.startswith("lost: the lease of worker w0-")
    assert tb.records("s1") == [record]
    assert not tb.gate("s1").passed


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.usefixtures("beat")
def test_a_lost_command_is_tried_again_where_that_was_asked(tb: Tellback, workers: Workers, tmp_path: Path) -> None:
    """With `on_lost="retry"` the loss has its record, and `wait` returns that of the linked attempt."""
    script = "if [ -e first ]; then echo second; else touch first; sleep 3000; fi"
    job = tb.submit(["sh", "-c", script], session="s1", on_lost="retry")
    wait_until((tmp_path / "first").exists, "the command runs", HANGS)
    next(child for child in workers.children() if child.children()).kill()
    record = job.wait(timeout=HANGS)
    assert (record.exit_code, record.stdout_tail, record.attempt) == (0, "second", 2)
    lost, again = tb.records("s1")
    assert (lost.command_id, lost.exit_code) == (job.command_id, None)
    assert again.parent_command_id == job.command_id
    verdict = tb.gate("s1", require=[["sh", "-c", script]])
    assert verdict.passed
    assert verdict.reasons[0].startswith("passed over:")


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.usefixtures("beat")
def test_a_frozen_worker_loses_its_command_and_is_superseded(tb: Tellback, workers: Workers) -> None:
    """SIGSTOP: the loss is recorded when the lease ends, and the command is killed when the wait does.

    What the worker says when it wakes is kept apart.
    """
    tag = f"3700.{os.getpid()}"
    job = tb.submit(["sleep", tag], session="s1")
    wait_until(lambda: alive(tag), "the command runs", HANGS)
    busy = next(child for child in workers.children() if child.children())
    busy.suspend()
    try:
        wait_until(lambda: not alive(tag), "the command is dead", timeout=HANGS)
        record = job.wait(timeout=HANGS)
    finally:
        busy.resume()
    assert (record.error or "").startswith("lost: ")
    records = Records(tb.context.database, tb.context.layout)
    late = wait_until(lambda: records.superseded("s1"), "the late record is kept", HANGS)
    assert [(each.command_id, each.exit_code) for each in late] == [(job.command_id, None)]
    assert "lease" in (late[0].error or "")
    assert tb.records("s1") == [record]


@pytest.mark.slow
@pytest.mark.usefixtures("beat")
def test_a_worker_that_is_shut_down_ends_its_commands(
    tb: Tellback, start_workers: StartWorkers, tmp_path: Path
) -> None:
    """SIGTERM: a short command ends by itself, a long one is ended with a record, one to retry runs elsewhere."""
    tag = f"3600.{os.getpid()}"
    env = {"TELLBACK_COMMAND_ROOTS": str(tmp_path)}
    first = start_workers(concurrency=3, env=env)
    short = tb.submit(["sh", "-c", "touch short; sleep 1; echo done"], session="s1")
    long = tb.submit(["sh", "-c", f"touch long; sleep {tag}"], session="s1")
    again = tb.submit(["sh", "-c", f"[ -e again ] && exit 0; touch again; sleep {tag}"], session="s1", on_lost="retry")
    wait_until(lambda: all((tmp_path / name).exists() for name in ("short", "long", "again")), "all three run", HANGS)
    process = first.processes.pop()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=HANGS) == 0
    assert not alive(tag)
    assert (short.wait(1).exit_code, short.wait(1).stdout_tail) == (0, "done")
    assert (long.wait(1).exit_code, long.wait(1).error) == (None, "stopped: its worker was shut down")
    start_workers(env=env)
    record = again.wait(timeout=HANGS)
    assert (record.exit_code, record.attempt) == (0, 2)


@pytest.mark.faults
@pytest.mark.usefixtures("beat")
def test_redis_killed_in_the_middle_of_a_command(
    tb: Tellback, start_workers: StartWorkers, redis_server: RedisServer, tmp_path: Path
) -> None:
    """A short absence: the command finishes, and its one record reaches whoever waits for it."""
    workers = start_workers(env={"TELLBACK_COMMAND_ROOTS": str(tmp_path), **PATIENT})
    job = tb.submit(["sh", "-c", f"touch began; {until('restarted')}; echo done"], session="s1", timeout=HANGS)
    wait_until((tmp_path / "began").exists, "the command runs", HANGS)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(job.wait, HANGS)
        redis_server.restart()
        (tmp_path / "restarted").touch()
        record = waiting.result()
    assert (record.exit_code, record.stdout_tail) == (0, "done"), workers.log()
    assert len(tb.records("s1")) == 1


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.usefixtures("beat")
def test_a_worker_that_cannot_renew_kills_its_command(
    tb: Tellback, workers: Workers, redis_server: RedisServer
) -> None:
    """Redis away for longer than the wait: the command is stopped, and its one record says why."""
    tag = f"3400.{os.getpid()}"
    job = tb.submit(["sleep", tag], session="s1")
    wait_until(lambda: alive(tag), "the command runs", HANGS)
    redis_server.suspend()
    try:
        wait_until(lambda: not alive(tag), "the command is dead", timeout=HANGS)
    finally:
        redis_server.resume()
    record = job.wait(timeout=HANGS)
    assert record.exit_code is None
    assert record.error in {NOT_RENEWED, OVERDUE}, workers.log()
    wait_until(lambda: len(tb.records("s1")) == 1, "there is one record", HANGS)


def test_a_record_file_that_is_held_costs_the_next_command_nothing(
    tb: Tellback, start_workers: StartWorkers, settings: Settings, tmp_path: Path
) -> None:
    """It was leased with the record before it, which waits for a disk; longer than the lease, which is then renewed."""
    path = settings.record_path(settings.team)
    assert path is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    start_workers(concurrency=1, env={"TELLBACK_COMMAND_ROOTS": str(tmp_path)})
    with Path(f"{path}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        jobs = [tb.submit(["true"], session="s1") for _ in range(3)]
        assert jobs[0].wait(timeout=HANGS).succeeded
        held_until = time.monotonic() + LEASE
        wait_until(lambda: time.monotonic() >= held_until, "the next one's lease has run out")
    assert [job.wait(timeout=HANGS).error for job in jobs] == [None] * 3


@pytest.mark.usefixtures("_emptied")
def test_a_loss_whose_reply_was_lost_has_its_next_attempt_woken(database: Database, redis_server: RedisServer) -> None:
    """The call that came again found no lease, so that the next attempt waited ten seconds for the sweep of queues."""
    layout = Layout("default", 1)
    with Link(redis_server.port) as link:
        jobs = Jobs(Database(link.url), layout)
        CommandQueue(database, layout).put("s", "c1", on_lost="retry")
        assert jobs.lease(JobClaimant(ANY_POOL, seconds=0.001, worker="w@test", host="h")) is not None
        [lost] = wait_until(jobs.overdue, "the lease has run out", timeout=HANGS)
        assert not jobs.mark_lost(lost, 60), "the script is known now"
        link.losing = link.once = True
        assert jobs.mark_lost(lost), "so that the sweep wakes a worker"
        assert link.lost == 1
    assert [record.command_id for record in Records(database, layout).last("s")] == ["c1"]
