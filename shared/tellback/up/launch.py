"""Replace this process by a command that dies with its parent: `python -I -S launch.py PARENT_PID COMMAND ...`.

This is a program of its own rather than a `preexec_fn`, because Python code between fork and exec can deadlock. Where
the kernel has no parent-death signal (macOS), the guard alone makes sure that no process is left.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

PR_SET_PDEATHSIG: Final = 1


def die_with_parent(parent: int) -> None:
    """On Linux, have the kernel kill this process when its parent's thread ends; exit if `parent` died before that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def dying_with_parent(argv: Sequence[str]) -> list[str]:
    """Wrap a command so that the kernel kills it when this process dies, even by SIGKILL (Linux only)."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *argv]


def main(parent: int, argv: list[str]) -> None:
    """Replace this process by `argv`, which dies with `parent`."""
    die_with_parent(parent)
    os.execvp(argv[0], argv)  # noqa: S606 - the argv of our own children, without a shell


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
