"""The contract with redis-py, on the oldest and the newest version that pyproject.toml allows.

Each is installed into a folder of this Python's environment, ahead of the installed one, and kept for the next run.
Needs a package index.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.metadata import distributions, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = "import hiredis, redis; print('redis', redis.__version__, 'hiredis', hiredis.__version__)"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def allowed() -> Requirement:
    """redis-py as a user of the package gets it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return next(each for each in map(Requirement, project["dependencies"]) if each.name == "redis")


def floor(requirement: Requirement) -> str:
    """The requirement at its lower bound, exactly."""
    return f"{requirement.name}=={next(each.version for each in requirement.specifier if each.operator == '>=')}"


def run(*arguments: str, path: Path | None = None) -> str:
    """Run this environment's Python, with the packages of `path` ahead of its own."""
    environ = os.environ if path is None else {**os.environ, "PYTHONPATH": str(path)}
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=ROOT, env=environ, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def install(place: Path, *requirements: str) -> None:
    pip = ("-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet")
    run(*pip, "--no-deps", "--upgrade", "--target", str(place), *requirements)


def hiredis_for(place: Path) -> Requirement:
    """The range of hiredis that the redis-py of a folder asks for."""
    found = next(each for each in distributions(path=[str(place)]) if each.name == "redis")
    return next(each for each in map(Requirement, found.requires or []) if each.name == "hiredis")


def check(place: Path) -> str:
    """Run the contract test with the packages of a folder; return their versions."""
    run("-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "tests/contracts/test_redis_py.py", path=place)
    return run("-c", VERSIONS, path=place).strip()


def test_the_contract_holds_on_the_oldest_version() -> None:
    oldest = floor(allowed())
    place = Path(sys.prefix) / oldest.replace("==", "-")
    if not (place / "hiredis").is_dir():  # the last step
        install(place, oldest)
        install(place, floor(hiredis_for(place)))
    assert check(place).startswith(oldest.replace("==", " "))


def test_the_contract_holds_on_the_newest_version() -> None:
    place = Path(sys.prefix) / "redis-newest"
    install(place, f"redis{allowed().specifier}", "hiredis")
    assert Version(check(place).split()[1]) >= Version(version("redis")), "the suite itself runs on a newer one"
