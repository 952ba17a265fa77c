"""A child that asks to die with a parent that is dead already."""

from __future__ import annotations

import os
import sys

import pytest

from tests.support.processes import run_program

pytestmark = pytest.mark.programs

ASK = "import sys; from tellback.up.launch import die_with_parent; die_with_parent(int(sys.argv[1])); print('lives')"


def test_a_child_whose_parent_is_gone_ends_itself() -> None:
    """The kernel signals only deaths that come after the request."""
    for parent, said in ((os.getpid(), "lives\n"), (1 << 22, "")):
        argv = [sys.executable, "-c", ASK, str(parent)]
        child = run_program(argv)
        assert (child.stdout, child.returncode) == (said, int(not said)), child.stderr
