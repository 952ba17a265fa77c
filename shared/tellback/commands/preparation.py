"""What happens between fork and exec of a command: it enters its control group and takes its limits.

`subprocess` tells of a failure there no more than that there was one, so the child says why through a pipe.
"""

from __future__ import annotations

import os
import resource
import select
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


class Preparation:
    """The preparation of one command."""

    def __init__(self, limits: list[tuple[int, int]]) -> None:
        """Take limits as pairs of what `resource` calls it and the most."""
        self._limits = limits
        self._door: int | None = None
        self._told: tuple[int, int] | None = None

    def enter(self, group: Path) -> None:
        """Open where a process that is to enter the group writes."""
        try:
            self._door = os.open(group / "cgroup.procs", os.O_WRONLY)
        except OSError as error:  # not the command's own: it must not read as if its program were missing
            raise subprocess.SubprocessError(f"its control group cannot be entered: {error}") from error

    def needed(self) -> Callable[[], None] | None:
        """What to do, or None: then no copy of this process is made, which halves the cost of a start."""
        if not self._limits and self._door is None:
            return None
        self._told = os.pipe()
        return self._prepare

    def _prepare(self) -> None:
        what = "its control group cannot be entered"
        try:
            if self._door is not None:
                os.write(self._door, b"0")
            what = "its limits cannot be set"
            for number, limit in self._limits:
                hard = resource.getrlimit(number)[1]  # of the worker itself: nobody but root may raise it
                value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
                resource.setrlimit(number, (value, value))
        except (OSError, ValueError) as error:  # of which `subprocess` tells no more than that there was one
            if self._told is not None:
                os.write(self._told[1], f"{what}: {error}".encode())
            raise

    def failure(self) -> str:
        """Why the command could not be prepared, if that is what went wrong."""
        if self._told is None:
            return ""
        os.set_blocking(self._told[0], False)
        with suppress(BlockingIOError):
            return os.read(self._told[0], select.PIPE_BUF).decode(errors="replace")
        return ""

    def close(self) -> None:
        """Close what this process still holds of it."""
        for descriptor in (self._door, *(self._told or ())):
            if descriptor is not None:
                os.close(descriptor)
