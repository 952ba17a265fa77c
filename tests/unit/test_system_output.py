"""The output of `tellback up` and `tellback doctor` in a narrow terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tellback.cli.system import TerminalUpReporter, _show_findings
from tellback.doctor.infrastructure import ok
from tellback.settings import Settings
from tellback.up.child import ChildProgram
from tellback.up.system import DataDir, SystemPlan

ADDRESS = f"http://tellback:{'ab' * 32}@127.0.0.1:5555/"


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")


def test_addresses_are_printed_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each has a line of its own, from which it can be copied."""
    plan = SystemPlan(
        settings=Settings(),
        data_dir=DataDir(tmp_path),
        redis=None,
        redis_release="8.2.3",
        workers={},
        beat=ChildProgram(name="beat", argv=["true"], log=tmp_path / "log", environ={}),
        flower=None,
        alerts=None,
        flower_url=ADDRESS,
    )
    TerminalUpReporter(plan).ready({"model": 1})
    plan.data_dir.close()
    assert f"Flower      {ADDRESS}" in capsys.readouterr().out.splitlines()


def test_findings_are_folded_and_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    _show_findings([ok("flower", ADDRESS)])
    shown = "".join(capsys.readouterr().out.split())
    assert shown == f"okflower{ADDRESS}"
