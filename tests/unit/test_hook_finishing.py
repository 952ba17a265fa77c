"""The advice of `tellback hook stop` to an agent before it may stop."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tellback.errors import ConfigurationError
from tellback.hook import finishing, transcript
from tellback.hook.event import HookEvent
from tellback.hook.finishing import missing_before_stop
from tellback.hook.options import read_config


def reason(tmp_path: Path, config: str, *lines: dict[str, Any] | str, **given: Any) -> str:
    (tmp_path / "hooks.toml").write_text(config)
    transcript = tmp_path / "s1.jsonl"
    transcript.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    event = HookEvent("Stop", "s1", "s1", None, {"cwd": str(tmp_path), "transcript_path": str(transcript), **given})
    return missing_before_stop(read_config(str(tmp_path / "hooks.toml")), event)


def use(tool: str, id_: str, **given: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": id_, "name": tool, "input": given}
    return {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "so"}, block]}}


def result(id_: str, *, failed: bool = False) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": id_, "content": "x", **({"is_error": True} if failed else {})}
    return {"type": "user", "message": {"role": "user", "content": [block]}}


TOOLS = 'required_tools = ["Bash", "mcp__mail__send"]'


def test_required_tools_that_have_not_succeeded_are_listed(tmp_path: Path) -> None:
    lines = [use("Bash", "1"), result("1", failed=True), use("Bash", "2"), result("2"), use("mcp__mail__send", "3")]
    expected = "Before you finish, this is missing:\n- the tool mcp__mail__send has not succeeded"
    assert reason(tmp_path, TOOLS, *lines) == expected
    assert reason(tmp_path, TOOLS, *lines, result("3", failed=True)) == expected
    assert reason(tmp_path, TOOLS, *lines, result("3")) == ""


def test_what_is_open_on_the_agents_own_list_is_listed(tmp_path: Path) -> None:
    first = use("TodoWrite", "1", todos=[{"content": "Read", "status": "pending"}])
    last = use(
        "TodoWrite",
        "2",
        todos=[
            {"content": "Read", "status": "completed"},
            {"content": "Fix\nthe tests", "status": "in_progress"},
            "odd",
        ],
    )
    lines = [first, result("1"), last, result("2")]
    expected = "Before you finish, this is missing:\n- open on your list: Fix the tests"
    assert reason(tmp_path, "todos = true", *lines) == expected
    assert reason(tmp_path, "todos = false", *lines) == ""
    emptied = use("TodoWrite", "3", todos=[])
    assert reason(tmp_path, "todos = true", *lines, emptied, result("3")) == ""
    refused = result("3", failed=True)
    assert reason(tmp_path, "todos = true", *lines, emptied, refused) == expected, "as where there is no such tool"
    assert reason(tmp_path, 'required_tools = ["TodoWrite"]', first, result("1"), last) == "", (
        "nobody asked for the list"
    )


def tasks(*calls: tuple[str, dict[str, Any], Any]) -> list[dict[str, Any] | str]:
    """Return the lines that Claude Code 2.1.330 writes for calls of its task tools."""
    lines: list[dict[str, Any] | str] = []
    for n, (tool, given, answer) in enumerate(calls):
        lines += [use(tool, str(n), **given), {**result(str(n), failed=answer is None), "toolUseResult": answer}]
    return lines


def test_what_is_open_among_the_agents_tasks_is_listed(tmp_path: Path) -> None:
    first, second, third = (
        ("TaskCreate", {"subject": subject, "description": "d"}, {"task": {"id": str(n), "subject": subject}})
        for n, subject in enumerate(["Read", "Fix", "Write"], 1)
    )
    refused = ("TaskUpdate", {"taskId": "2", "status": "completed"}, None)
    done = ("TaskUpdate", {"taskId": "1", "status": "completed"}, {"success": True})
    renamed = ("TaskUpdate", {"taskId": "2", "status": "in_progress", "subject": "Fix it"}, {"success": True})
    gone = ("TaskUpdate", {"taskId": "3", "status": "deleted"}, {"success": True})
    listed: tuple[str, dict[str, Any], Any] = (
        "TaskList",
        {},
        {"tasks": [{"id": "2", "subject": "Fix it", "status": "completed"}]},
    )
    lines = tasks(first, second, refused, third, done, renamed, gone)
    assert reason(tmp_path, "todos = true", *lines).endswith("missing:\n- open on your list: Fix it")
    assert reason(tmp_path, "todos = true", *tasks(first, second, third, done, listed)) == "", "the list is complete"
    without = [use("TaskCreate", "1", subject="Read"), result("1")]
    without[1]["message"]["content"][0]["content"] = "Task #7 created successfully: Read"
    done_7 = [use("TaskUpdate", "2", taskId="7", status="completed"), result("2")]
    assert reason(tmp_path, "todos = true", *without).endswith("list: Read")
    assert reason(tmp_path, "todos = true", *without, *done_7) == ""


@pytest.mark.parametrize("kind", ["subagent", "workflow"])
def test_an_agent_that_waits_for_another_has_not_finished(tmp_path: Path, kind: str) -> None:
    """Claude Code 2.1.332 runs subagents in the background: the main agent stops, and is woken when one has ended."""
    task = {"id": "a1", "type": kind, "status": "running", "description": "Read the code"}
    assert reason(tmp_path, 'checklist = ["a"]', background_tasks=[task]) == ""
    server = {"id": "b1", "type": "shell", "status": "running", "command": "npm run dev"}
    for tasks in ([server], [{**task, "status": "completed"}], [], None, "x", [1]):
        assert reason(tmp_path, 'checklist = ["a"]', background_tasks=tasks)


def test_a_transcript_of_codex_shows_its_plan_and_its_tools(tmp_path: Path) -> None:
    def item(kind: str, call_id: str, **fields: Any) -> dict[str, Any]:
        return {"type": "response_item", "payload": {"type": kind, "call_id": call_id, **fields}}

    plan = json.dumps({"plan": [{"step": "Read", "status": "completed"}, {"step": "Fix", "status": "pending"}]})
    failed, passed = "Wall time: 0.0 seconds\nProcess exited with code 3\n", "Process exited with code 0\nOutput:\n"
    lines = [
        item("function_call", "1", name="update_plan", arguments=plan),
        item("function_call_output", "1", output="Plan updated"),
        item("function_call", "2", name="exec_command", arguments='{"cmd": "x"}'),
        item("function_call_output", "2", output=failed),
    ]
    config = 'todos = true\nrequired_tools = ["Bash"]'
    assert reason(tmp_path, config, *lines).splitlines()[1:] == [
        "- the tool Bash has not succeeded",
        "- open on your list: Fix",
    ]
    again = [item("function_call", "3", name="exec_command"), item("function_call_output", "3", output=passed)]
    assert "Bash" not in reason(tmp_path, config, *lines, *again)


def test_a_transcript_that_is_no_file_holds_no_agent_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("a\0b", str(tmp_path), str(tmp_path / "pipe")):
        assert transcript.read_transcript(path) is None


def test_a_long_list_is_shown_in_part(tmp_path: Path) -> None:
    todos = [{"content": f"step {n}", "status": "pending"} for n in range(500)]
    lines = reason(tmp_path, "todos = true", use("TodoWrite", "1", todos=todos), result("1")).splitlines()
    assert lines[1:] == [f"- open on your list: step {n}" for n in range(finishing.LISTED)]


def test_the_checklist_comes_with_the_question(tmp_path: Path) -> None:
    config = 'question = "Make the tests pass"\nchecklist = ["The tests pass", "No test is skipped"]'
    assert reason(tmp_path, config) == (
        "Before you finish, check that this holds:\n- The tests pass\n- No test is skipped\n\n"
        "What was asked: Make the tests pass"
    )
    assert reason(tmp_path, 'question = "Make the tests pass"') == "", "a question alone sends nobody back"


@pytest.mark.parametrize("path", [None, 5, "/there/is/no/such.jsonl", "/"])
def test_without_a_transcript_nobody_knows_and_the_agent_may_stop(tmp_path: Path, path: object) -> None:
    assert reason(tmp_path, TOOLS, transcript_path=path) == ""


def test_lines_that_are_none_of_a_transcript_are_passed_over(tmp_path: Path) -> None:
    odd: list[dict[str, Any] | str] = [
        '{"type": "tool_use',
        '"tool_use"',
        '["tool_result"]',
        '{"message": {"content": "tool_use"}}',
        "\x00",
    ]
    odd += [json.dumps({"message": {"content": [5, {"type": "tool_use"}, {"type": "tool_result"}]}})]
    assert "mcp__mail__send" in reason(tmp_path, TOOLS, *odd, use("Bash", "1"), result("1"), '{"type": "tool_use", "na')


def test_of_a_long_transcript_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "TRANSCRIPT_MAX", 2_000)
    lines: list[dict[str, Any] | str] = [
        use("Bash", "1"),
        result("1"),
        *("x" * 100 for _ in range(100)),
        use("mcp__mail__send", "2"),
        result("2"),
    ]
    assert reason(tmp_path, TOOLS, *lines) == "Before you finish, this is missing:\n- the tool Bash has not succeeded"


def test_a_secret_on_the_list_is_not_repeated(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 4
    todos = [{"content": f"use {secret}", "status": "pending"}]
    assert secret not in reason(tmp_path, "todos = true", use("TodoWrite", "1", todos=todos), result("1"))


@pytest.mark.parametrize("config", ["todos = 1", 'checklist = "x"', 'required_tools = [""]', "required_files = [1]"])
def test_a_wrong_key_is_named(tmp_path: Path, config: str) -> None:
    with pytest.raises(ConfigurationError, match=config.partition(" ")[0]):
        reason(tmp_path, config)
