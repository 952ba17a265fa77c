"""Hook processes as an agent's program starts them: JSON on standard input, an answer on standard output."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tellback.settings import Settings
from tests.support.workers import environment

PROGRAM: Final = Path(sys.executable).with_name("tellback")


def tool_event(call_id: str | None = "toolu_1", **fields: Any) -> dict[str, Any]:
    """Build the event that Claude Code writes after a tool's call."""
    event = {
        "session_id": "s1",
        "transcript_path": "/home/u/.claude/projects/p/s1.jsonl",
        "cwd": "/home/u/p",
        "permission_mode": "default",
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "pytest -q", "description": "Run the tests"},
        "tool_response": {"stdout": "2 failed\n", "stderr": "", "interrupted": False, "isImage": False},
        "tool_use_id": call_id,
    }
    return {key: value for key, value in {**event, **fields}.items() if value is not None}


def start_hook(
    settings: Settings, *arguments: str, event: str = "post-tool-use", env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """A hook process that waits for its standard input."""
    return subprocess.Popen(
        [str(PROGRAM), "hook", event, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(settings, env),
    )


def run_hook(
    settings: Settings,
    given: dict[str, Any] | bytes,
    *arguments: str,
    event: str = "post-tool-use",
    env: Mapping[str, str] | None = None,
) -> bytes:
    """Run a hook process and return its answer; whatever its input, it ends with 0 and leaves standard error empty."""
    raw = given if isinstance(given, bytes) else json.dumps(given).encode()
    process = start_hook(settings, *arguments, event=event, env=env)
    out, err = process.communicate(raw, timeout=30)
    assert (process.returncode, err) == (0, b"")
    return out


def context_of(answer: bytes) -> str:
    """The text that the agent sees; empty where nothing was printed."""
    if not answer:
        return ""
    output = json.loads(answer)
    assert set(output) == {"hookSpecificOutput"}
    assert set(output["hookSpecificOutput"]) == {"hookEventName", "additionalContext"}
    return str(output["hookSpecificOutput"]["additionalContext"])


def troubles(settings: Settings) -> str:
    """Read the troubles that hook processes have written down."""
    path = settings.data_path / "hook" / "troubles.log"
    return path.read_text() if path.exists() else ""
