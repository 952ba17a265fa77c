"""Finding and killing a tree of processes by /proc; standard library only.

A process that has lost its parent is below the next process above it that adopts orphans (PR_SET_CHILD_SUBREAPER). So
whoever adopts finds everything below itself, also what called setsid or was forked twice.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
FREEZES = 100  # rounds at most to find what forks while it is being stopped
LINUX = sys.platform.startswith("linux")
LIBC = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Become the parent of every process below this one that loses its own; on Linux, else nothing."""
    if LINUX:
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def signal_on_parents_death(number: int) -> None:
    """Have the kernel send this process a signal when its parent dies; on Linux, else nothing."""
    if LINUX:
        LIBC.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)


def descendants(root: int) -> list[int]:
    """Every process below `root`, by one look at /proc (its `children` files may miss some)."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it may have ended meanwhile
                stat = (entry / "stat").read_bytes()
                children.setdefault(int(stat.rpartition(b")")[2].split()[1]), []).append(int(entry.name))
    found: list[int] = []
    parents = [root]
    while parents:
        below = children.get(parents.pop(), [])
        found += below
        parents += below
    return found


def freeze(root: int) -> None:
    """Stop every process below `root`: what stands still starts no other while the rest is found and killed."""
    stopped: set[int] = set()
    for _ in range(FREEZES):
        found = set(descendants(root)) - stopped
        if not found:
            return
        for pid in found:
            with suppress(OSError):  # it may have ended meanwhile
                os.kill(pid, signal.SIGSTOP)
        stopped |= found


def signal_all(root: int, number: int) -> None:
    """Send a signal to every process below `root`."""
    for pid in descendants(root):
        with suppress(OSError):  # it may have ended meanwhile
            os.kill(pid, number)
