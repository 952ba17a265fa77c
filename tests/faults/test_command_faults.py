"""Commands while their workers are killed again and again: each ends in exactly one record, and none runs twice."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import msgspec
import psutil
import pytest

from tellback import Tellback
from tellback.settings import Settings
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

JOBS = 80
KILLS = 15


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Short leases, so that a lost worker is noticed soon.

    With two seconds, a process that got no core for 1.7 s started nothing, and its record did not speak of a loss.
    """
    return msgspec.structs.replace(settings, job_lease=5.0, beat_period=0.5, command_grace=0.5)


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.usefixtures("beat")
def test_pool_children_killed_at_random_times(tb: Tellback, start_workers: StartWorkers, tmp_path: Path) -> None:
    """Eighty commands and fifteen SIGKILLs leave eighty records, each start has one, and each success started once."""
    workers = start_workers(concurrency=4, env={"TELLBACK_COMMAND_ROOTS": str(tmp_path)})
    dice = random.Random(20)
    script = "echo $0 >> started; sleep 0.2; echo done"
    jobs = [tb.submit(["sh", "-c", script, f"j{n}"], session=f"s{n % 4}") for n in range(JOBS)]
    tb.flush()
    for _ in range(KILLS):
        time.sleep(dice.uniform(0.02, 0.3))
        children = workers.children()
        if children:
            try:
                dice.choice(children).kill()
            except psutil.NoSuchProcess:
                continue
    records = [job.wait(timeout=60) for job in jobs]
    starts = Counter((tmp_path / "started").read_text().split())
    assert max(starts.values()) == 1, "a command ran twice"
    for number, record in enumerate(records):
        if record.exit_code is None:
            assert (record.error or "").startswith("lost: "), record
        else:
            assert (record.exit_code, record.stdout_tail, starts[f"j{number}"]) == (0, "done", 1)
    assert sum(record.exit_code is None for record in records) <= KILLS
    kept = Counter(record.command_id for n in range(4) for record in tb.records(f"s{n}", last=200))
    assert kept == Counter(job.command_id for job in jobs), "each command has exactly one record"
    wait_until(lambda: not _running(tmp_path), "nothing is left alive")


def _running(folder: Path) -> list[psutil.Process]:
    """Processes that run in this folder: the commands' directory, which workers do not share."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.name() in {"sh", "sleep"} and process.cwd() == str(folder):
                found.append(process)
        except psutil.Error:
            continue
    return found
