"""Hooks of forked children, when the interpreter ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import atexit
from tellback import forks

class Client:
    def begin(self):
        pass

client = Client()
forks.run_in_child(client.begin)
assert len(forks._methods) == 1
atexit._run_exitfuncs()
assert not forks._methods
"""


@pytest.mark.programs
def test_no_hook_outlives_the_end_of_a_program() -> None:
    """The hooks of an open client once printed «Exception ignored» at the end of a program, on Python 3.13."""
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
