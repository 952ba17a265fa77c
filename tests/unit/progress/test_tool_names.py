"""The effect of well-known tools by their names, and that the work of programs that have them is judged by it.

Requirement G-214.
"""

from __future__ import annotations

import json

import pytest

from tellback.guidance.progress.effects import Effect, named_effect, only_organizes, tool_effect
from tests.support.dialects import MadeCall, claude_code, nudges_in, openhands

NAMES: dict[Effect, str] = {
    "plan": "task_tracker todo_write update_todo_list manage_todo_list ask_user ask_followup_question",
    "write": "Agent Task delegate replace_in_file search_replace search_and_replace replace_string_in_file"
    " mcp__serena__replace_symbol_body mcp__playwright__browser_select_option go_to_url input_text restore_snapshot",
    "read": "mcp__chrome-devtools__take_snapshot puppeteer_screenshot mcp__playwright__browser_console_messages",
    "wait": "write_stdin read_bash read_powershell get_terminal_output read-process command_status getProcessOutput",
    "search": "GlobTool find_by_name",
    "finish": "VerifiedFinish attempt_completion",
}


@pytest.mark.parametrize(("effect", "tool"), [(effect, tool) for effect in NAMES for tool in NAMES[effect].split()])
def test_a_name_says_what_a_tool_does(effect: Effect, tool: str) -> None:
    assert tool_effect(tool, {}) == effect


def test_text_that_is_sent_to_a_program_changes_something() -> None:
    assert tool_effect("write_stdin", {"session_id": 3, "chars": "y\n"}) == "write"


@pytest.mark.parametrize(
    "params",
    [{"query": "ruby"}, {"query": "select 1"}, {"sql": "delete from a"}, {"action": "wait"}, {"chars": "y"}, {}],
    ids=str,
)
@pytest.mark.parametrize("tool", ["search", "mcp__db__query", "run_sql", "computer", "write_stdin", "Read", "frob"])
def test_the_effect_by_names_alone_is_that_of_every_call(tool: str, params: dict[str, str]) -> None:
    """None is returned where a value of the arguments decides."""
    assert named_effect(tool, params) in (None, tool_effect(tool, params))


@pytest.mark.parametrize("tool", ["TodoWrite", "task_tracker", "update_plan", "Agent", "Task"])
def test_a_plan_and_a_subagent_end_no_task(tool: str) -> None:
    assert only_organizes(tool)
    assert not only_organizes("create_task")


def file_editor(command: str, **more: object) -> MadeCall:
    return "file_editor", {"command": command, "path": "/w/cart.py", **more}, f"The file /w/cart.py: {command}."


def green(n: int) -> MadeCall:
    return "run_in_terminal", {"command": "npx vitest run", "explanation": f"{n}"}, " Tests  9 passed (9)"


REPLACE: dict[str, tuple[str, str]] = {
    "replace_string_in_file": ("oldString", "newString"),
    "replace_in_file": ("search", "replace"),
    "search_replace": ("old_string", "new_string"),
}


@pytest.mark.parametrize("tool", list(REPLACE))
def test_tests_that_pass_after_each_edit_are_no_repeat(tool: str) -> None:
    old, new = REPLACE[tool]
    edits: list[MadeCall] = [(tool, {"path": "a.ts", old: f"a{n}", new: f"a{n + 1}"}, "Saved.") for n in range(8)]
    assert nudges_in([call for n, each in enumerate(edits) for call in (each, green(n))]) == []


def test_a_list_of_tasks_that_is_viewed_again_is_no_repeat() -> None:
    viewed: MadeCall = ("task_tracker", {"command": "view"}, "# Task List\n\n1. Reproduce\n2. Fix\n")
    reads = [openhands(f"cat part{n}.py", f"def part_{n}(): return {n}") for n in range(8)]
    assert nudges_in([call for each in reads for call in (viewed, each)]) == []


def test_tests_that_pass_after_each_subagent_are_no_repeat() -> None:
    agents: list[MadeCall] = [("Agent", {"prompt": f"Add page {n}"}, f"Page {n} is there.") for n in range(6)]
    assert nudges_in([call for each in agents for call in (each, claude_code("npm test", "Tests: 9 passed"))]) == []


def test_the_editor_of_openhands_reads_and_edits() -> None:
    views = [file_editor("view", view_range=[1, 30 + n]) for n in range(6)]
    other = [openhands(f"cat part{n}.py", f"def part_{n}(): return {n}") for n in range(6)]
    assert "same lines" in nudges_in(views)[0][1].summary
    edit, back = file_editor("str_replace", old_str="a = 1", new_str="a = 2"), file_editor("undo_edit")
    assert "taken back" in nudges_in([edit, other[0], back, other[1], edit])[0][1].summary


def test_a_suite_that_is_polled_without_output_is_a_wait() -> None:
    def poll(n: int, said: str) -> MadeCall:
        above = f"Chunk ID: {n:06x}\nWall time: 10.{n} seconds\nProcess running with session ID 3\n"
        return "write_stdin", {"session_id": 3, "chars": ""}, f"{above}Original token count: 9\nOutput:\n{said}"

    assert [call for call, _ in nudges_in([poll(n, "") for n in range(9)])] == [6]
    assert nudges_in([poll(n, f"scenario {n} of 40 passed") for n in range(9)]) == []


@pytest.mark.parametrize("tool", ["mcp__shell__run", "mcp__my-terminal__start", "Bash"])
def test_a_command_of_a_server_that_is_named_after_a_shell_is_one_of_a_shell(tool: str) -> None:
    """G-365: three builds that failed for reasons of their own were a tool that fails."""
    failures = {"app": "app.c: it needs a header", "lib": "no rule for that target", "docs": "the theme is too old"}
    calls: list[MadeCall] = []
    for target, why in failures.items():
        said = [{"type": "text", "text": f"Building {target}\n{why}\nStopped at {target}"}]
        calls.append((tool, {"command": f"make {target}"}, json.dumps({"isError": True, "content": said})))
    assert nudges_in(calls) == []
