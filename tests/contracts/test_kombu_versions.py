"""The contract with kombu, on the oldest and the newest version that pyproject.toml allows."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

from tests.support.other_versions import allowed, check, floor, install, run

CONTRACT = "tests/contracts/test_kombu.py"
VERSION = "import kombu; print(kombu.__version__)"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_the_contract_holds_on_the_oldest_version() -> None:
    oldest = floor(allowed("kombu"))
    place = Path(sys.prefix) / oldest.replace("==", "-")
    if not (place / "kombu").is_dir():
        install(place, oldest)
    check(CONTRACT, place)
    assert Version(run("-c", VERSION, path=place).strip()) == Version(oldest.partition("==")[2])


def test_the_contract_holds_on_the_newest_version() -> None:
    place = Path(sys.prefix) / "kombu-newest"
    install(place, f"kombu{allowed('kombu').specifier}")
    check(CONTRACT, place)
    found = Version(run("-c", VERSION, path=place).strip())
    assert found >= Version(version("kombu")), "the suite itself runs on a newer one"
