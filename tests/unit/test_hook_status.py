"""`tellback hook status`, the only place where a person sees what hooks do not print."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tellback.cli.app import app
from tellback.hook import failure_log


def _shown() -> str:
    done = CliRunner().invoke(app, ["hook", "status"])
    assert done.exit_code == 0
    return done.stdout


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TELLBACK_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


def test_only_files_with_events_are_counted(data: Path) -> None:
    """A client keeps an empty one after an outage, and it was shown as waiting for Redis."""
    folder = data / "spool" / "default" / "id" / "events.0"
    folder.mkdir(parents=True)
    (folder / "1.spool").touch()
    assert "waiting for Redis" not in _shown()
    (folder / "2.spool").write_bytes(b"an event")
    assert "spool files waiting for Redis on this host: 1\n" in _shown()


def test_the_newest_error_is_shown_whatever_the_size_of_the_log(data: Path) -> None:
    """The error that filled the log was renamed with it, so that none was shown."""
    last = failure_log.MOST_BYTES // 500 + 2
    for number in range(last + 1):
        failure_log.log_failure(os.environ, f"{number} {'x' * 490}")
        assert f" {number} x" in (data / "hook" / "troubles.log").read_text()
    assert f" {last} x" in _shown()
    assert {path.name for path in (data / "hook").iterdir()} == {"troubles.log", "troubles.log.1"}
