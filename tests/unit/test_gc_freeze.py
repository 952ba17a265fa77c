from __future__ import annotations

import sys

import pytest

from tests.support.processes import run_program

# In a process of its own, because handlers of a worker's start stay.
PROGRAM = """
import gc
from celery import signals
import tellback_workers.celery_signals
signals.{signal}.send(sender=None)
print(gc.get_freeze_count())
"""


@pytest.mark.programs
@pytest.mark.parametrize("signal", ["worker_init", "worker_process_init"])
def test_no_process_of_a_worker_scans_what_it_was_born_with(signal: str) -> None:
    program = [sys.executable, "-c", PROGRAM.format(signal=signal)]
    assert int(run_program(program, check=True).stdout) > 1_000
