"""A control group (cgroup v2) of its own for each limited command, below a directory that was delegated to this host.

The system then holds memory and processes of the whole tree exactly, and ends the tree at once. Each group's name tells
whose it is, so that what a dead process left is found and removed. The supervisor puts the command into its group,
watches the group's counters and kills it; see `supervisor.py`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final

from tellback import clock
from tellback.commands.limits import Limits

CONTROLLERS: Final = ("memory", "pids")
_PREFIX: Final = "command"
_TRIES: Final = 100  # to remove a group whose processes are being killed
_PAUSE: Final = 0.02

_log = logging.getLogger("tellback.cgroups")
_numbers: Iterator[int] = count()


@contextmanager
def group_for(parent: Path | None, limits: Limits) -> Generator[Path | None]:
    """A new group below `parent` that holds these limits; nothing of it is left afterwards.

    None where there is no parent, nothing to hold, or no group to be had: then the supervisor's own looks hold them.
    """
    group = None if parent is None else _made(parent, limits)
    try:
        yield group
    finally:
        if group is not None and not remove(group):
            _log.warning("group.not_removed path=%s", group)


def _made(parent: Path, limits: Limits) -> Path | None:
    if limits.memory is None and limits.processes is None:
        return None
    group = parent / f"{_PREFIX}-{_owner(os.getpid())}-{next(_numbers)}"
    try:
        group.mkdir()
        _limit(group, limits)
    except OSError as error:  # the parent is gone or full: the limits are held all the same
        _log.warning("group.not_made path=%s reason=%s", group, error.strerror)
        remove(group)
        return None
    return group


def _limit(group: Path, limits: Limits) -> None:
    if limits.memory is not None:
        _write(group / "memory.max", limits.memory)
        _write(group / "memory.oom.group", 1)
        with suppress(FileNotFoundError):  # a system without swap has no such file
            _write(group / "memory.swap.max", 0)
    if limits.processes is not None:
        _write(group / "pids.max", limits.processes)


def _write(file: Path, value: int) -> None:
    descriptor = os.open(file, os.O_WRONLY)  # an interface file exists; one that does not is not to be made
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)


def remove(group: Path) -> bool:
    """Kill what is in a group and remove it, with what the command made below it; False if it still stands."""
    for _ in range(_TRIES):
        with suppress(OSError):  # gone, or a system before Linux 5.14
            _write(group / "cgroup.kill", 1)
        for directory, _, _ in os.walk(group, topdown=False):
            with suppress(OSError):  # something in it still ends
                Path(directory).rmdir()
        if not group.exists():
            return True
        clock.sleep(_PAUSE)
    return False


def sweep(parent: Path) -> int:
    """Remove the groups below `parent` whose makers are dead, with what lives in them; how many there were."""
    found = 0
    with suppress(OSError):  # the parent is gone
        for group in list(parent.iterdir()):
            if _is_orphan(group.name):
                found += remove(group)
    return found


def _is_orphan(name: str) -> bool:
    prefix, _, rest = name.partition("-")
    owner, _, number = rest.rpartition("-")
    parts = owner.split("-")
    if prefix != _PREFIX or not number.isdigit() or len(parts) != 3 or not parts[1].isdigit():
        return False
    # What another process namespace made cannot be judged from here.
    return parts[0] == _namespace() and _owner(int(parts[1])) != owner


def _owner(pid: int) -> str:
    """A process's namespace, id and start, which no later process has again; without a start if it is dead."""
    started = ""
    with suppress(OSError):
        started = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
    return f"{_namespace()}-{pid}-{started}"


def _namespace() -> str:
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    return "0"
