"""The checks before an agent stops: required files and tools, its own open todos, and a checklist.

They compare the configuration with the file system and the agent's transcript. Requirements G-72 and G-80.
"""

from __future__ import annotations

import os
from typing import Any, Final, cast

from tellback.hook.event import HookEvent
from tellback.hook.options import HookConfig
from tellback.hook.transcript import read_transcript
from tellback.quoting import quote_value
from tellback.redaction import redact_text
from tellback.truncation import single_line

LISTED: Final = 20
_AGENTS: Final = ("subagent", "workflow")  # types of background tasks, beside "shell" and "monitor"
_LINE: Final = 300


def missing_before_stop(config: HookConfig, event: HookEvent) -> str:
    """Return the text that the agent gets once instead of stopping; "" if nothing is missing or to be checked.

    An agent that waits for another one is woken by it, and stops again later.
    """
    if _waits_for_agents(event.given.get("background_tasks")):
        return ""
    folder = event.given.get("cwd")
    start = folder if isinstance(folder, str) else os.curdir
    lacking = [name for name in config.required_files if not os.path.exists(os.path.join(start, name))]
    done = read_transcript(event.given.get("transcript_path")) if config.required_tools or config.todos else None
    if done is not None:  # without a transcript nobody knows, and an agent must not be stopped on a guess
        lacking += [
            f"the tool {tool} has not succeeded" for tool in config.required_tools if tool not in done.succeeded
        ]
        lacking += [f"open on your list: {item}" for item in done.open_todos if config.todos]
    parts: list[str] = []
    if lacking:
        parts.append("\n".join(["Before you finish, this is missing:", *map(_list_item, lacking[:LISTED])]))
    if config.checklist:
        parts.append(
            "\n".join(["Before you finish, check that this holds:", *map(_list_item, config.checklist[:LISTED])])
        )
    if parts and config.question:
        parts.append(f"What was asked: {_one_line(config.question)}")
    return "\n\n".join(parts)


def _waits_for_agents(tasks: object) -> bool:
    """Return whether Claude Code lists other agents that are at work; a server in the background ends perhaps never."""
    return isinstance(tasks, list) and any(
        cast("dict[str, Any]", task).get("type") in _AGENTS and cast("dict[str, Any]", task).get("status") == "running"
        for task in cast("list[object]", tasks)
        if isinstance(task, dict)
    )


def _list_item(text: str) -> str:
    return f"- {_one_line(text)}"


def _one_line(text: str) -> str:
    return quote_value(single_line(redact_text(text[: 8 * _LINE]), _LINE))
