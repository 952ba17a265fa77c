"""Texts about a command's start and end: the wrong argument, program or directory, and the signal that ended it.

The system reports one error number for several causes: ENOENT, for example, for a missing program, interpreter or
directory. So these functions look at the file system again to tell them apart.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_NOT_FOUND: Final = "program not found"
_A_DIRECTORY: Final = "a directory, not a program"
_NO_CWD: Final = "cwd does not exist"
_CWD_NO_DIRECTORY: Final = "cwd is not a directory"
MISTYPED: Final = tuple(f"{error}: " for error in (_NOT_FOUND, _A_DIRECTORY, _NO_CWD, _CWD_NO_DIRECTORY))
"""The beginnings of the errors which say that argv or cwd names nothing to run, so nothing has been started."""

REFUSED_BY_POLICY: Final = "refused by this host's policy"
CANCELLED: Final = "cancelled"
"""The beginnings of the errors of a command that the policy of its host refused, and of one that somebody cancelled."""


def command_error(argv: Sequence[object], cwd: str | None = None, env: Mapping[str, str] | None = None) -> str | None:
    """Return what is wrong with a command that can be seen before its start, or None."""
    if not isinstance(argv, list | tuple):  # a str is a sequence too, and each character would be an argument
        return f"argv is {type(argv).__name__}; give a list of arguments (there is no shell)"
    if not argv:
        return "argv is empty"
    wrong = [text for index, argument in enumerate(argv) if (text := _argument_error(index, argument))]
    wrong += ["cwd holds a NUL byte"] if cwd is not None and "\0" in cwd else []
    wrong += [
        f"env has a name or value that no environment can hold: {name!r}"
        for name, value in (env or {}).items()
        if not name or "=" in name or "\0" in name + value
    ]
    return wrong[0] if wrong else None


def _argument_error(index: int, argument: object) -> str | None:
    if not isinstance(argument, str):
        return f"argv[{index}] is {type(argument).__name__}; every argument is a text"
    if index == 0 and not argument:
        return "argv[0], the program, is empty"
    return f"argv[{index}] holds a NUL byte" if "\0" in argument else None


def signal_name(exit_code: int | None) -> str | None:
    """Return the name of the signal that ended a command, None if none did."""
    if exit_code is None or exit_code >= 0:
        return None
    try:
        return signal.Signals(-exit_code).name
    except ValueError:  # of the real-time signals only the first and the last have a name of their own
        return f"SIGRTMIN+{-exit_code - signal.SIGRTMIN}"


def start_error(number: int | None, text: str, *, argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> str:
    """Explain a failed start by the system's error number, or by `text` if there is no number."""
    # First, because a missing directory and a missing program both give ENOENT.
    if problem := _cwd_error(Path(cwd)):
        return f"{problem}: {cwd}"
    program = argv[0]
    path = _resolve_program(program, cwd, env)
    reasons = {
        errno.ENOENT: f"{_NOT_FOUND}: {program}",
        errno.ENOTDIR: f"{_NOT_FOUND}: {program}",
        errno.EACCES: f"no permission to execute: {program}",
        errno.ENOEXEC: f"exec format error: this system cannot run {program}",
        errno.E2BIG: "argument list too long for this system",
    }
    if path is not None and number == errno.ENOENT:  # the file exists, so its `#!` line is wrong
        return f"the interpreter that {program} names was not found"
    if path is not None and number == errno.EACCES and path.is_dir():  # exec gives EACCES for a directory
        return f"{_A_DIRECTORY}: {program}"
    return reasons.get(number or 0) or f"could not start {program}: {os.strerror(number) if number else text}"


def _cwd_error(cwd: Path) -> str | None:
    try:
        if not cwd.exists():
            return _NO_CWD
        if not cwd.is_dir():
            return _CWD_NO_DIRECTORY
    except OSError:
        return "no permission to enter cwd"
    return None if os.access(cwd, os.X_OK) else "no permission to enter cwd"


def _resolve_program(program: str, cwd: str, env: Mapping[str, str]) -> Path | None:
    """Find the program's file, whether or not it is executable."""
    path = Path(cwd) / program if "/" in program else shutil.which(program, os.F_OK, env.get("PATH", os.defpath))
    return Path(path) if path and Path(path).exists() else None
