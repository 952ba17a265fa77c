"""Ending what an earlier attempt of a command left alive."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tellback.commands.survivors import MARK, end_survivors
from tests.support.commands import alive
from tests.support.waiting import wait_until


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
@pytest.mark.programs
def test_only_what_carries_the_mark_is_ended() -> None:
    """A grandchild that leads a session of its own is ended too; a mark that begins alike is another."""
    ours, others = f"51.{os.getpid()}", f"52.{os.getpid()}"
    script = "setsid sleep $0 & sleep $0"
    left = [
        subprocess.Popen(["sh", "-c", script, tag], env={**os.environ, MARK: mark})
        for tag, mark in ((ours, "team/c1"), (others, "team/c12"))
    ]
    wait_until(lambda: len(alive(ours)) == len(alive(others)) == 3, "all run")
    try:
        assert end_survivors("team/c1") >= 3
        assert not alive(ours)
        assert len(alive(others)) == 3
        assert end_survivors("team/c1") == 0
    finally:
        end_survivors("team/c12")
        for process in left:
            process.wait()
