"""Following a command while its worker, or Redis, goes away: the command and its record are not the worse for it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from tellback import Job, OutputPiece, Tellback
from tellback.settings import Settings
from tests.support.commands import until
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, Workers, environment

TOOL = [sys.executable, "-c", "from tellback.cli.app import main; main()"]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Leases that are soon over."""
    return msgspec.structs.replace(settings, job_lease=4.0, command_redis_wait=0, beat_period=0.5, command_grace=0.5)


@pytest.fixture
def patient(start_workers: StartWorkers, tmp_path: Path) -> Workers:
    """One worker whose lease outlasts any absence of Redis in a test."""
    return start_workers(env={"TELLBACK_COMMAND_ROOTS": str(tmp_path), "TELLBACK_JOB_LEASE": "60"})


class Follower:
    """Follows a job in a thread of its own."""

    def __init__(self, job: Job) -> None:
        self.pieces: list[OutputPiece] = []
        self._job = job
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    def ended(self, timeout: float) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        for piece in self._job.follow(timeout=100):
            self.pieces.append(piece)


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.usefixtures("beat")
def test_a_follower_of_a_lost_worker_ends_with_the_record_that_says_so(tb: Tellback, workers: Workers) -> None:
    """Output that was printed before stays; then the loss is reported."""
    job = tb.submit(["sh", "-c", "echo begun; sleep 300"], session="s1", timeout=400, follow=True)
    follower = Follower(job)
    wait_until(lambda: follower.text == "begun\n", "the output is followed")
    workers.kill()
    workers.start()
    assert follower.ended(timeout=60)
    record = job.wait(timeout=0.0)
    assert (record.error or "").startswith("lost: ")
    assert follower.text == "begun\n"


@pytest.mark.faults
@pytest.mark.usefixtures("beat")
@pytest.mark.slow
def test_a_second_attempt_is_announced_and_followed(
    settings: Settings, tb: Tellback, workers: Workers, tmp_path: Path
) -> None:
    """With `on_lost="retry"`, the command line announces it between the outputs of the two attempts."""
    # It notes that it began before it says so: it is killed once that is read.
    script = f"[ -e again ]; n=$?; touch again; echo attempt; [ $n = 1 ] && sleep 300; {until('go')}; echo done"
    command = [
        *TOOL,
        "submit",
        "--follow",
        "--session",
        "s1",
        "--timeout",
        "400",
        "--on-lost",
        "retry",
        "sh",
        "-c",
        script,
    ]
    process = subprocess.Popen(
        command, env=environment(settings), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "attempt\n"
        for child in workers.children():
            child.kill()
        assert process.stdout.readline() == "attempt\n"
        (tmp_path / "go").touch()
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, out) == (0, "done\n")
    reported, summary = err.splitlines()
    first, second = tb.records("s1")
    assert reported == f"tellback: the command was lost and is running again as {second.command_id}"
    assert (first.exit_code, second.attempt) == (None, 2)
    assert summary.startswith("✓ exit 0")


@pytest.mark.slow
@pytest.mark.faults
def test_redis_restarts_while_a_command_is_followed(
    tb: Tellback, patient: Workers, redis_server: RedisServer, tmp_path: Path
) -> None:
    """The command continues; what it printed in the meantime is published afterwards, and the record is complete."""
    script = f"echo begun; {until('away')}; echo meanwhile; {until('back')}; echo end of it"
    job = tb.submit(["sh", "-c", script], session="s1", timeout=100, follow=True)
    follower = Follower(job)
    wait_until(lambda: follower.text == "begun\n", "the output is followed")
    redis_server.kill()
    (tmp_path / "away").touch()
    wait_until(lambda: "follow.postponed" in patient.log(), "its output could not be published")
    redis_server.launch()
    (tmp_path / "back").touch()
    assert follower.ended(timeout=60)
    assert follower.text == "begun\nmeanwhile\nend of it\n"
    record = job.wait(timeout=60)
    assert (record.exit_code, record.stdout_tail) == (0, "begun\nmeanwhile\nend of it")


@pytest.mark.faults
@pytest.mark.usefixtures("patient")
def test_a_redis_that_hangs_delays_neither_command_nor_output(
    tb: Tellback, redis_server: RedisServer, tmp_path: Path
) -> None:
    """The command prints a lot while Redis does not answer: it is not held up, and what is lost is counted."""
    flood = "yes 0123456789abcdefghijklmnopqrstuvwxyz | head -c 50000000; echo; touch printed"
    script = f"echo begun; {until('away')}; {flood}; {until('back')}"
    job = tb.submit(["sh", "-c", script], session="s1", timeout=100, follow=True)
    follower = Follower(job)
    wait_until(lambda: follower.text == "begun\n", "the output is followed")
    redis_server.suspend()
    try:
        (tmp_path / "away").touch()
        wait_until((tmp_path / "printed").exists, "the command has printed all")
    finally:
        redis_server.resume()
    (tmp_path / "back").touch()
    assert follower.ended(timeout=60)
    record = job.wait(timeout=60)
    assert record.exit_code == 0, record.error
    reported = sum(len(piece.text) for piece in follower.pieces) + sum(piece.dropped for piece in follower.pieces)
    assert reported == record.output_bytes == 50_000_007
