"""The state that an agent's transcript shows before it stops: tools that have succeeded, open items of its own lists.

Known lists are `TodoWrite` and the task tools (`TaskCreate`, `TaskUpdate`, `TaskList`) of Claude Code, and the
`update_plan` of Codex. Both programs write a line of JSON for each step.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, cast

TRANSCRIPT_MAX: Final = 32 << 20  # bytes read from the end of a transcript
_STEPS: Final = (b'"tool_use', b'"tool_result', b'"function_call', b'"custom_tool_call')
_CODEX_CALLS: Final = frozenset({"function_call", "custom_tool_call"})
_CODEX_SHELL: Final = "exec_command"  # which Codex calls `Bash` when it speaks to hooks
# The outputs of a command that failed, and of a tool that does not exist, in Codex 0.169.0.
_CODEX_FAILED: Final = re.compile(r"Process exited with code (?!0\b)|unsupported call: ")
_TASK_NUMBER: Final = re.compile(r"#(\w+)")  # in the text of `TaskCreate`, where the line has no structured result


class TranscriptState(NamedTuple):
    """The state that a transcript shows: tools that have succeeded, and open items of the agent's own lists."""

    succeeded: frozenset[str]
    open_todos: tuple[str, ...]


class _LineStep(NamedTuple):
    """A call (`arguments` is set) or the result of one; `structured` is a result as the program itself read it."""

    id: str
    tool: str = ""
    arguments: dict[str, Any] | None = None
    failed: bool = False
    text: str = ""
    structured: object = None


class _Lists:
    """The agent's lists as its calls leave them; each item is a text and a status."""

    def __init__(self) -> None:
        self._todos: list[tuple[str, str]] = []
        self._tasks: dict[str, tuple[str, str]] = {}

    def open_items(self) -> tuple[str, ...]:
        return tuple(text for text, status in [*self._todos, *self._tasks.values()] if status != "completed")

    def succeeded(self, call: _LineStep, result: _LineStep) -> None:
        given = call.arguments or {}
        if call.tool == "TodoWrite":
            self._todos = _items(given.get("todos"), "content")
        elif call.tool == "update_plan":
            self._todos = _items(given.get("plan"), "step")
        elif call.tool == "TaskCreate":
            number = _object(_object(result.structured).get("task")).get("id") or _task_number(result.text)
            self._tasks[str(number)] = (str(given.get("subject")), "pending")
        elif call.tool == "TaskUpdate":
            self._update(str(given.get("taskId")), given)
        elif call.tool == "TaskList":
            listed = _object(result.structured).get("tasks")
            if isinstance(listed, list):  # it is complete: tasks of an earlier part of the session are on it too
                tasks = [_object(each) for each in cast("list[object]", listed)]
                self._tasks = {
                    str(task.get("id")): (str(task.get("subject")), str(task.get("status"))) for task in tasks
                }

    def _update(self, number: str, given: dict[str, Any]) -> None:
        text, status = self._tasks.pop(number, (f"task {number}", "pending"))
        if given.get("status") != "deleted":
            self._tasks[number] = (str(given.get("subject") or text), str(given.get("status") or status))


def read_transcript(path: object) -> TranscriptState | None:
    """Return the state in the transcript at `path`; None if it cannot be read."""
    # A pipe would hold the agent up until somebody writes to it.
    if not isinstance(path, str) or not os.path.isfile(path):
        return None
    called: dict[str, _LineStep] = {}
    succeeded: set[str] = set()
    lists = _Lists()
    try:
        for step in _steps(path):
            if step.arguments is not None:
                called[step.id] = step
            elif not step.failed and (call := called.get(step.id)):
                succeeded.update({call.tool, "Bash"} if call.tool == _CODEX_SHELL else {call.tool})
                lists.succeeded(call, step)
    except OSError:
        return None
    return TranscriptState(frozenset(succeeded), lists.open_items())


def _steps(path: str) -> Iterator[_LineStep]:
    """Yield the tool calls and their results in order; skip lines that do not parse."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TRANSCRIPT_MAX))
        for line in file:
            # A substring test before parsing: most lines of a long transcript are text.
            if not any(mark in line for mark in _STEPS):
                continue
            try:
                found = _object(json.loads(line))
            except (ValueError, RecursionError):
                continue  # the first line may be cut off by the seek, and the last one unfinished
            yield from _claude_steps(found) if "message" in found else _codex_steps(_object(found.get("payload")))


def _claude_steps(line: dict[str, Any]) -> Iterator[_LineStep]:
    content = _object(line["message"]).get("content")
    for each in cast("list[object]", content) if isinstance(content, list) else []:
        block = _object(each)
        if block.get("type") == "tool_use":
            yield _LineStep(str(block.get("id")), str(block.get("name")), _object(block.get("input")))
        elif block.get("type") == "tool_result":
            failed, text = block.get("is_error") is True, str(block.get("content"))
            yield _LineStep(
                str(block.get("tool_use_id")), failed=failed, text=text, structured=line.get("toolUseResult")
            )


def _codex_steps(item: dict[str, Any]) -> Iterator[_LineStep]:
    kind = str(item.get("type"))
    if kind in _CODEX_CALLS:
        try:
            arguments = _object(json.loads(item.get("arguments") or "{}"))
        except (ValueError, TypeError, RecursionError):
            arguments = {}
        yield _LineStep(str(item.get("call_id")), str(item.get("name")), arguments)
    elif kind.removesuffix("_output") in _CODEX_CALLS:
        text = str(item.get("output"))
        yield _LineStep(str(item.get("call_id")), failed=bool(_CODEX_FAILED.search(text)), text=text)


def _items(listed: object, key: str) -> list[tuple[str, str]]:
    items = [_object(each) for each in cast("list[object]", listed)] if isinstance(listed, list) else []
    return [(str(item[key]), str(item.get("status"))) for item in items if isinstance(item.get(key), str)]


def _task_number(text: str) -> str:
    found = _TASK_NUMBER.search(text)
    return found[1] if found else text


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
