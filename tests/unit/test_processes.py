"""The process trees that tests kill."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.processes import tree_of

ENDS = [sys.executable, "-S", "-c", "input()"]


@pytest.mark.programs
def test_the_tree_of_a_process_that_ended_is_empty_though_its_id_is_anothers() -> None:
    process = subprocess.Popen(ENDS, stdin=subprocess.PIPE, text=True)
    assert [member.pid for member in tree_of(process)] == [process.pid]
    process.communicate("\n")
    process.pid = os.getpid()
    assert tree_of(process) == []
