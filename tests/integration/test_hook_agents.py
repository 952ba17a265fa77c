"""Agents behind a hook: subagents of one session in real processes, and calls that a policy denies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tellback import Tellback
from tellback.settings import Settings
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tests.support.hooks import context_of, run_hook, start_hook, tool_event, troubles
from tests.support.workers import StartWorkers

PATIENT = "--wait=10"
FAILED = {"hook_event_name": "PostToolUseFailure", "tool_response": None}


def failed_call(call_id: str, agent: str = "", **fields: Any) -> dict[str, Any]:
    """Return what Claude Code 2.1.330 writes after a failed call; `agent` is the subagent that made it."""
    acting = {"agent_id": agent, "agent_type": "general-purpose"} if agent else {}
    return tool_event(call_id, **{**FAILED, "error": "Exit code 3\nno such column: x", **acting, **fields})


def ended(agent: str) -> dict[str, Any]:
    given = {"session_id": "s1", "hook_event_name": "SubagentStop", "stop_hook_active": False}
    return {**given, "agent_id": agent, "agent_type": "general-purpose", "last_assistant_message": "Done."}


def test_what_one_subagent_failed_at_is_not_held_against_another(
    tb: Tellback, settings: Settings, start_workers: StartWorkers
) -> None:
    start_workers(1, queues="events")
    started = {"session_id": "s1", "hook_event_name": "SubagentStart", "agent_id": "a1", "agent_type": "Explore"}
    assert run_hook(settings, started, PATIENT, event="subagent-start") == b""
    for n, agent in enumerate(["a1", "a2", ""]):
        answer = run_hook(settings, failed_call(f"t{n}", agent), PATIENT, event="post-tool-use-failure")
        assert answer == b"", "one failure of each is a streak of none"
    assert run_hook(settings, failed_call("t3", "a2"), PATIENT, event="post-tool-use-failure") == b""
    said = context_of(run_hook(settings, failed_call("t4", "a2"), PATIENT, event="post-tool-use-failure"))
    assert "3 times" in said, "its own third, of five in the session"
    mailbox = Evaluations(tb.context.database, tb.context.layout.of("s1"))
    counted = {name: mailbox.counts(EvaluationId("s1", "agent", name)).errors for name in ("s1", "s1/a1", "s1/a2")}
    assert counted == {"s1": 1, "s1/a1": 1, "s1/a2": 3}
    calls = [entry["evaluation"] for entry in tb.history("s1") if entry["kind"] == "tool_call"]
    assert calls == ["s1/a1", "s1/a2", "s1", "s1/a2", "s1/a2"], "the session's history is one"
    assert troubles(settings) == ""


def test_what_a_user_asked_for_again_is_no_repeat(
    tb: Tellback, settings: Settings, start_workers: StartWorkers
) -> None:
    """G-389: the hook of a prompt published nothing, so the third failure was held against the agent."""
    start_workers(1, queues="events")
    spoke = {"session_id": "s1", "hook_event_name": "UserPromptSubmit", "prompt": "Once more, my-own-words."}

    def fail(call_id: str) -> bytes:
        return run_hook(settings, failed_call(call_id), PATIENT, event="post-tool-use-failure")

    for n in range(3):
        assert fail(f"t{n}") == b""
        assert run_hook(settings, spoke, PATIENT, event="user-prompt-submit") == b""
    assert [fail(f"t{n}") for n in (3, 4)] == [b"", b""]
    assert "3 times since call 4" in context_of(fail("t5")), "of its own accord"
    assert "my-own-words" not in str([*tb.history("s1")]), "what was said stays where it was said"
    assert troubles(settings) == ""


@pytest.mark.usefixtures("tb")
def test_the_main_agent_reads_once_of_a_subagent_that_ended_failing_and_of_no_other(
    settings: Settings, start_workers: StartWorkers, tmp_path: Path
) -> None:
    start_workers(1, queues="events")
    run_hook(settings, failed_call("t1", "a1"), PATIENT, event="post-tool-use-failure")
    run_hook(settings, ended("a1"), PATIENT, event="subagent-stop")
    for n in (2, 3):
        run_hook(settings, failed_call(f"t{n}", "a2"), PATIENT, event="post-tool-use-failure")
    (tmp_path / "off.toml").write_text("subagents = false")
    run_hook(settings, ended("a2"), PATIENT, f"--config={tmp_path / 'off.toml'}", event="subagent-stop")
    assert run_hook(settings, tool_event("t4"), PATIENT) == b"", "one failure is no news, and a switch turns it off"
    assert run_hook(settings, ended("a2"), PATIENT, event="subagent-stop") == b""
    assert run_hook(settings, tool_event("t5", agent_id="a3"), PATIENT) == b"", "it is the main agent's to know"
    assert run_hook(settings, tool_event("t6", session_id="s2"), PATIENT) == b""
    assert context_of(run_hook(settings, tool_event("t7"), PATIENT)) == (
        "[Feedback - Subagent]\n\nThe subagent general-purpose has ended; its last 2 tool calls failed.\n\n- Calls: 2\n"
        "- Last error: Exit code 3 no such column: x\n\n→ Check what it reports before you build on it."
    )
    assert b"Subagent" not in run_hook(settings, tool_event("t8"), PATIENT)
    assert troubles(settings) == ""


@pytest.mark.usefixtures("tb")
def test_a_note_that_the_main_agent_did_not_read_comes_with_its_next_call(
    settings: Settings, start_workers: StartWorkers
) -> None:
    """The agent's program has closed the pipe."""
    start_workers(1, queues="events")
    for n in (1, 2):
        run_hook(settings, failed_call(f"t{n}", "a1"), PATIENT, event="post-tool-use-failure")
    run_hook(settings, ended("a1"), PATIENT, event="subagent-stop")
    process = start_hook(settings, PATIENT)
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    process.communicate(json.dumps(tool_event("t3")).encode(), timeout=60)
    assert "BrokenPipeError" in troubles(settings)
    assert "its last 2 tool calls failed" in context_of(run_hook(settings, tool_event("t4"), PATIENT))


@pytest.fixture
def policy(tmp_path: Path) -> str:
    path = tmp_path / "policy.toml"
    path.write_text("[deny_repeated_failures]\nafter = 2\n")
    return f"--policy={path}"


def about_to(**fields: Any) -> dict[str, Any]:
    return tool_event("next", hook_event_name="PreToolUse", tool_response=None, **fields)


@pytest.mark.usefixtures("tb")
def test_a_call_that_is_certain_to_repeat_a_failure_is_denied_with_the_reason_where_a_policy_says_so(
    settings: Settings, start_workers: StartWorkers, policy: str, tmp_path: Path
) -> None:
    start_workers(1, queues="events")
    project = tmp_path / "project"
    project.mkdir()

    def asked(*arguments: str, **fields: Any) -> bytes:
        given = about_to(**{"cwd": str(project), **fields})
        return run_hook(settings, given, PATIENT, *arguments, event="pre-tool-use")

    run_hook(settings, failed_call("t1"), PATIENT, event="post-tool-use-failure")
    assert asked(policy) == b"", "one failure proves nothing"
    run_hook(settings, tool_event("t2", tool_name="Read", tool_input={"file_path": "/a"}), PATIENT)
    run_hook(settings, failed_call("t3"), PATIENT, event="post-tool-use-failure")
    assert asked() == b"", "off without a policy"
    found = json.loads(asked(policy))["hookSpecificOutput"]
    assert (found["hookEventName"], found["permissionDecision"]) == ("PreToolUse", "deny")
    assert "failed 2 times in the same way" in found["permissionDecisionReason"]
    assert "Exit code 3 no such column: x" in found["permissionDecisionReason"]
    for other in ({"agent_id": "a1"}, {"tool_input": {"command": "pytest -q -x"}}, {"session_id": "s2"}):
        assert asked(policy, **other) == b""
    (project / "a").touch()
    assert asked(policy) == b"", "whoever changed a file may have fixed it"
    run_hook(settings, failed_call("t5"), PATIENT, event="post-tool-use-failure")
    assert b"failed 3 times" in asked(policy), "it did not help"
    edit = tool_event("t4", tool_name="Edit", tool_input={"file_path": "/a"}, agent_id="a1")
    run_hook(settings, edit, PATIENT)
    assert asked(policy) == b"", "a change by any agent of the session may have fixed it"
    assert troubles(settings) == ""


@pytest.mark.usefixtures("tb")
@pytest.mark.parametrize(
    ("event", "given"),
    [
        ("user-prompt-submit", {"hook_event_name": "UserPromptSubmit", "prompt": "I have installed it."}),
        ("session-start", {"hook_event_name": "SessionStart", "source": "resume"}),
        ("session-start", {"hook_event_name": "SessionStart", "source": "compact"}),
    ],
)
def test_failures_from_before_a_prompt_or_a_new_start_of_the_session_deny_nothing(
    event: str, given: dict[str, Any], settings: Settings, start_workers: StartWorkers, policy: str, tmp_path: Path
) -> None:
    """Claude Code 2.1.332 keeps the session's id when it resumes, and what a person had repaired was denied."""
    start_workers(1, queues="events")
    (tmp_path / "project").mkdir()
    next_call = about_to(cwd=str(tmp_path / "project"))
    for call_id in ("t1", "t2"):
        run_hook(settings, failed_call(call_id), PATIENT, event="post-tool-use-failure")
    assert b"deny" in run_hook(settings, next_call, PATIENT, policy, event="pre-tool-use")
    run_hook(settings, {"session_id": "s1", **given}, PATIENT, policy, event=event)
    assert run_hook(settings, next_call, PATIENT, policy, event="pre-tool-use") == b""
    run_hook(settings, failed_call("t3"), PATIENT, event="post-tool-use-failure")
    assert run_hook(settings, next_call, PATIENT, policy, event="pre-tool-use") == b"", "one failure since then"
    run_hook(settings, failed_call("t4"), PATIENT, event="post-tool-use-failure")
    assert b"failed 2 times" in run_hook(settings, next_call, PATIENT, policy, event="pre-tool-use")
    assert troubles(settings) == ""


@pytest.mark.usefixtures("tb")
def test_failures_that_were_kept_on_disk_deny_nothing(
    settings: Settings, start_workers: StartWorkers, policy: str, tmp_path: Path
) -> None:
    """They count from when they arrive, which is after what a person has repaired and said meanwhile."""
    (tmp_path / "project").mkdir()
    started: dict[str, Any] = {"session_id": "s1", "hook_event_name": "SessionStart", "source": "startup"}
    prompt: dict[str, Any] = {"session_id": "s1", "hook_event_name": "UserPromptSubmit", "prompt": "Installed."}
    full = {"TELLBACK_INTAKE_MAX": "1"}
    run_hook(settings, started, PATIENT, policy, event="session-start")
    for call_id in ("t1", "t2"):
        run_hook(settings, failed_call(call_id), PATIENT, policy, event="post-tool-use-failure", env=full)
    assert troubles(settings).count("kept on disk") == 2
    run_hook(settings, prompt, "--wait=1", policy, event="user-prompt-submit", env=full)
    start_workers(1, queues="events")
    for call_id in ("r1", "r2"):
        run_hook(settings, tool_event(call_id, tool_name="Read", tool_input={"file_path": "/a"}), PATIENT, policy)
    next_call = about_to(cwd=str(tmp_path / "project"))
    assert run_hook(settings, next_call, PATIENT, policy, event="pre-tool-use") == b""


@pytest.mark.parametrize("address", ["redis://127.0.0.1:1/0", "unix:///nowhere"])
def test_without_redis_no_call_is_denied(address: str, settings: Settings, policy: str) -> None:
    answer = run_hook(settings, about_to(), policy, f"--redis-url={address}", event="pre-tool-use")
    assert (answer, troubles(settings)) == (b"", "")
