"""docs/loops/commands.md shows what really happens."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tellback.settings import Settings
from tests.support.pages import examples
from tests.support.workers import StartWorkers

PAGE = "docs/loops/commands.md"
REPAIR = "# ... the agent repairs the test ..."


@pytest.mark.slow
def test_the_example_prints_what_the_page_says(
    settings: Settings,
    start_workers: StartWorkers,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """It shows a failing test, the gate's refusal and a linked retry that passes; ids and durations differ."""
    test = tmp_path / "app" / "test_sum.py"
    test.parent.mkdir()
    test.write_text("def test_sum():\n    assert 1 + 1 == 3\n")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    start_workers(env={"TELLBACK_COMMAND_ROOTS": str(test.parent), "PATH": path})
    monkeypatch.setenv("TELLBACK_REDIS_URL", settings.redis_url)
    code, printed = examples(PAGE)[0]
    assert REPAIR in code

    def repair() -> None:
        test.write_text("def test_sum():\n    assert 1 + 1 == 2  # repaired\n")

    exec(compile(code.replace(REPAIR, "repair()"), PAGE, "exec"), {"repair": repair})
    assert plain(capsys.readouterr().out) == plain(printed)


def plain(text: str) -> str:
    """Without what differs from run to run."""
    return re.sub(r"\[[0-9a-f]+-[0-9a-f]+\]", "[id]", re.sub(r"in [0-9.]+s", "in some time", text))
