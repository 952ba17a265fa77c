"""Systems of an installed package: workers find them by the entry point group `tellback.systems`, with no setting."""

from __future__ import annotations

import importlib
import logging
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tellback import LlmResponse, Tellback
from tellback.errors import ConfigurationError
from tellback.settings import Settings
from tellback.turns.pipeline.runner import load_systems
from tellback_workers.isolation import pipeline_of
from tests.support.turns import opened, sent, state
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

MODULE = """
import tellback


class Underlines:
    name = "Underlines"
    order = 58.5

    def should_process(self, context):
        return context.outgoing_response is not None

    def process(self, context):
        context.outgoing_response = tellback.OutgoingResponse.text_only(f"_{context.outgoing_response.text}_")


class Broken:
    def __init__(self):
        raise RuntimeError("no licence")


made = Underlines()
nothing = object()
"""
GOOD = "underlines = underlining:Underlines"


def wheel(folder: Path, name: str, *entries: str) -> Path:
    """A wheel as an index would give it."""
    path, info = folder / f"{name}-1.0-py3-none-any.whl", f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": MODULE,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "\n".join(["[tellback.systems]", *entries, ""]),
    }
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"]))
    return path


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, *entries: str) -> None:
    """The package's files on the path, as installing puts them there."""
    with zipfile.ZipFile(wheel(folder, "underlining", *entries)) as archive:
        archive.extractall(folder / "site")
    monkeypatch.setattr(sys, "path", [str(folder / "site"), *sys.path])
    importlib.invalidate_caches()
    monkeypatch.delitem(sys.modules, "underlining", raising=False)


@pytest.mark.parametrize("entry", [GOOD, "any-name = underlining:made"])
def test_an_installed_system_is_in_the_workers_pipeline_and_in_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    installed(tmp_path, monkeypatch, entry)
    assert [system.name for system in load_systems("")] == ["Underlines"]
    assert "Underlines" in pipeline_of(Settings(), custom=True).names
    assert "Underlines" not in pipeline_of(Settings(), custom=False).names


def test_an_entry_point_that_does_not_work_is_reported_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another package's fault stops no worker, and takes no system of others with it."""
    broken = ["a = underlining:Broken", "b = underlining:Missing", "c = nowhere:Anything", "d = underlining:nothing"]
    installed(tmp_path, monkeypatch, *broken, GOOD)
    with caplog.at_level(logging.ERROR):
        assert [system.name for system in load_systems("")] == ["Underlines"]
    assert caplog.text.count("system.not_loaded") == len(broken)
    for value in ("underlining:Broken", "underlining:Missing", "nowhere:Anything", "underlining:nothing"):
        assert value in caplog.text


def test_a_system_that_is_installed_and_named_by_the_setting_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch, GOOD)
    with pytest.raises(ConfigurationError, match=r"entry points tellback\.systems: two systems are named Underlines"):
        load_systems("underlining:Underlines")


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_real_worker_runs_the_systems_of_a_wheel_that_pip_installed(
    tb: Tellback, start_workers: StartWorkers, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([*pip, str(wheel(tmp_path, "underlining", GOOD))], check=True)
    start_workers(1, queues="turns", env={"PYTHONPATH": str(site)})
    turn = opened(tb)
    turn.finish(llm_response=LlmResponse(text="42"))
    wait_until(lambda: state(turn) == "responded", "the turn has its answer")
    assert sent(tb) == [(turn.id, "answer", "_42_")]
