"""A real agent program with a model of our own: what hooks say reaches the model after the tool's result."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import claude_agent_sdk
import pytest
from claude_agent_sdk import ClaudeAgentOptions, query

from tellback import FeedbackProviderConfig, FeedbackTrigger, StaticFeedback, Tellback
from tellback.adapters.claude_agent_sdk import hooks
from tellback.settings import Settings
from tests.support.hooks import PROGRAM, troubles
from tests.support.messages_api import MessagesApi, messages_api
from tests.support.workers import StartWorkers, environment

CLI: Final = Path(claude_agent_sdk.__file__).with_name("_bundled") / "claude"
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


def test_the_installed_command_hooks_of_claude_code(
    tb: Tellback, settings: Settings, start_workers: StartWorkers, tmp_path: Path
) -> None:
    start_workers(1, queues="events")
    project = tmp_path / "project"
    project.mkdir()
    (project / "hooks.toml").write_text(CONFIG)
    with messages_api("Bash", {"command": "echo hello", "description": "Say hello"}, calls=3) as api:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "ANTHROPIC"))}
        env = {**clean, **environment(settings), **own_environment(api, tmp_path)}
        install = [str(PROGRAM), "hook", "install", "--shared", "--config", "hooks.toml"]
        subprocess.run(install, cwd=project, env=env, check=True, capture_output=True)
        done = subprocess.run(
            [str(CLI), "-p", "say hello", "--output-format", "json", "--allowedTools", "Bash"],
            cwd=project, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=100, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert (result["result"], result["is_error"]) == ("All done.", False)
    assert api.times_read("Mind the goal.") == [0, 0, 1, 1], "delivered once, after the second of three calls"
    calls = [entry for entry in tb.history(result["session_id"]) if entry["kind"] == "tool_call"]
    assert [(call["tool"], call["params"]["command"]) for call in calls] == [("Bash", "echo hello")] * 3
    assert troubles(settings) == ""


def test_the_hooks_of_the_sdk_with_its_own_program(tb: Tellback, start_workers: StartWorkers, tmp_path: Path) -> None:
    start_workers(1, queues="events")
    reminder = FeedbackProviderConfig(StaticFeedback("Mind the goal.", label="Goal"), FeedbackTrigger(every_n_calls=2))
    prompt = tb.prompt("s1", "p", feedback_providers=[reminder])

    async def talk(api: MessagesApi) -> list[Any]:
        options = ClaudeAgentOptions(
            hooks=hooks(prompt, wait=1.0), env=own_environment(api, tmp_path), cwd=tmp_path, allowed_tools=["Bash"]
        )
        return [message async for message in query(prompt="say hello", options=options)]

    with messages_api("Bash", {"command": "echo hello", "description": "Say hello"}, calls=3) as api:
        messages = asyncio.run(talk(api))
    assert messages[-1].result == "All done."
    assert api.times_read("Mind the goal.") == [0, 0, 1, 1]
    assert sum(1 for entry in tb.history("s1") if entry["kind"] == "tool_call") == 3
