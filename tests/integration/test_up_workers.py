"""The number and the kinds of the workers that `tellback up --workers` starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tellback.settings import Settings
from tellback.state.database import Database
from tellback.up.system import DataDir, UpOptions, _worker_programs, plan_system


@pytest.mark.parametrize("count", [1, 3])
def test_each_kind_but_the_model_is_started_as_often_as_asked(tmp_path: Path, count: int) -> None:
    data_dir = DataDir(tmp_path)
    programs = _worker_programs(Settings(host="alpha"), data_dir, {}, count)
    data_dir.close()
    numbered = [f"{kind}-{number}@alpha" for kind in ("loops", "commands") for number in range(1, count + 1)]
    assert sorted(programs) == sorted(["model@alpha", *numbered])
    for node, program in programs.items():
        assert f"--hostname={node}" in program.argv


def test_two_that_share_a_redis_share_no_name_of_a_worker(tmp_path: Path, database: Database) -> None:
    """Each overwrote the presence of the other's workers, and withdrew it at its end; doctor showed half of them."""
    names: list[set[str]] = []
    for data in (tmp_path / "one", tmp_path / "two", tmp_path / "one"):
        settings = Settings(host="alpha", data_dir=str(data))
        plan = plan_system(
            UpOptions(settings=settings, redis_url=database.url, workers=2, redis_port=0, flower_port=None)
        )
        plan.data_dir.close()
        names.append(set(plan.workers))
    assert len(names[0] | names[1]) == 2 * len(names[0])
    assert names[0] == names[2], "a restart keeps them"
