"""Processes without root's powers over other processes, so that a test that runs as root sees what a user would."""

from __future__ import annotations

import os
import shutil

import pytest

_SETPRIV = shutil.which("setpriv")


def without_powers() -> list[str]:
    """Return the prefix that keeps a command, and what it starts, from reading more of each other than a user may."""
    if os.geteuid() != 0:
        return []
    if _SETPRIV is None:
        pytest.skip("root without `setpriv` reads every process")
    return [_SETPRIV, "--bounding-set", "-all"]
