"""The line that a person reads of each entry of a session's history, and new entries of one that is read again."""

from __future__ import annotations

from typing import Any

import pytest

from tellback.cli.fleet import session_row
from tellback.cli.history import history_row, new_entries
from tellback.cli.timeline import HistoryEntry, entry_text
from tellback.client.fleet import ActiveSession
from tellback.wording import duration_phrase

CALL = {"kind": "tool_call", "at": 1, "tool": "Bash", "prompt": "code", "evaluation": "e1", "call_index": 2}
COMMAND = {"kind": "command", "at": 1, "command": ["pytest", "-k", "a b"], "command_id": "c-1", "worker": "w@box"}


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        (
            {**CALL, "params": {"command": "ls"}, "status": "error", "error": "1:\n no", "outcome": {"code": "env"}},
            'Bash {"command": "ls"} → env: 1: no · code e1',
        ),
        ({**CALL, "status": "success", "result": "two files"}, "Bash → ok: two files · code e1"),
        (
            {**CALL, "status": "error", "repeats": 3, "stuck": "same_failure"},
            "Bash → error · repeated 3 times · stuck: same_failure · code e1",
        ),
        (
            {
                "kind": "feedback", "at": 1, "provider_name": "Pace", "severity": "info", "summary": "Slow.",
                "suggestions": ["Rest."], "timed": True, "prompt": "code", "evaluation": "e1", "call_index": 2,
            },
            "Pace (info): Slow. · next: Rest. · timed · code e1",
        ),
        (
            {**COMMAND, "exit_code": 1, "duration_ms": 120, "stderr_tail": "Traceback\nKeyError: 'x'\n"},
            "pytest -k 'a b' → exit 1 · 0.12 s · KeyError: 'x' · w@box c-1",
        ),
        (
            {**COMMAND, "exit_code": 0, "duration_ms": 120, "stdout_tail": "2 passed", "parent_command_id": "c-0"},
            "pytest -k 'a b' → exit 0 · 0.12 s · retries c-0 · w@box c-1",
        ),
        (
            {**COMMAND, "exit_code": None, "error": "cancelled", "agent_note": "expect 2"},
            "pytest -k 'a b' → no exit code: cancelled · note: expect 2 · w@box c-1",
        ),
        (
            {"kind": "running", "at": 1, "command": ["make", "all"], "host": "box", "command_id": "c-2"},
            "make all on box · c-2",
        ),
        ({"kind": "waiver", "at": 1, "command_id": "c-1", "by": "ann", "reason": "flaky"}, "c-1 by ann: flaky"),
        (
            {"kind": "signal", "at": 1, "signal_type": "used", "fact_id": "f", "bank": "b", "score": 1, "query": "who"},
            "used f in b · score 1 · who",
        ),
        (
            {"kind": "turn", "at": 1, "turn": "t-1", "channel": "web", "text": "hi", "event": "opened", "code": ""},
            "opened · text: hi · turn: t-1 · channel: web",
        ),
        ({"kind": "new", "at": 1, "name": "value", "none": None}, "name: value"),
    ],
)  # fmt: skip
def test_an_entry_says_first_what_happened(entry: dict[str, Any], line: str) -> None:
    assert entry_text(entry) == line
    assert history_row(entry) == {"at": 1, "kind": entry["kind"], "what": line}


@pytest.mark.parametrize("kind", ["tool_call", "feedback", "command", "running", "waiver", "signal", "turn"])
def test_an_entry_without_its_fields_is_shown_all_the_same(kind: str) -> None:
    """Whoever may write a team's keys may have written it."""
    for value in (None, 3, "x", [], [1], {"a": 1}, True):
        fields = (
            "tool",
            "params",
            "outcome",
            "repeats",
            "suggestions",
            "command",
            "duration_ms",
            "stderr_tail",
            "event",
        )
        entry_text({"kind": kind, "at": 1, **dict.fromkeys(fields, value)})


def test_what_came_of_it_is_seen_however_long_the_arguments_are() -> None:
    """A cell of a listing has 200 characters."""
    long = "x" * 5_000
    call = {**CALL, "params": {"text": long}, "status": "error", "error": "disk full"}
    command = {**COMMAND, "command": ["tool", long], "exit_code": 7}
    assert "→ error: disk full" in entry_text(call)[:200]
    assert "→ exit 7" in entry_text(command)[:200]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.4, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7_199, "119 min"),
        (7_200, "2 h"),
        (172_800, "2 d"),
        (9e6, "104 d"),
    ],
)
def test_a_duration_is_said_in_its_own_unit(seconds: float, said: str) -> None:
    assert duration_phrase(seconds) == said


def test_a_session_shows_the_beginning_of_what_it_runs() -> None:
    """A long command would make a row of many lines of the listing."""
    running = ActiveSession(
        session="s",
        command_id="c",
        command=["python", "-c", "x" * 500],
        command_since=1_000,
        command_host="b",
        running=1,
    )
    row = session_row(running, 301_000)
    assert row["running_command"].startswith("5 min python -c xxx")
    assert len(row["running_command"]) <= 90


def entry(at: int, kind: str = "turn") -> HistoryEntry:
    return {"at": at, "kind": kind}


def test_each_entry_comes_once() -> None:
    """Known ones do not, two that are alike both do, and one that is cut at the beginning is not missed."""
    polls = [
        [entry(1), entry(2)],
        [entry(1), entry(2), entry(2)],
        [entry(2), entry(2), entry(3)],
        [entry(2), entry(2), entry(3)],
        [entry(2, "command"), entry(3)],
    ]
    found = list(new_entries([entry(1)], polls))
    assert found == [entry(2), entry(2), entry(3), entry(2, "command")]
