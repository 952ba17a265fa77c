"""Why a command could not be started, in words that say which thing was wrong."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path


def invalid(argv: Sequence[object], cwd: str | None = None, env: Mapping[str, str] | None = None) -> str | None:
    """What is wrong with a command before it is tried, or None."""
    if not isinstance(argv, list | tuple):
        return f"argv is {type(argv).__name__}; give a list of arguments (there is no shell)"
    if not argv:
        return "argv is empty"
    wrong = [text for index, argument in enumerate(argv) if (text := _wrong_argument(index, argument))]
    wrong += ["cwd holds a NUL byte"] if cwd is not None and "\0" in cwd else []
    wrong += [
        f"env has a name or value that no environment can hold: {name!r}"
        for name, value in (env or {}).items()
        if not name or "=" in name or "\0" in name + value
    ]
    return wrong[0] if wrong else None


def _wrong_argument(index: int, argument: object) -> str | None:
    if not isinstance(argument, str):
        return f"argv[{index}] is {type(argument).__name__}; every argument is a text"
    if index == 0 and not argument:
        return "argv[0], the program, is empty"
    return f"argv[{index}] holds a NUL byte" if "\0" in argument else None


def describe(number: int | None, text: str, *, argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> str:
    """The reason of a failed start, from the system's error number; `text` where there is none."""
    if problem := _cwd_problem(Path(cwd)):
        return f"{problem}: {cwd}"
    program = argv[0]
    path = _resolve(program, cwd, env)
    reasons = {
        errno.ENOENT: f"program not found: {program}",
        errno.ENOTDIR: f"program not found: {program}",
        errno.EACCES: f"no permission to execute: {program}",
        errno.ENOEXEC: f"exec format error: this system cannot run {program}",
        errno.E2BIG: "argument list too long for this system",
    }
    if path is not None and number == errno.ENOENT:
        return f"the interpreter that {program} names was not found"
    if path is not None and number == errno.EACCES and path.is_dir():
        return f"a directory, not a program: {program}"
    return reasons.get(number or 0) or f"could not start {program}: {os.strerror(number) if number else text}"


def _cwd_problem(cwd: Path) -> str | None:
    try:
        if not cwd.exists():
            return "cwd does not exist"
        if not cwd.is_dir():
            return "cwd is not a directory"
    except OSError:
        return "no permission to enter cwd"
    return None if os.access(cwd, os.X_OK) else "no permission to enter cwd"


def _resolve(program: str, cwd: str, env: Mapping[str, str]) -> Path | None:
    """The file of that name, executable or not."""
    path = Path(cwd) / program if "/" in program else shutil.which(program, os.F_OK, env.get("PATH", os.defpath))
    return Path(path) if path and Path(path).exists() else None
