"""Reading what processes use: memory from /proc, written bytes, and the counters of a control group (Linux).

Standard library only, like everything that a supervisor imports.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

PAGE = resource.getpagesize()


def resident_bytes(pid: int) -> int:
    """Return the memory that a process has in use."""
    with suppress(OSError):  # it may have exited
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * PAGE
    return 0


def written_bytes(pid: int) -> int:
    """Return the bytes that a process and its reaped children have written."""
    with suppress(OSError, IndexError):  # it may have exited, or belong to another user now
        return _written(Path(f"/proc/{pid}/io").read_bytes())
    return 0


class OwnWrites:
    """The bytes that this process and its reaped children have written.

    Open it before `forbid_dumps`, which makes `/proc/self/io` root's. A descriptor opened earlier still reads it.
    """

    def __init__(self) -> None:
        self._descriptor: int | None = None
        with suppress(OSError):  # no such file: not Linux
            self._descriptor = os.open("/proc/self/io", os.O_RDONLY)

    def count(self) -> int:
        """Return the bytes written so far."""
        return 0 if self._descriptor is None else _written(os.pread(self._descriptor, 4096, 0))


def _written(text: bytes) -> int:
    return int(text.split()[3])


def cgroup_counter(file: Path, name: str) -> int:
    """Return one counter of a control group's file of events."""
    with suppress(OSError):  # the group is gone
        for line in file.read_text("utf-8").splitlines():
            if line.startswith(f"{name} "):
                return int(line.split()[1])
    return 0
