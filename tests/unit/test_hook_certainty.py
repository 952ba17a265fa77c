"""Calls that are certain to repeat a failure: the rule, the trail that it reads, and the policy file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tellback import clock
from tellback.errors import ConfigurationError
from tellback.hook import denial as denying
from tellback.hook import outside_changes
from tellback.hook.certainty import certain_failures, may_change
from tellback.hook.denial import AskedCall, DenialPolicy, denial, read_denial_policy, reason_to_deny
from tellback.hook.event import read_event
from tellback.hook.options import read_options
from tellback.hook.outside_changes import may_differ
from tellback.hook.reading import AgentView
from tests.support.waiting import wait_until

PARAMS = {"command": "pytest -q"}


def call(tool: str = "Bash", command: str = "pytest -q", error: str | None = None, **fields: Any) -> dict[str, Any]:
    status = {} if error is None else {"status": "error", "error": error}
    return {"tool": tool, "params": {"command": command}, "evaluation": "s1", "at": 1_000, **status, **fields}


FAILED = call(error="no such column: x (0.41s)")
AGAIN = call(error="no such column: x (1.97s)")
READ = call(tool="Read", params={"file_path": "/a"})


def failures(*trail: dict[str, Any]) -> int:
    return len(certain_failures(trail, "s1", "Bash", PARAMS))


def test_identical_failures_count_over_readers_and_whatever_time_they_took() -> None:
    assert failures(FAILED, AGAIN) == 2
    remark = {**FAILED, "params": {**PARAMS, "description": "Run the tests"}}
    assert failures(FAILED, READ, call(command="cat a.py | head -5; ls 2>&1"), remark, READ) == 2


@pytest.mark.parametrize(
    "between",
    [
        call(tool="Edit", params={"file_path": "/a"}),
        call(tool="mcp__db__query"),
        call(command="pip install x"),
        call(command="echo 1 > a.py"),
        call(command="cat $(make)"),
        call(),
        call(error="another error"),
    ],
)
def test_whatever_may_have_changed_something_starts_over(between: dict[str, Any]) -> None:
    assert failures(FAILED, AGAIN, between) <= 1
    assert failures(FAILED, between, AGAIN) == 1


@pytest.mark.parametrize(
    "before",
    [
        call(tool="Read", params={"file_path": "/a"}, evaluation="s1/other"),
        call(error="no such column: x", evaluation="s1/other"),
        call(tool="Agent", params={"prompt": "Install it"}),
        call(tool="Bash", params={"command": "npm ci", "run_in_background": True}),
        call(command="npm ci > log 2>&1 &"),
        call(command="docker compose up -d db"),
        call(command="npm ci", result='{"stdout":"","backgroundTaskId":"b1"}'),
        call(tool="exec_command", command="npm ci", result="Process running with session ID 7"),
    ],
)
def test_while_something_may_still_run_no_failure_is_certain(before: dict[str, Any]) -> None:
    """A call is known once it has ended: an installation by another agent, or in the background, shows in no trail."""
    assert failures(before, FAILED, AGAIN) == failures(FAILED, before, AGAIN) == 0


def test_the_main_agent_waits_for_its_subagent() -> None:
    sub = [{**each, "evaluation": "s1/a1"} for each in (FAILED, AGAIN)]
    assert len(certain_failures([call(command="make"), *sub], "s1/a1", "Bash", PARAMS)) == 2
    assert certain_failures([*sub, call(evaluation="s1/a2"), *sub], "s1/a1", "Bash", PARAMS) == []


@pytest.mark.parametrize(("tool", "params"), [("Read", {"file_path": "/a"}), ("Bash", {"command": "cat a | head -3"})])
def test_a_call_that_only_reads_is_never_certain_to_fail(tool: str, params: dict[str, Any]) -> None:
    failed = call(tool=tool, params=params, error="No such file or directory")
    assert certain_failures([failed] * 5, "s1", tool, params) == []


@pytest.mark.parametrize(
    "passing",
    [
        "429 Too Many Requests",
        "Connection refused",
        "Command timed out",
        "database is locked",
        "The user refused",
        "",
    ],
)
def test_what_waiting_or_a_person_may_fix_is_never_certain(passing: str) -> None:
    assert failures(call(error=passing), call(error=passing)) == 0
    retryable = call(error="e", outcome={"status": "error", "code": "x", "retryable": True})
    assert failures(retryable, retryable) == 0


def test_a_failure_that_a_worker_found_in_the_result_counts() -> None:
    found = call(result="Process exited with code 3", outcome={"status": "error", "code": "failed"})
    assert failures(found, found) == 2


@pytest.mark.parametrize(
    "command",
    [
        "grep -rn x . | sort | head",
        "timeout 60 /usr/bin/find . -name '*.py' 2>/dev/null",
        "git log --oneline -3 && git diff a.py",
        "sed -n '10,20p' a.py",
    ],
)
def test_a_command_of_readers_alone_changes_nothing(command: str) -> None:
    assert not may_change("Bash", {"command": command})
    assert may_change("Bash", {"command": f"{command}; rm b"})


@pytest.mark.parametrize(
    "command",
    [
        "cd /a && ls",  # the shell stays there
        "sed -n w/b a",
        "find . -execdir rm {} +",
        "sort -uo a a",
        "git branch -d a",
        "git log --output=a",
        "git -c core.pager=make log",
        "cat a >& b",
        "./bin/ls",
        "uv run ls",
        "curl -X POST http://a",
        "sqlite3 a.db 'drop table b'",
        "python -m test",
        "tail -f a",
        f"cat {'a' * 30_000}; rm b",
        None,
    ],
)
def test_a_command_that_may_do_more_than_read_leaves_a_doubt(command: str | None) -> None:
    assert may_change("Bash", {"command": command})


@pytest.mark.parametrize("tool", ["unheard", "get_x", "mcp__a__read", "ToolSearch", "Task", "AskUserQuestion", "sleep"])
def test_only_well_known_readers_and_notes_change_nothing(tool: str) -> None:
    assert may_change(tool, {})
    assert not any(may_change(each, {}) for each in ("Read", "Grep", "WebFetch", "view_image", "TodoWrite"))


def denied(after: int, view: AgentView, turn: float = float("inf"), *, differs: bool = False) -> str:
    return denial(DenialPolicy(after), view, AskedCall("s1", "Bash", PARAMS, turn), lambda _: differs)


def test_a_failure_before_a_person_spoke_denies_nothing() -> None:
    view = AgentView({}, [FAILED, {**AGAIN, "at": 2_000}, {**AGAIN, "at": 3_000}], now_ms=4_000)
    assert denied(3, view, 3.1)
    assert [denied(2, view, turn) == "" for turn in (2.5, 1.5, 0.5)] == [False, True, True]
    assert "failed 2 times" in denied(2, view, 2.5)


def test_a_file_that_has_changed_since_the_newest_failure_denies_nothing(tmp_path: Path) -> None:
    view = AgentView({}, [FAILED, AGAIN], now_ms=2_000)
    assert denied(2, view)
    assert denied(2, view, differs=True) == ""
    (tmp_path / "src" / "deep").mkdir(parents=True)
    file = tmp_path / "src" / "deep" / "a.py"
    file.write_text("")
    assert may_differ(str(tmp_path), 60)
    written = file.stat().st_ctime
    wait_until(lambda: time.time() > written + 0.1, "the clock moves on")
    assert not may_differ(str(tmp_path), time.time() - written - 0.05)
    file.chmod(0o600)
    assert may_differ(str(tmp_path), time.time() - written - 0.05)


def test_a_file_that_changes_while_the_decision_is_made_denies_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the 0.1 s between the server's time and the look at the files, the newest failure has become older."""
    policy = tmp_path / "policy.toml"
    policy.write_text("[deny_repeated_failures]\nafter = 2\n")
    project = tmp_path / "project"
    project.mkdir()
    changed = project.stat().st_ctime
    monkeypatch.setattr(clock, "wall", lambda: changed + 0.1)
    given = {"session_id": "s1", "cwd": str(project), "tool_name": "Bash", "tool_input": PARAMS}
    event = read_event(json.dumps(given).encode(), "PreToolUse")
    options = read_options([], {"TELLBACK_DATA_DIR": str(tmp_path)})

    def reason(asked_at: float) -> str:
        def read(*_: object) -> AgentView:
            return AgentView({}, [FAILED, AGAIN], 1_000, asked_at)

        monkeypatch.setattr(denying, "view_of_agent", read)
        return reason_to_deny(options, str(policy), event, "agent")

    assert reason(asked_at=changed - 0.05) == ""
    assert reason(asked_at=changed + 0.01) == "", "a file has the time of the kernel's last tick"
    assert "this exact call failed 2 times" in reason(asked_at=changed + 0.05)


@pytest.mark.parametrize("folder", [None, "", "relative", "/nowhere"])
def test_in_a_folder_that_cannot_be_read_anything_may_have_changed(folder: object) -> None:
    assert may_differ(folder, 0.0)


def test_in_a_folder_with_very_many_files_anything_may_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    assert not may_differ(str(tmp_path), -1.0)
    with monkeypatch.context() as patch:
        patch.setattr(outside_changes, "_MOST_SECONDS", -1.0)
        assert may_differ(str(tmp_path), -1.0), "on a disk that is too slow, too"
    monkeypatch.setattr(outside_changes, "_MOST_ENTRIES", 2)
    assert may_differ(str(tmp_path), -1.0)


def test_a_failure_before_a_published_change_denies_nothing() -> None:
    changed = {"changes": [{"index": 1, "at": 1_000, "kind": "file", "name": "a.py"}]}
    view = AgentView(changed, [FAILED, {**AGAIN, "at": 1_001}, {**AGAIN, "at": 1_002}], now_ms=2_000)
    assert denied(3, view) == ""
    assert "failed 2 times" in denied(2, view)


def test_an_old_failure_denies_nothing() -> None:
    view = AgentView({}, [FAILED, AGAIN], now_ms=1_000 + 600_000)
    assert "failed 2 times" in denied(2, view)
    assert denied(2, view.replace(now_ms=view.now_ms + 1)) == ""
    assert denied(3, view) == ""


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[deny]\nafter = 2", "unknown table or field 'deny'; the only table is [deny_repeated_failures]"),
        ("[deny_repeated_failures]\nafer = 2", "unknown field 'afer'; use after, within, tools"),
        ("[deny_repeated_failures]\nwithin = 5", "after is None; use a whole number"),
        ("[deny_repeated_failures]\nafter = 2\nwithin = 0", "within is 0; use seconds"),
        ("[deny_repeated_failures]\nafter = 2\ntools = 'Bash'", "tools is 'Bash'; use a list"),
        ("deny_repeated_failures = 3", "write it as a table"),
        ("[", "end of document"),
    ],
)
def test_a_wrong_policy_says_what_where_and_what_to_do(text: str, named: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        read_denial_policy(str(path))
    assert str(refused.value).startswith(f"{path}: ")
    assert named in str(refused.value)


def test_an_empty_policy_denies_nothing(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("")
    assert read_denial_policy(str(path)) is None
