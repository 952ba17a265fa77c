"""What an agent is to do before it stops, as the configuration and its own transcript say.

Source: actionable-feedback, "Priority Order" (success verification prompts).
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple, cast

from tellback.hook.config import Config
from tellback.hook.event import Event
from tellback.redaction import redact_text

TRANSCRIPT_MAX: Final = 32 << 20  # bytes of a transcript that are read: its end
LISTED: Final = 20
_LINE: Final = 300
_TODOS: Final = "TodoWrite"


class Done(NamedTuple):
    """What a transcript tells: the tools that have succeeded, and what is open on the agent's own list."""

    succeeded: frozenset[str]
    open_todos: tuple[str, ...]


def missing(config: Config, event: Event) -> str:
    """What the agent is told once, in place of stopping; "" where nothing is missing or to be checked."""
    folder = event.given.get("cwd")
    start = folder if isinstance(folder, str) else os.curdir
    lacking = [name for name in config.required_files if not os.path.exists(os.path.join(start, name))]  # noqa: PTH110, PTH118 - without pathlib
    done = _done(event.given.get("transcript_path")) if config.required_tools or config.todos else None
    if done is not None:  # with no transcript to read, nobody knows
        lacking += [
            f"the tool {tool} has not succeeded" for tool in config.required_tools if tool not in done.succeeded
        ]
        lacking += [f"open on your list: {item}" for item in done.open_todos if config.todos]
    parts: list[str] = []
    if lacking:
        parts.append("\n".join(["Before you finish, this is missing:", *map(_item, lacking[:LISTED])]))
    if config.checklist:
        parts.append("\n".join(["Before you finish, check that this holds:", *map(_item, config.checklist[:LISTED])]))
    if parts and config.question:
        parts.append(f"What was asked: {_one_line(config.question)}")
    return "\n\n".join(parts)


def _item(text: str) -> str:
    return f"- {_one_line(text)}"


def _one_line(text: str) -> str:
    line = " ".join(redact_text(text[: 8 * _LINE]).split())
    return line if len(line) <= _LINE else line[: _LINE - 1] + "…"


def _done(path: object) -> Done | None:
    """What the transcript of Claude Code at `path` tells; None where there is none to read."""
    if not isinstance(path, str):
        return None
    called: dict[str, str] = {}
    succeeded: set[str] = set()
    todos: object = ()
    try:
        for block in _blocks(path):
            if block.get("type") == "tool_use":
                called[str(block.get("id"))] = str(block.get("name"))
                if block.get("name") == _TODOS:
                    todos = _of(block, "input").get("todos")
            elif block.get("type") == "tool_result" and block.get("is_error") is not True:
                succeeded.add(called.get(str(block.get("tool_use_id")), ""))
    except OSError:
        return None
    return Done(frozenset(succeeded), tuple(_open(todos)))


def _blocks(path: str) -> Iterator[dict[str, Any]]:
    """The calls of tools and their results, in order; a line that is none of a transcript is passed over."""
    with open(path, "rb") as file:  # noqa: PTH123 - without pathlib
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TRANSCRIPT_MAX))
        for line in file:
            if b'"tool_use' not in line and b'"tool_result' not in line:
                continue
            try:
                found: object = json.loads(line)
            except (ValueError, RecursionError):
                continue  # the first may be half a line, and the last one may be under way
            content = _of(found, "message").get("content")
            if isinstance(content, list):
                blocks = cast("Collection[object]", content)
                yield from (cast("dict[str, Any]", block) for block in blocks if isinstance(block, dict))


def _of(value: object, key: str) -> dict[str, Any]:
    inner = cast("dict[str, object]", value).get(key) if isinstance(value, dict) else None
    return cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}


def _open(todos: object) -> Iterator[str]:
    """The items of a list of `TodoWrite` that are not completed."""
    for each in cast("list[object]", todos) if isinstance(todos, list) else []:
        item = cast("dict[str, object]", each) if isinstance(each, dict) else {}
        text = item.get("content")
        if isinstance(text, str) and item.get("status") != "completed":
            yield text
