"""The real Codex with a model of our own: what hooks say reaches the model, and a subagent counts for itself.

It needs `codex` on PATH (`npm install -g @openai/codex`): the package has 250 MB, so setting up does not fetch it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tellback import Tellback
from tellback.settings import Settings
from tests.support.hooks import PROGRAM, troubles
from tests.support.responses_api import SUBAGENT, responses_api
from tests.support.workers import StartWorkers, environment

CODEX: Final = shutil.which("codex")
HOOKS: Final = """
[[providers]]
name = "StaticFeedback"
every_n_calls = 2
fields = { summary = "Mind the goal.", label = "Goal" }
"""
CONFIG: Final = """
model = "gpt-5"
model_provider = "own"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.own]
name = "own"
base_url = "{url}"
wire_api = "responses"
env_key = "OWN_KEY"
[projects."{project}"]
trust_level = "trusted"
"""
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CODEX is None, reason="codex is not installed")]


def test_the_installed_command_hooks_of_codex(
    tb: Tellback, settings: Settings, start_workers: StartWorkers, tmp_path: Path
) -> None:
    assert CODEX
    start_workers(1, queues="events")
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    (home / ".codex").mkdir(parents=True)
    (project / "hooks.toml").write_text(HOOKS)
    spawn = ("spawn_agent", {"message": SUBAGENT}, "multi_agent_v1")
    echo = ("exec_command", {"cmd": "echo hello"}, "")
    with responses_api([spawn, echo, echo, ("exec_command", {"cmd": "sleep 3"}, "")], [echo]) as api:
        (home / ".codex" / "config.toml").write_text(CONFIG.format(url=api.url, project=project))
        env = {**os.environ, **environment(settings), "HOME": str(home), "OWN_KEY": "invented", "NO_PROXY": "*"}
        env |= {"PATH": os.pathsep.join([str(PROGRAM.parent), os.environ["PATH"]]), "TELLBACK_HOOK_WAIT": "5"}
        install = ["tellback", "hook", "install", "--program=codex", "--shared", "--config=hooks.toml"]
        subprocess.run(install, cwd=project, env=env, check=True, capture_output=True)
        subprocess.run(["git", "init", "-q", str(project)], check=True)
        done = subprocess.run(
            [CODEX, "exec", "--dangerously-bypass-hook-trust", "--json", "say hello"],
            cwd=project, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=100, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    session = json.loads(done.stdout.splitlines()[0])["thread_id"]
    calls = [entry for entry in tb.history(session) if entry["kind"] == "tool_call"]
    of_main = [call["tool"] for call in calls if call["evaluation"] == session]
    assert of_main == ["spawn_agent", "Bash", "Bash", "Bash"]
    [of_sub] = [call for call in calls if call["evaluation"] != session]
    assert (of_sub["evaluation"].startswith(f"{session}/"), of_sub["params"]) == (True, {"command": "echo hello"})
    read = [
        json.dumps(given).count("Mind the goal.") for given in api.requests if SUBAGENT not in json.dumps(given[-1])
    ]
    assert max(read) == 2, "delivered once each, after the second and the fourth of four calls"
    assert troubles(settings) == ""
