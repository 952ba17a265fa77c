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

AT_THE_LIMIT = """
import os, signal, threading
from tellback.cli.common import stop_event
stop = stop_event()
def refuse(self): raise RuntimeError("can't start new thread")
threading.Thread.start = refuse
os.kill(os.getpid(), signal.SIGTERM)
assert stop.wait(60)
"""


@pytest.mark.programs
def test_a_signal_within_a_wait_ends_the_command() -> None:
    """The main thread held the event's lock, its handler waited for it, and no further signal was heard."""
    subprocess.run([sys.executable, "-c", INTERRUPTED], check=True, timeout=20)


@pytest.mark.programs
def test_a_signal_needs_no_new_thread() -> None:
    """A host at its limit of processes starts none, and the command went on."""
    subprocess.run([sys.executable, "-c", AT_THE_LIMIT], check=True, timeout=20)
