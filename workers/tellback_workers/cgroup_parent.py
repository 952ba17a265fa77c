"""The cgroup v2 directory below which this worker creates a control group for each limited command.

The directory must be delegated to the worker with the controllers memory and pids: by systemd (`Delegate=yes`) or by
`TELLBACK_COMMAND_CGROUP`. The worker claims it once, before the pool forks, and every pool process inherits the path.
The kernel allows no processes in a group that passes controllers to its children, so the worker first moves itself into
a leaf group below. Without a delegated directory the supervisor watches processes instead, which is less exact.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

import structlog
from celery import signals

from tellback.commands.resource_limits import CONTROLLERS, sweep_orphaned_cgroups
from tellback.settings import Settings, load
from tellback_workers.policy_file import PolicyFile, read_policy

LEAF: Final = "tellback-worker"  # equal to `DelegateSubgroup` in our systemd unit

OFF: Final = "off"

_ROUNDS: Final = 20  # processes may fork while they are moved, so several passes are needed

_MARKS: Final = ("trusted.delegate", "user.delegate")  # extended attributes that systemd sets on delegated directories


class NotDelegated(Exception):
    """Raised when this worker cannot create control groups; the text says why."""


def claim_group(named: str, proc: Path = Path("/proc")) -> Path:
    """Prepare and return the directory for commands' groups: the one `named`, otherwise this process's own group.

    Raises:
        NotDelegated: this process may use no such directory, or the setting turns control groups off.
    """
    if named == OFF:
        raise NotDelegated(f"TELLBACK_COMMAND_CGROUP is {OFF!r}")
    try:
        return _claim_delegated(named, proc)
    except OSError as error:
        raise NotDelegated(f"{error.filename}: {error.strerror}") from error


def _claim_delegated(named: str, proc: Path) -> Path:
    own = own_group(proc)
    parent = Path(named) if named else own.parent if own.name == LEAF else own
    if not (parent / "cgroup.controllers").is_file():
        raise NotDelegated(f"{parent} is not a cgroup v2 directory")
    if not (parent / "cgroup.type").is_file():  # every group except the root has this file
        raise NotDelegated(f"{parent} is the root of all control groups, which can't be delegated")
    there = (parent / "cgroup.controllers").read_text("utf-8").split()
    if missing := [name for name in CONTROLLERS if name not in there]:
        raise NotDelegated(f"{parent} lacks the controller {missing[0]}")
    for path in (parent, parent / "cgroup.procs", parent / "cgroup.subtree_control"):
        if not os.access(path, os.W_OK):
            raise NotDelegated(f"{path} cannot be written")
    if own == parent:
        _move_processes(parent, proc, given=bool(named) or _is_marked(parent))
    control = parent / "cgroup.subtree_control"
    if not set(CONTROLLERS) <= set(control.read_text("utf-8").split()):
        _write(control, " ".join(f"+{name}" for name in CONTROLLERS))
    return parent


def own_group(proc: Path) -> Path:
    """Return the directory of this process's own control group.

    Raises:
        NotDelegated: the system has no cgroup v2, or the group is outside the mounted part of the hierarchy.
    """
    lines = (proc / "self" / "cgroup").read_text("utf-8").splitlines()
    # Lines of version 1 name their controllers between the colons; `0::` is the one line of version 2.
    path = next((line[3:] for line in lines if line.startswith("0::")), None)
    mount = _mount_point(proc)
    if path is None or mount is None:
        raise NotDelegated("this system has no cgroup v2")
    point, root = mount
    if path.startswith("/..") or not Path(path).is_relative_to(root):
        raise NotDelegated(f"the worker's control group {path} is outside of what is mounted at {point}")
    return point / Path(path).relative_to(root)


def _mount_point(proc: Path) -> tuple[Path, str] | None:
    """Return the mount point of cgroup v2 and the group that is the root of that mount."""
    for line in (proc / "self" / "mountinfo").read_text("utf-8", "surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        if after.split()[:1] == ["cgroup2"]:
            root, point = before.split()[3:5]
            return Path(point.replace(r"\040", " ")), root
    return None


def _is_marked(group: Path) -> bool:
    for mark in _MARKS:
        with suppress(OSError):
            if os.getxattr(group, mark) == b"1":
                return True
    return False


def _move_processes(parent: Path, proc: Path, *, given: bool) -> None:
    """Move the processes of `parent` into a leaf group; refuse foreign ones unless the directory is `given` to us."""
    strangers = [pid for pid in _members(parent) if not _is_ours(pid, proc)]
    if strangers and not given:
        raise NotDelegated(f"{parent} holds processes of others, such as {strangers[0]}, and nothing says it is ours")
    leaf = parent / LEAF
    leaf.mkdir(exist_ok=True)
    for _ in range(_ROUNDS):
        members = _members(parent)
        if not members:
            return
        for pid in members:
            with suppress(ProcessLookupError):  # it has exited
                _write(leaf / "cgroup.procs", str(pid))
    raise NotDelegated(f"new processes keep appearing in {parent}")


def _members(group: Path) -> list[int]:
    return [int(pid) for pid in (group / "cgroup.procs").read_text("utf-8").split()]


def _is_ours(pid: int, proc: Path) -> bool:
    """Return True for this process and its descendants."""
    while pid > 1 and pid != os.getpid():
        try:
            pid = int((proc / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
        except OSError:  # it has exited, so there is nothing left to move
            return True
    return pid == os.getpid()


def _write(file: Path, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error
    finally:
        os.close(descriptor)


_logger = structlog.get_logger("tellback.limits")

_claimed: Final[list[Path]] = []

_reason: Final[list[str]] = []


@lru_cache(maxsize=1)
def cgroup_parent() -> Path | None:
    """Return the claimed directory, or None; the first call removes groups that dead processes left there."""
    if not _claimed:
        return None
    if swept := sweep_orphaned_cgroups(_claimed[0]):
        _logger.info("limits.swept", parent=str(_claimed[0]), groups=swept)
    return _claimed[0]


# A new pool process may replace one that was killed, so it has to sweep again.
os.register_at_fork(after_in_child=cgroup_parent.cache_clear)


def describe_limits() -> str:
    """Describe how this worker enforces limits of memory and processes, for `tellback doctor`."""
    if _claimed:
        return f"held by control groups below {_claimed[0]}"
    return f"held by looking at processes: {_reason[0]}" if _reason else "none"


def claim_cgroups(settings: Settings) -> None:
    """Claim the directory if the policy's limits need one, and log how they are enforced."""
    if not limits_process_trees(read_policy(settings.command_policy)):
        return
    try:
        parent = claim_group(settings.command_cgroup)
    except NotDelegated as reason:
        _reason[:] = [str(reason)]
        _logger.warning("limits.watched", reason=str(reason))
    else:
        _claimed[:] = [parent]
        _logger.info("limits.grouped", parent=str(parent))
        cgroup_parent()


def limits_process_trees(policy: PolicyFile) -> bool:
    """Return True if the policy limits the memory or number of processes of a whole command."""
    every = [policy.limits, *(section.limits for section in policy.sections.values())]
    return any(limits.memory is not None or limits.processes is not None for limits in every)


@signals.celeryd_after_setup.connect
def _claim(**_: object) -> None:
    claim_cgroups(load())
