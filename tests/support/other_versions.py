"""Contract tests on other versions of a package than the installed one.

Each version is installed into a folder of this Python's environment, ahead of the installed one, and kept for the next
run. Needs a package index.
"""

from __future__ import annotations

import os
import sys
import tomllib
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement

from tests.support.processes import run_program

ROOT = Path(__file__).resolve().parents[2]


def allowed(name: str) -> Requirement:
    """A package as a user of Tellback or of its workers gets it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    every = chain(project["dependencies"], project["optional-dependencies"]["workers"])
    return next(each for each in map(Requirement, every) if each.name == name)


def floor(requirement: Requirement) -> str:
    """The requirement at its lower bound, exactly."""
    return f"{requirement.name}=={next(each.version for each in requirement.specifier if each.operator == '>=')}"


def run(*arguments: str, path: Path | None = None) -> str:
    """Run this environment's Python, with the packages of `path` ahead of its own."""
    environ = os.environ if path is None else {**os.environ, "PYTHONPATH": str(path)}
    done = run_program([sys.executable, *arguments], cwd=ROOT, env=environ, timeout=None, check=True)
    return done.stdout


def install(place: Path, *requirements: str) -> None:
    """Install packages into a folder, without what they need."""
    pip = ("-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet")
    run(*pip, "--no-deps", "--upgrade", "--target", str(place), *requirements)


def check(test: str, place: Path) -> None:
    """Run a contract test with the packages of a folder."""
    run("-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", test, path=place)
