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
from tests.support.responses_api import SUBAGENT, ResponsesApi, responses_api
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


POLICY: Final = "[deny_repeated_failures]\nafter = 2\n"


def run_codex(settings: Settings, folder: Path, api: ResponsesApi, option: str) -> str:
    """Install the hooks in a project, run Codex there, and return what it printed."""
    assert CODEX
    project, home = folder / "project", folder / "home"
    (home / ".codex").mkdir(parents=True)
    (home / ".codex" / "config.toml").write_text(CONFIG.format(url=api.url, project=project))
    env = {**os.environ, **environment(settings), "HOME": str(home), "OWN_KEY": "invented", "NO_PROXY": "*"}
    env |= {"PATH": os.pathsep.join([str(PROGRAM.parent), os.environ["PATH"]]), "TELLBACK_HOOK_WAIT": "5"}
    install = ["tellback", "hook", "install", "--program=codex", "--shared", option]
    subprocess.run(install, cwd=project, env=env, check=True, capture_output=True)
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    done = subprocess.run(
        [CODEX, "exec", "--dangerously-bypass-hook-trust", "--json", "say hello"],
        cwd=project, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_codex_does_not_run_a_call_that_a_policy_denies(
    settings: Settings, start_workers: StartWorkers, tmp_path: Path
) -> None:
    start_workers(1, queues="events")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "policy.toml").write_text(POLICY)
    with responses_api([("exec_command", {"cmd": "python3 missing.py"}, "")] * 4) as api:
        run_codex(settings, tmp_path, api, "--policy=policy.toml")
    outputs = [str(item["output"]) for item in api.requests[-1] if str(item.get("type")).endswith("_output")]
    assert ["Denied by Tellback's policy" in output for output in outputs] == [False, False, True, True]
    assert ["Process exited with code 2" in output for output in outputs] == [True, True, False, False]
    assert troubles(settings) == ""


def test_the_installed_command_hooks_of_codex(
    tb: Tellback, settings: Settings, start_workers: StartWorkers, tmp_path: Path
) -> None:
    start_workers(1, queues="events")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "hooks.toml").write_text(HOOKS)
    spawn = ("spawn_agent", {"message": SUBAGENT}, "multi_agent_v1")
    echo = ("exec_command", {"cmd": "echo hello"}, "")
    with responses_api([spawn, echo, echo, ("exec_command", {"cmd": "sleep 3"}, "")], [echo]) as api:
        printed = run_codex(settings, tmp_path, api, "--config=hooks.toml")
    session = json.loads(printed.splitlines()[0])["thread_id"]
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
