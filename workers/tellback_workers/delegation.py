"""Where this worker may make control groups: a cgroup v2 directory that was delegated to it, with memory and pids.

systemd delegates with `Delegate=yes`, an administrator by `TELLBACK_COMMAND_CGROUP`. A group that gives controllers to
others must have no process of its own, so the worker steps aside first, into a group below.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from tellback.commands.cgroups import CONTROLLERS

LEAF: Final = "tellback-worker"  # also the `DelegateSubgroup` of our unit file
OFF: Final = "off"
_ROUNDS: Final = 20  # of moving processes that fork meanwhile
_MARKS: Final = ("trusted.delegate", "user.delegate")  # what systemd writes on a directory that it gives away


class NotDelegated(Exception):
    """No control groups are to be had; the text says why."""


def claim(named: str, proc: Path = Path("/proc")) -> Path:
    """Make ready the directory below which commands get their groups: the one `named`, else this process's own.

    Raises:
        NotDelegated: there is none that this process may use, or the setting says not to.
    """
    if named == OFF:
        raise NotDelegated(f"TELLBACK_COMMAND_CGROUP is {OFF!r}")
    try:
        return _claim(named, proc)
    except OSError as error:
        raise NotDelegated(f"{error.filename}: {error.strerror}") from error


def _claim(named: str, proc: Path) -> Path:
    own = own_group(proc)
    parent = Path(named) if named else own.parent if own.name == LEAF else own
    if not (parent / "cgroup.controllers").is_file():
        raise NotDelegated(f"{parent} is no cgroup v2 directory")
    if not (parent / "cgroup.type").is_file():  # only the root of all has none
        raise NotDelegated(f"{parent} is the root of all control groups, which is not to be shared out")
    there = (parent / "cgroup.controllers").read_text("utf-8").split()
    if missing := [name for name in CONTROLLERS if name not in there]:
        raise NotDelegated(f"{parent} has no controller {missing[0]}")
    for path in (parent, parent / "cgroup.procs", parent / "cgroup.subtree_control"):
        if not os.access(path, os.W_OK):
            raise NotDelegated(f"{path} cannot be written")
    if own == parent:
        _step_aside(parent, proc, given=bool(named) or _is_marked(parent))
    control = parent / "cgroup.subtree_control"
    if not set(CONTROLLERS) <= set(control.read_text("utf-8").split()):
        _write(control, " ".join(f"+{name}" for name in CONTROLLERS))
    return parent


def own_group(proc: Path) -> Path:
    """The directory of this process's own control group.

    Raises:
        NotDelegated: it has none of version 2, or none that can be seen from here.
    """
    lines = (proc / "self" / "cgroup").read_text("utf-8").splitlines()
    path = next((line[3:] for line in lines if line.startswith("0::")), None)
    mount = _mount(proc)
    if path is None or mount is None:
        raise NotDelegated("this system has no cgroup v2")
    point, root = mount
    if path.startswith("/..") or not Path(path).is_relative_to(root):
        raise NotDelegated(f"the worker's control group {path} is outside of what is mounted at {point}")
    return point / Path(path).relative_to(root)


def _mount(proc: Path) -> tuple[Path, str] | None:
    """Where cgroup v2 is mounted, and which group is at the top of that."""
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


def _step_aside(parent: Path, proc: Path, *, given: bool) -> None:
    """Move the processes of `parent` into a group below it; strangers only where the directory was `given` to us."""
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
            with suppress(ProcessLookupError):  # it has ended meanwhile
                _write(leaf / "cgroup.procs", str(pid))
    raise NotDelegated(f"{parent} is never without processes")


def _members(group: Path) -> list[int]:
    return [int(pid) for pid in (group / "cgroup.procs").read_text("utf-8").split()]


def _is_ours(pid: int, proc: Path) -> bool:
    """Whether it is this process or was started by it."""
    while pid > 1 and pid != os.getpid():
        try:
            pid = int((proc / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
        except OSError:  # it has ended
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
