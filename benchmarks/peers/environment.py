"""An environment of a peer's own, below `build/`, made once: an interpreter that suits, and a package from PyPI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "TELLBACK_BENCH_PYTHON"
NEEDED = (3, 12)
FOLDER = Path("build/peers")
NO_PYTHON = f"no Python {NEEDED[0]}.{NEEDED[1]} or newer on PATH, of uv or of pyenv; name one in {VARIABLE}"


class PeerMissingError(Exception):
    """Something that the peer needs is missing; the text names it."""


def environment(requirement: str) -> Path:
    """The interpreter of an environment that has `requirement`.

    Raises:
        PeerMissingError: no interpreter is new enough, or the package cannot be installed.
    """
    python = next((path for path in _candidates() if _new_enough(path)), None)
    if python is None:
        raise PeerMissingError(NO_PYTHON)
    folder = FOLDER / requirement.replace("==", "-")
    inside, done = folder / "bin" / "python", folder / "complete"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        for command in ([python, "-m", "venv", folder], [inside, "-m", "pip", "install", "-q", requirement]):
            made = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600, check=False)
            if made.returncode:
                raise PeerMissingError(f"{requirement} cannot be installed: {made.stderr.strip()[-300:]}")
        done.touch()
    return inside


def _candidates() -> Iterator[str]:
    if os.environ.get(VARIABLE):
        yield os.environ[VARIABLE]
        return
    yield sys.executable
    for name in ("python3.14", "python3.13", "python3.12", "python3"):
        if path := shutil.which(name):
            yield path
    for root in (os.environ.get("PYENV_ROOT"), "~/.pyenv"):
        if root:
            yield from map(str, sorted(Path(root).expanduser().glob("versions/3.1[2-9]*/bin/python")))
    if uv := shutil.which("uv"):
        found = subprocess.run(
            [uv, "python", "find", f">={NEEDED[0]}.{NEEDED[1]}"], capture_output=True, text=True, check=False
        )
        if found.returncode == 0:
            yield found.stdout.strip()


def _new_enough(python: str) -> bool:
    """Check that it is new enough, and runs at all: a shim on PATH may stand for a version that is not installed."""
    code = f"import sys, venv, ensurepip; sys.exit(sys.version_info < {NEEDED})"
    try:
        return subprocess.run([python, "-c", code], capture_output=True, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
