"""docs/operations/records.md shows what really happens."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import ROOT, blocks
from tests.support.processes import run_program

PAGE = "docs/operations/records.md"
TOOL = [sys.executable, "-c", "from tellback.cli.app import main; main()"]

pytestmark = pytest.mark.slow


def test_the_example_accumulates_as_the_page_shows(tmp_path: Path) -> None:
    """Three records the first time, six after the second; the gate passes, since the failure was retried."""
    shown = (ROOT / PAGE).read_text("utf-8").partition("```console\n")[2].partition("```")[0]
    printed = ""
    for _ in range(2):
        done = run_program([sys.executable, str(ROOT / "examples" / "feedback_loop.py")], cwd=tmp_path, check=True)
        printed += f"$ python examples/feedback_loop.py\n{done.stdout}"
    assert plain(printed) == plain(shown)
    gate = [*TOOL, "gate", "--file", "feedback_record.jsonl"]
    assert subprocess.run(gate, cwd=tmp_path, stdout=subprocess.DEVNULL, check=False).returncode == 0


def plain(text: str) -> str:
    return re.sub(r"Python [\d.]+", "Python", text)


def test_every_command_of_the_page_is_one(tmp_path: Path) -> None:
    """Without Redis, those that read a file are run; of the others the options are checked."""
    commands = [line for language, text in blocks(PAGE) if language == "sh" for line in text.splitlines()]
    assert len(commands) == 6
    (tmp_path / "feedback_record.jsonl").touch()
    for line in commands:
        _, name, *arguments = shlex.split(line, comments=True)
        helped = run_program([*TOOL, name, "--help"], check=True).stdout
        assert not [option for option in arguments if option.startswith("--") and option not in helped]
        if "--file" in arguments and "--follow" not in arguments:
            done = run_program([*TOOL, name, *arguments], cwd=tmp_path)
            assert done.returncode == (1 if name == "gate" else 0), done.stderr
