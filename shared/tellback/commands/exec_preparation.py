"""The last steps in a command's process between fork and exec: limits, group, signals, environment."""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tellback.commands.process_tree import LINUX, signal_on_parents_death


class ExecPreparation:
    """The steps between fork and exec of one command: tie it to the supervisor, enter its control group, set limits.

    `subprocess` reports an error there without its cause, so the child writes the cause to a pipe.
    `limits` are pairs of a `resource` constant and a maximum; a `tied` command dies with this process.
    """

    def __init__(self, limits: list[tuple[int, int]], *, tied: bool = False) -> None:
        self._limits = limits
        self._tied = tied and LINUX
        self._supervisor = os.getpid()
        self._door: int | None = None
        self._error_pipe: tuple[int, int] | None = None

    def use_cgroup(self, group: Path) -> None:
        """Open the file to which the command's process writes to enter the group."""
        try:
            self._door = os.open(group / "cgroup.procs", os.O_WRONLY)
        except OSError as error:  # as another type, or it would be reported as a missing program
            raise subprocess.SubprocessError(f"its control group cannot be entered: {error}") from error

    def preexec(self) -> Callable[[], None] | None:
        """Return the function to run before exec, or None; without one `subprocess` starts at half the cost."""
        if not self._limits and not self._tied and self._door is None:
            return None
        self._error_pipe = os.pipe()
        return self._prepare

    def _prepare(self) -> None:
        if self._tied:
            signal_on_parents_death(signal.SIGKILL)
            if os.getppid() != self._supervisor:  # it died before the kernel was asked to report its death
                os.kill(os.getpid(), signal.SIGKILL)
        what = "its control group cannot be entered"
        try:
            if self._door is not None:
                os.write(self._door, b"0")
            what = "its limits cannot be set"
            for number, limit in self._limits:
                hard = resource.getrlimit(number)[1]  # the worker's own limit, which only root may raise
                value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
                resource.setrlimit(number, (value, value))
        except (OSError, ValueError) as error:
            if self._error_pipe is not None:
                os.write(self._error_pipe[1], f"{what}: {error}".encode())
            raise

    def failure_reason(self) -> str:
        """Return why the preparation failed, or nothing if it did not."""
        if self._error_pipe is None:
            return ""
        os.set_blocking(self._error_pipe[0], False)
        with suppress(BlockingIOError):
            return os.read(self._error_pipe[0], select.PIPE_BUF).decode(errors="replace")
        return ""

    def close(self) -> None:
        """Close the descriptors."""
        for descriptor in (self._door, *(self._error_pipe or ())):
            if descriptor is not None:
                os.close(descriptor)
