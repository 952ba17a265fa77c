"""docs/loops/delivery.md is right, beside the examples that `test_page_examples` runs."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from tellback.settings import Settings
from tests.support.hooks import PROGRAM, run_hook
from tests.support.pages import blocks, console
from tests.support.workers import StartWorkers

PAGE = "docs/loops/delivery.md"


@pytest.mark.slow
def test_the_hook_of_the_page_answers_as_the_page_says(
    settings: Settings, start_workers: StartWorkers, tmp_path: Path
) -> None:
    """It gets two calls with the page's configuration, after the page's installation."""
    start_workers(1, queues="events")
    configuration, _policy = [text for language, text in blocks(PAGE) if language == "toml"]
    (tmp_path / "hooks.toml").write_text(configuration)
    line = next(iter(console(PAGE)))
    subprocess.run([PROGRAM, *shlex.split(line, comments=True)[1:]], cwd=tmp_path, check=True, capture_output=True)
    installed = json.loads((tmp_path / ".claude" / "settings.local.json").read_text())
    command = shlex.split(installed["hooks"]["PostToolUse"][0]["hooks"][0]["command"].rpartition("; ")[2])
    given, answer = [json.loads(text) for language, text in blocks(PAGE) if language == "json"]
    patient = [*command[3:], "--wait=10"]
    at = {"CLAUDE_PROJECT_DIR": str(tmp_path)}  # as Claude Code sets it; the file's path is relative to it
    assert run_hook(settings, {**given, "tool_use_id": "toolu_1"}, *patient, env=at) == b""
    assert json.loads(run_hook(settings, given, *patient, env=at)) == answer


@pytest.mark.parametrize("code", [text for language, text in blocks(PAGE) if language == "py"])
def test_the_frameworks_examples_name_what_there_is(code: str) -> None:
    imports = "\n".join(line for line in code.splitlines() if line.startswith("from "))
    exec(compile(imports, PAGE, "exec"), {})
    compile(code, PAGE, "exec", flags=0x2000)  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
