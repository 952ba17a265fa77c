"""Supervisors that runners keep, and those that they have closed."""

from __future__ import annotations

import gc

import psutil
import pytest

from tellback.commands.supervision import borrow_supervisor, close_idle
from tests.support.waiting import wait_until


@pytest.mark.programs
def test_a_supervisor_that_exits_late_is_waited_for_when_the_next_command_begins() -> None:
    """On a busy machine it takes longer than the second for which its runner waits: a zombie stayed, and a warning."""
    with borrow_supervisor() as supervisor:
        process = psutil.Process(supervisor._process.pid)
    process.suspend()
    close_idle()
    del supervisor
    gc.collect()  # a process that nobody waits for is a warning, and so an error
    process.resume()
    wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE, "it has exited")
    with borrow_supervisor():
        pass
    assert not psutil.pid_exists(process.pid)
