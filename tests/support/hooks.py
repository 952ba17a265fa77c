"""Hook processes as an agent's program starts them: JSON on standard input, an answer on standard output."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile
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
    settings: Settings,
    *arguments: str,
    given: dict[str, Any] | bytes | None = None,
    event: str = "post-tool-use",
    env: Mapping[str, str] | None = None,
    stdout: int = subprocess.PIPE,
) -> subprocess.Popen[bytes]:
    """A hook process whose standard input is `given`, or a pipe.

    A hook waits two seconds for its input. What is given is there before it begins, so that no test is too slow for it.
    """
    with TemporaryFile() as file:
        if given is not None:
            file.write(given if isinstance(given, bytes) else json.dumps(given).encode())
            file.seek(0)
        return subprocess.Popen(
            [str(PROGRAM), "hook", event, *arguments],
            stdin=subprocess.PIPE if given is None else file,
            stdout=stdout,
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
    process = start_hook(settings, *arguments, given=given, event=event, env=env)
    out, err = process.communicate(timeout=60)
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
