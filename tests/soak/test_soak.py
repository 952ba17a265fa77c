"""A short soak: what grows within minutes is seen, and so is a worker that leaks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import ROOT
from tests.support.processes import run_program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.model,
    pytest.mark.timeout(1_200),
    pytest.mark.skipif(sys.platform != "linux", reason="reads the files of processes in /proc"),
]


def soak(out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a soak in a process of its own: it measures all its descendants."""
    command = [sys.executable, "-m", "tests.soak", "--bounds=short", "--speed=1", f"--out={out}", *arguments]
    return run_program(command, cwd=ROOT, timeout=1_100)


def test_nothing_grows_in_a_short_soak(tmp_path: Path) -> None:
    """After three minutes files, sockets, threads and Redis come back, and memory grows within wide bounds."""
    done = soak(tmp_path, "--minutes=3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "soak.png").stat().st_size > 10_000


def test_a_leaking_worker_is_seen(tmp_path: Path) -> None:
    """Each of its tasks, of which there are few while consumers linger, keeps 4 MB and an open file."""
    done = soak(tmp_path, "--minutes=2", "--leak")
    grown = [line for line in done.stdout.splitlines() if line.startswith("GREW")]
    assert done.returncode == 1, done.stdout + done.stderr
    assert any("loops pool.files" in line for line in grown), done.stdout
    assert any("loops pool.memory" in line for line in grown), done.stdout
