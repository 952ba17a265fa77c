"""Processes that tests start, and all below them."""

from __future__ import annotations

import subprocess
from typing import Any

import psutil


def tree_of(process: subprocess.Popen[Any]) -> list[psutil.Process]:
    """Return a process and all below it, itself first; none if it has ended, since its id may be another's by now."""
    if process.poll() is not None:
        return []
    try:
        root = psutil.Process(process.pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
