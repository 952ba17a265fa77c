"""The event by which a command that runs until SIGTERM ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

INTERRUPTED = """
import os, signal
from tellback.cli.common import stop_event
stop = stop_event()
with stop._cond:
    os.kill(os.getpid(), signal.SIGTERM)
assert stop.wait(60)
"""


@pytest.mark.programs
def test_a_signal_within_a_wait_ends_the_command() -> None:
    """The main thread held the event's lock, its handler waited for it, and no further signal was heard."""
    subprocess.run([sys.executable, "-c", INTERRUPTED], check=True, timeout=20)
