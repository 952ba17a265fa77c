"""Run `make unit` on every supported Python that the machine has, and say which it has not.

Each version but that of `.venv` gets a light environment of its own, `.venv-unit-3.12` and so on, built once.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13")


def main() -> int:
    """Return 0 if the unit tests pass on every version that was found, else 1."""
    failed: list[str] = []
    for version in VERSIONS:
        python = next((path for path in _candidates(version) if _is_version(path, version)), None)
        if python is None:
            print(f"unit-all: no Python {version} on PATH, nor of uv or pyenv: left out", flush=True)
            continue
        print(f"unit-all: Python {version} ({python})", flush=True)
        own = version == f"{sys.version_info[0]}.{sys.version_info[1]}"  # this one's environment is there already
        arguments = ["make", "unit", *([] if own else [f"PYTHON={python}", f"VENV=.venv-unit-{version}"])]
        if subprocess.run(arguments, cwd=ROOT, check=False).returncode:
            failed.append(version)
    if failed:
        print(f"unit-all: the unit tests failed on Python {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _candidates(version: str) -> Iterator[str]:
    if path := shutil.which(f"python{version}"):
        yield path
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(home.glob(f"versions/{version}.*/bin/python{version}")))
    if uv := shutil.which("uv"):
        found = subprocess.run([uv, "python", "find", version], capture_output=True, text=True, check=False)
        if found.returncode == 0:
            yield found.stdout.strip()


def _is_version(python: str, version: str) -> bool:
    """Return True if it is of this version and runs: a shim of pyenv on PATH may name a version that is not there."""
    code = f"import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != {version!r})"
    try:
        return subprocess.run([python, "-c", code], capture_output=True, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


if __name__ == "__main__":
    sys.exit(main())
