"""A real agent program with a model of our own: what hooks say reaches the model after the tool's result."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from tellback import FeedbackProviderConfig, FeedbackTrigger, StaticFeedback, Tellback
from tellback.adapters.claude_agent_sdk import hooks
from tellback.settings import Settings
from tests.support.hooks import PROGRAM, troubles
from tests.support.messages_api import MessagesApi, messages_api
from tests.support.workers import StartWorkers, environment

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

# Not imported: every process of tests would load the SDK to collect this file.
CLI: Final = Path(str(cast("ModuleSpec", find_spec("claude_agent_sdk")).origin)).with_name("_bundled") / "claude"
CONFIG: Final = """
[[providers]]
name = "StaticFeedback"
every_n_calls = 2
fields = { summary = "Mind the goal.", label = "Goal" }
"""
pytestmark = pytest.mark.skipif(not CLI.exists(), reason="this platform's claude-agent-sdk brings no program")


def own_environment(api: MessagesApi, folder: Path) -> dict[str, str]:
    """Nothing of this machine's user, and no network but ours."""
    return {
        "HOME": str(folder),
        "ANTHROPIC_BASE_URL": api.url,
        "ANTHROPIC_API_KEY": "sk-ant-invented-for-a-test",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
        "TELLBACK_HOOK_WAIT": "10",
        "PATH": os.pathsep.join([str(PROGRAM.parent), os.environ["PATH"]]),
    }


def run_claude_code(settings: Settings, api: MessagesApi, project: Path, option: str) -> str:
    """Install the hooks in a project, run Claude Code there, and return what it printed."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "ANTHROPIC"))}
    env = {**clean, **environment(settings), **own_environment(api, project.parent)}
    install = [str(PROGRAM), "hook", "install", "--shared", option]
    subprocess.run(install, cwd=project, env=env, check=True, capture_output=True)
    done = subprocess.run(
        [str(CLI), "-p", "say hello", "--output-format", "json", "--allowedTools", "Bash"],
        cwd=project, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_installed_command_hooks_of_claude_code(
    tb: Tellback, settings: Settings, start_workers: StartWorkers, tmp_path: Path
) -> None:
    start_workers(1, queues="events")
    project = tmp_path / "project"
    project.mkdir()
    (project / "hooks.toml").write_text(CONFIG)
    with messages_api("Bash", {"command": "echo hello", "description": "Say hello"}, calls=3) as api:
        result = json.loads(run_claude_code(settings, api, project, "--config=hooks.toml"))
    assert (result["result"], result["is_error"]) == ("All done.", False)
    assert api.times_read("Mind the goal.") == [0, 0, 1, 1], "delivered once, after the second of three calls"
    calls = [entry for entry in tb.history(result["session_id"]) if entry["kind"] == "tool_call"]
    assert [(call["tool"], call["params"]["command"]) for call in calls] == [("Bash", "echo hello")] * 3
    assert troubles(settings) == ""


@pytest.mark.slow  # a quicker test shows what is denied; this one, that the program obeys
def test_claude_code_does_not_run_a_call_that_a_policy_denies(
    tb: Tellback, settings: Settings, start_workers: StartWorkers, tmp_path: Path
) -> None:
    start_workers(1, queues="events")
    project = tmp_path / "project"
    project.mkdir()
    (project / "policy.toml").write_text("[deny_repeated_failures]\nafter = 2\n")
    with messages_api("Bash", {"command": "python3 missing.py", "description": "Look"}, calls=4) as api:
        result = json.loads(run_claude_code(settings, api, project, "--policy=policy.toml"))
    assert result["result"] == "All done."
    assert api.times_read("Denied by Tellback's policy") == [0, 0, 0, 1, 2], "the third call and the fourth"
    assert sum(entry["kind"] == "tool_call" for entry in tb.history(result["session_id"])) == 2, "no other ran"
    assert troubles(settings) == ""


@pytest.mark.slow  # a quicker test plays the program's side; this one runs the program
def test_the_hooks_of_the_sdk_with_its_own_program(tb: Tellback, start_workers: StartWorkers, tmp_path: Path) -> None:
    start_workers(1, queues="events")
    reminder = FeedbackProviderConfig(StaticFeedback("Mind the goal.", label="Goal"), FeedbackTrigger(every_n_calls=2))
    prompt = tb.prompt("s1", "p", feedback_providers=[reminder])

    async def talk(api: MessagesApi) -> list[Any]:
        from claude_agent_sdk import ClaudeAgentOptions, query

        options = ClaudeAgentOptions(
            hooks=hooks(prompt, wait=1.0), env=own_environment(api, tmp_path), cwd=tmp_path, allowed_tools=["Bash"]
        )
        return [message async for message in query(prompt="say hello", options=options)]

    with messages_api("Bash", {"command": "echo hello", "description": "Say hello"}, calls=3) as api:
        messages = asyncio.run(talk(api))
    assert messages[-1].result == "All done."
    assert api.times_read("Mind the goal.") == [0, 0, 1, 1]
    assert sum(1 for entry in tb.history("s1") if entry["kind"] == "tool_call") == 3
