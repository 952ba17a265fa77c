"""Calls after an end: waits for what is over, in whatever words, and an agent that says again that it is done."""

from __future__ import annotations

import pytest

from tellback.guidance.next_steps import ASKED_STEP, ENDED_STEP
from tellback.guidance.stuck_feedback import TEXTS
from tests.support.dialects import MadeCall, claude_code, codex_exec, mini_swe_agent, nudges_in, reported, step_of

RUN = "18231177"
DONE = '{"conclusion":"failure","status":"completed"}'


OVER = [
    codex_exec(f"sleep 30; gh run view {RUN} --json status,conclusion", DONE),
    codex_exec(f"sleep 60 && gh run watch {RUN}", f"Run ci ({RUN}) has already completed with 'failure'"),
    codex_exec(f"sleep 60 && gh run view {RUN} --json conclusion", '{"conclusion":"failure"}'),
]


def test_a_run_that_is_over_is_known_in_other_words() -> None:
    """Requirement G-215."""
    [(call, said)] = reported(OVER)
    assert (call, said[:25]) == (3, "You have waited 3 times s")


def asked_for(state: str) -> MadeCall:
    return "get_approval", {"id": "AP-1"}, f'{{"id": "AP-1", "status": "{state}"}}'


def test_feedback_on_a_wait_shows_what_the_last_one_showed_and_a_step_that_fits_it() -> None:
    """G-381: to check the process of what had ended, or of a person, was no step that could be taken."""
    ((_, feedback),) = nudges_in(OVER)
    assert ("it shows", '{"conclusion":"failure"}') in [(each.label, each.value) for each in feedback.observations]
    assert feedback.suggestions == (ENDED_STEP,)
    assert step_of([asked_for("pending_approval")] * 6) == ASKED_STEP


@pytest.mark.parametrize(
    ("asked", "shows"),
    [
        ("kubectl get pods -l app=reviews", "reviews-v1-7d   0/1   Pending   0   3m"),
        ("kubectl get pods -n manual-tests", "runner-1   0/1   Pending   0   3m"),
        ("kubectl get pods -l app=confirmation-mailer", "confirmation-mailer-1   0/1   Pending   0   3m"),
    ],
)
def test_nobody_decides_what_is_only_named_after_a_review(asked: str, shows: str) -> None:
    """G-381: of a service that is called reviews, the step was to tell somebody."""
    assert step_of([claude_code(asked, shows)] * 6) == TEXTS["dead_wait"][1]


def test_what_has_ended_waits_for_nobody() -> None:
    """G-381: also if it serves approvals."""
    over = [
        claude_code(f"sleep {n + 9}; kubectl logs approval-service", "approval-service: process exited with code 1")
        for n in range(6)
    ]
    assert step_of(over) == ENDED_STEP


@pytest.mark.parametrize("state", ["pending_approval", "awaiting_review", "waiting-for-manager"])
def test_to_ask_for_a_decision_again_is_a_wait(state: str) -> None:
    """G-381: between other work the third look was reported as the same call."""
    asked = [asked_for(state)] * 5
    others: list[MadeCall] = [("get_invoice", {"id": f"I-{n}"}, f'{{"id": "I-{n}", "sum": {n}}}') for n in range(5)]
    assert reported([call for pair in zip(asked, others, strict=True) for call in pair]) == []


def test_to_hand_in_twice_in_turn_is_no_going_back_and_forth() -> None:
    """G-382: the calls after the end are what is reported."""
    ends: list[MadeCall] = [("finish", {"message": f"Part {n} is done."}, "Thank you.") for n in (1, 2)]
    assert [said[:20] for _, said in reported([*ends, *ends])] == ["You said at call 1 t"]


def test_a_change_in_between_and_other_runs_begin_a_new_wait() -> None:
    """Requirement G-215."""
    pushed = [call for each in OVER for call in (each, codex_exec("git push", f"{len(each[2])}..b  main -> main"))]
    others = [codex_exec(f"sleep 30; gh run view {n}{RUN}", f"completed failure {n}{RUN}") for n in range(6)]
    assert reported(pushed) == reported(others) == []


def test_how_long_a_call_waits_names_nothing() -> None:
    """Requirement G-215."""
    calls = [codex_exec(f"sleep 1800; cat part{n}.log", f"part {n} has completed") for n in range(6)]
    assert reported(calls) == []


def test_a_server_that_is_down_is_known_by_its_port() -> None:
    """Requirement G-215."""
    lines = ("curl -s localhost:8080/health", "curl -sS http://localhost:8080/health", "nc -z localhost 8080")
    refused = [claude_code(f"sleep {n + 9} && {line}", "connection refused", 7) for n, line in enumerate(lines)]
    assert [call for call, _ in reported(refused)] == [3]


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (("The fix is complete.", "=== SUMMARY ===", "Task finished"), [6]),
        (("Looking at part 1", "Looking at part 2", "Looking at part 3"), []),
    ],
)
def test_who_says_again_that_the_task_is_done_is_asked_to_stop(said: tuple[str, ...], found: list[int]) -> None:
    """Requirement G-216."""
    calls = [
        call
        for n, each in enumerate(said)
        for call in (mini_swe_agent(f"ls part{n}", f"part{n}.py"), mini_swe_agent(f'echo "{each}"', each))
    ]
    assert [call for call, _ in reported(calls)] == found
    edits = [mini_swe_agent(f"sed -i s/a{n}/b/ a.py") for n in range(3)]
    assert reported([call for n, edit in enumerate(edits) for call in (edit, calls[2 * n + 1])]) == []


LOG_ENDS = "step 400\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"


def test_a_wait_for_a_log_that_has_ended_is_known_by_the_log() -> None:
    """G-232."""
    lines = ("sleep 60; tail -3 train.log", "sleep 90 && tail -n 3 train.log", "sleep 120; tail -5 train.log | tail -3")
    assert [at for at, _ in nudges_in([claude_code(line, LOG_ENDS) for line in lines])] == [3]


def test_the_end_of_a_log_that_is_read_after_each_call_is_not_read_again() -> None:
    """G-232: between two reads, something else was tried that might have written to it."""
    tail = claude_code("tail -n 20 ~/.config/app/app.log", "10:00:01 ready\n10:00:02 waiting for a call")
    others = [claude_code(f"./bin/app call item-{n}", f"called {n}") for n in range(5)]
    assert not nudges_in([each for other in others for each in (other, tail)])


def test_a_log_that_shows_the_same_fault_after_each_run_is_reported() -> None:
    """G-232."""
    tail = claude_code("tail -n 20 logs/api.log", "10:00:01 starting\n10:00:02 ERROR bind: address already in use")
    runs = [claude_code(f"./bin/api --port 80{n}", "started") for n in range(3)]
    assert reported([each for run in runs for each in (run, tail)])[0][0] == 6
