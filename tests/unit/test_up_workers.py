"""The number and the kinds of the workers that `tellback up --workers` starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tellback.settings import Settings
from tellback.up.system import DataDir, _worker_programs


@pytest.mark.parametrize("count", [1, 3])
def test_each_kind_but_the_model_is_started_as_often_as_asked(tmp_path: Path, count: int) -> None:
    data_dir = DataDir(tmp_path)
    programs = _worker_programs(Settings(host="alpha"), data_dir, {}, count)
    data_dir.close()
    numbered = [f"{kind}-{number}@alpha" for kind in ("loops", "commands") for number in range(1, count + 1)]
    assert sorted(programs) == sorted(["model@alpha", *numbered])
    for node, program in programs.items():
        assert f"--hostname={node}" in program.argv
