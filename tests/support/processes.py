"""Processes that tests start, and all below them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Protocol

import psutil


class StartedProcess(Protocol):
    """A process that a test started or forked."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...


def tree_of(process: StartedProcess) -> list[psutil.Process]:
    """Return a process and all below it, itself first; none if it has ended, since its id may be another's by now."""
    if process.poll() is not None:
        return []
    try:
        root = psutil.Process(process.pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def run_program(
    command: Sequence[str | PathLike[str]],
    *,
    cwd: str | PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = 100,
    check: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with what it prints as text; `check` shows that if it fails."""
    done = subprocess.run(command, cwd=cwd, env=env, timeout=timeout, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done
