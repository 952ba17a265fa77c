"""The contract with redis-py, on the oldest and the newest version that pyproject.toml allows."""

from __future__ import annotations

import sys
from importlib.metadata import distributions, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.support.other_versions import allowed, check, floor, install, run

CONTRACT = "tests/contracts/test_redis_py.py"
VERSIONS = "import hiredis, redis; print('redis', redis.__version__, 'hiredis', hiredis.__version__)"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def hiredis_for(place: Path) -> Requirement:
    """The range of hiredis that the redis-py of a folder asks for."""
    found = next(each for each in distributions(path=[str(place)]) if each.name == "redis")
    return next(each for each in map(Requirement, found.requires or []) if each.name == "hiredis")


def test_the_contract_holds_on_the_oldest_version() -> None:
    oldest = floor(allowed("redis"))
    place = Path(sys.prefix) / oldest.replace("==", "-")
    if not (place / "hiredis").is_dir():  # the last step
        install(place, oldest)
        install(place, floor(hiredis_for(place)))
    check(CONTRACT, place)
    assert run("-c", VERSIONS, path=place).startswith(oldest.replace("==", " "))


def test_the_contract_holds_on_the_newest_version() -> None:
    place = Path(sys.prefix) / "redis-newest"
    install(place, f"redis{allowed('redis').specifier}", "hiredis")
    check(CONTRACT, place)
    found = run("-c", VERSIONS, path=place)
    assert Version(found.split()[1]) >= Version(version("redis")), "the suite itself runs on a newer one"
