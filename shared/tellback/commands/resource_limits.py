"""The resource limits of a command, its errors by policy, and a control group (cgroup v2) for each limited command.

In a group the kernel enforces memory and processes of the whole tree exactly and can kill the tree at once. Groups are
created below a directory that is delegated to the worker. A group's name identifies its owner, by which groups of dead
processes are found and removed. The supervisor puts the command into its group, watches the group's counters and kills
it; see `supervisor.py`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tellback import clock
from tellback.commands.start_errors import REFUSED_BY_POLICY

_MAX_LIMIT: Final = (1 << 63) - 1  # the kernel takes no more, and a command would not start

_Limit = Annotated[int, Meta(ge=1, le=_MAX_LIMIT)]


class CommandLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a command, in bytes and seconds; None means no limit.

    `cpu` and `file` apply to each process, the others to the whole tree of processes.
    """

    memory: Annotated[int, Meta(ge=1 << 20, le=_MAX_LIMIT)] | None = None
    """Resident memory, shared pages counted for each process; also the private data of each process."""
    processes: _Limit | None = None
    """Processes that are alive at a time."""
    output: _Limit | None = None
    """Bytes that both streams may print together."""
    written: _Limit | None = None
    """Bytes written in all, to files, pipes and sockets alike."""
    file: _Limit | None = None
    """The size of each file that is written."""
    cpu: _Limit | None = None
    """Processor time of each process."""


NO_LIMITS = CommandLimits()


def refused_by_policy(rule: str, reason: str) -> str:
    """Return the error of a command that the policy refuses."""
    return f"{REFUSED_BY_POLICY}, rule {rule}: {reason}"


def limit_error(rule: str, limit: int) -> str:
    """Return the error of a command that was killed at a limit of the policy."""
    return f"killed by this host's policy, rule {rule}: over {limit}"


CONTROLLERS: Final = ("memory", "pids")

_PREFIX: Final = "command"

# A group can be removed only when its killed processes are gone: two seconds in all.
_TRIES: Final = 100

_POLL: Final = 0.02  # seconds

_logger = logging.getLogger("tellback.cgroups")

_numbers: Iterator[int] = count()


@contextmanager
def command_cgroup(parent: Path | None, limits: CommandLimits) -> Generator[Path | None]:
    """Create a group below `parent` with these limits, and remove it with all its processes when the block ends.

    Yields None without a parent, without limits that need a group, or if none can be created: then the supervisor
    enforces the limits by watching the processes.
    """
    group = None if parent is None else _create(parent, limits)
    try:
        yield group
    finally:
        if group is not None and not remove_cgroup(group):
            _logger.warning("group.not_removed path=%s", group)


def _create(parent: Path, limits: CommandLimits) -> Path | None:
    if limits.memory is None and limits.processes is None:
        return None
    group = parent / f"{_PREFIX}-{_owner_id(os.getpid())}-{next(_numbers)}"
    try:
        group.mkdir()
        _write_limits(group, limits)
    except OSError as error:  # the parent is gone or full; the supervisor enforces the limits instead
        _logger.warning("group.not_made path=%s reason=%s", group, error.strerror)
        remove_cgroup(group)
        return None
    return group


def _write_limits(group: Path, limits: CommandLimits) -> None:
    if limits.memory is not None:
        _write(group / "memory.max", limits.memory)
        _write(group / "memory.oom.group", 1)  # otherwise the kernel kills one process, and the rest continues damaged
        with suppress(FileNotFoundError):  # a system without swap has no such file
            _write(group / "memory.swap.max", 0)
    if limits.processes is not None:
        _write(group / "pids.max", limits.processes)


def _write(file: Path, value: int) -> None:
    descriptor = os.open(file, os.O_WRONLY)  # without O_CREAT: an interface file exists already
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)


def remove_cgroup(group: Path) -> bool:
    """Kill a group's processes and remove it with the groups below it; return False if it still exists."""
    for _ in range(_TRIES):
        with suppress(OSError):  # the group is gone, or Linux is older than 5.14
            _write(group / "cgroup.kill", 1)
        for directory, _, _ in os.walk(group, topdown=False):
            with suppress(OSError):  # a killed process in it is not gone yet
                Path(directory).rmdir()
        if not group.exists():
            return True
        clock.sleep(_POLL)
    return False


def sweep_orphaned_cgroups(parent: Path) -> int:
    """Kill and remove the groups below `parent` whose owners are dead; return how many there were."""
    found = 0
    with suppress(OSError):  # the parent is gone
        for group in list(parent.iterdir()):
            if _is_orphan(group.name):
                found += remove_cgroup(group)
    return found


def _is_orphan(name: str) -> bool:
    prefix, _, rest = name.partition("-")
    owner, _, number = rest.rpartition("-")
    parts = owner.split("-")
    if prefix != _PREFIX or not number.isdigit() or len(parts) != 3 or not parts[1].isdigit():
        return False
    # A process id of another PID namespace (a container) means nothing here.
    return parts[0] == _namespace() and _owner_id(int(parts[1])) != owner


def _owner_id(pid: int) -> str:
    """Return a process's namespace, id and start time; a dead process has no start time."""
    return f"{_namespace()}-{pid}-{clock.process_start(pid)}"


def _namespace() -> str:
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    return "0"
