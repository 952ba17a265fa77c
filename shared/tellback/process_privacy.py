"""Keep a process's memory and environment from other processes of the same user (requirement C-72).

A worker's environment holds the URL of Redis with its password, and a command runs as the worker's user. Linux lets any
process of a user read `/proc/PID/environ` and memory of another, and attach a debugger, unless that one has said no. A
program started by it is dumpable again, because exec resets the flag. Root, and whoever has CAP_SYS_PTRACE, still read
everything: run workers as a user of their own. A program is open until it has said no, so what starts again and again
with a login, such as a health check, belongs to another user. Core files are not written for a closed process.
"""

from __future__ import annotations

import sys
from typing import Final

PR_SET_DUMPABLE: Final = 4


def forbid_dumps() -> None:
    """Close `/proc/PID/environ`, memory and descriptors of this process, and of what it forks, on Linux."""
    if sys.platform != "linux":
        return
    # Not by ctypes, whose import takes 3 ms, a tenth of a whole `tellback hook`; _ctypes takes 0.5 ms.
    import _ctypes  # noqa: PLC0415 - it exists where the interpreter was built with libffi

    program = _ctypes.dlopen(None, 0)  # type: ignore[arg-type] # None is this program; typeshed does not know it
    prctl = _ctypes.dlsym(program, "prctl")
    _ctypes.call_function(prctl, (PR_SET_DUMPABLE, 0, 0, 0, 0))
