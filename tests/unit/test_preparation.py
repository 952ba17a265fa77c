"""Failures between fork and exec are reported, and not as the command's own."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest

from tellback.commands.exec_preparation import ExecPreparation


def failure(preparation: ExecPreparation) -> str:
    """Return the reason why `true` could not be prepared."""
    try:
        with pytest.raises(subprocess.SubprocessError) as caught:
            subprocess.Popen(["true"], preexec_fn=preparation.preexec())  # noqa: PLW1509 - what is tested
        return preparation.failure_reason() or str(caught.value)
    finally:
        preparation.close()


@pytest.mark.programs
def test_a_control_group_that_takes_no_process_is_named(tmp_path: Path) -> None:
    """The system refuses the write for many reasons: this one says that there is no space."""
    (tmp_path / "cgroup.procs").symlink_to("/dev/full")
    preparation = ExecPreparation([])
    preparation.use_cgroup(tmp_path)
    assert failure(preparation) == "its control group cannot be entered: [Errno 28] No space left on device"


def test_a_control_group_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(subprocess.SubprocessError, match=r"its control group cannot be entered.*No such file"):
        ExecPreparation([]).use_cgroup(tmp_path / "absent")


@pytest.mark.programs
def test_a_limit_that_cannot_be_set_is_named() -> None:
    assert failure(ExecPreparation([(10_000, 1)])).startswith("its limits cannot be set: invalid resource")


def test_without_group_or_limit_nothing_is_to_be_done() -> None:
    preparation = ExecPreparation([])
    assert preparation.preexec() is None
    assert preparation.failure_reason() == ""
    preparation.close()


@pytest.mark.programs
def test_a_limit_is_set_before_the_command_runs() -> None:
    preparation = ExecPreparation([(resource.RLIMIT_NOFILE, 17)])
    done = subprocess.run(
        ["sh", "-c", "ulimit -n"],
        preexec_fn=preparation.preexec(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, preparation.failure_reason()) == ("17\n", "")
    preparation.close()
