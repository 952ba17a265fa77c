"""The output of `tellback up` and `tellback doctor` in a narrow terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tellback.cli.system import JsonUpReporter, TerminalUpReporter, _show_findings
from tellback.doctor.infrastructure import ok
from tellback.settings import Settings
from tellback.up.child import ChildProgram
from tellback.up.system import DataDir, SystemPlan

FULL = Path("/dev/full")
ADDRESS = f"http://tellback:{'ab' * 32}@127.0.0.1:5555/"


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")


def plan_in(folder: Path) -> SystemPlan:
    plan = SystemPlan(
        settings=Settings(),
        data_dir=DataDir(folder),
        redis=None,
        redis_release="8.2.3",
        workers={},
        beat=ChildProgram(name="beat", argv=["true"], log=folder / "log", environ={}),
        flower=None,
        alerts=None,
        flower_url=ADDRESS,
    )
    plan.data_dir.close()
    return plan


def test_addresses_are_printed_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each has a line of its own, from which it can be copied."""
    TerminalUpReporter(plan_in(tmp_path)).ready({"model": 1})
    assert f"Flower      {ADDRESS}" in capsys.readouterr().out.splitlines()


@pytest.mark.skipif(not FULL.exists(), reason="/dev/full is a device of Linux")
@pytest.mark.parametrize("make", [TerminalUpReporter, JsonUpReporter])
def test_a_system_goes_on_if_what_it_prints_cannot_be_written(
    make: type[TerminalUpReporter | JsonUpReporter],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker that was restarted with the log of `tellback up` on a full disk ended all other processes."""
    with io.TextIOWrapper(FULL.open("wb", buffering=0), write_through=True) as full:
        monkeypatch.setattr("sys.stdout", full)
        make(plan_in(tmp_path)).ready({"model": 1})
        assert "can't write to standard output: No space left on device" in capsys.readouterr().err
        monkeypatch.setattr("sys.stderr", full)
        reporter = make(plan_in(tmp_path))
        reporter.trouble("loops-1 was killed")
        reporter.stopping()


def test_findings_are_folded_and_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    _show_findings([ok("flower", ADDRESS)])
    shown = "".join(capsys.readouterr().out.split())
    assert shown == f"okflower{ADDRESS}"
