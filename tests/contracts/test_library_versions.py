"""The contracts with kombu and redis-py, on the oldest and the newest version that pyproject.toml allows."""

from __future__ import annotations

import sys
from importlib.metadata import distributions, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.support.other_versions import allowed, check, floor, install, run

MODULES = {"kombu": "kombu", "redis": "redis_py"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def check_contract(name: str, place: Path) -> Version:
    """Run the contract's tests with the library in `place`, and return the version that they had."""
    check(f"tests/contracts/test_{MODULES[name]}.py", place)
    return Version(run("-c", f"import {name}; print({name}.__version__)", path=place).strip())


def hiredis_for(place: Path) -> Requirement:
    """The range of hiredis that the redis-py of a folder asks for."""
    found = next(each for each in distributions(path=[str(place)]) if each.name == "redis")
    return next(each for each in map(Requirement, found.requires or []) if each.name == "hiredis")


@pytest.mark.parametrize("name", MODULES)
def test_the_contract_holds_on_the_oldest_version(name: str) -> None:
    oldest = floor(allowed(name))
    place = Path(sys.prefix) / oldest.replace("==", "-")
    if not (place / ("hiredis" if name == "redis" else name)).is_dir():  # the last step
        install(place, oldest)
        if name == "redis":
            install(place, floor(hiredis_for(place)))
    assert check_contract(name, place) == Version(oldest.partition("==")[2])


@pytest.mark.parametrize("name", MODULES)
def test_the_contract_holds_on_the_newest_version(name: str) -> None:
    place = Path(sys.prefix) / f"{name}-newest"
    install(place, f"{name}{allowed(name).specifier}", *(["hiredis"] if name == "redis" else []))
    assert check_contract(name, place) >= Version(version(name)), "the suite itself runs on a newer one"
