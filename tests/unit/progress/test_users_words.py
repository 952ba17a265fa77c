"""A user who speaks asks for what comes next: it is no part of a row that began before."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tellback import ContextChangeFeedback, StuckFeedback, testing
from tellback.contracts.guidance import ToolInvoked
from tellback.guidance.observations.classify import classify_published_call
from tellback.testing import Call, Changed, Step
from tests.support.dialects import MadeCall, claude_code, mini_swe_agent
from tests.support.stretches import claude_edit

SPOKE = Changed("prompt", "user")
FAILED = "FAILED tests/test_a.py::test_b - AssertionError: assert 3 == 4\n1 failed, 2 passed in 0.10s"
ROWS: dict[str, list[MadeCall]] = {
    "edits and tests": [each for n in range(6) for each in (claude_edit(n), claude_code("pytest -q", FAILED, 1))],
    "the same read": [mini_swe_agent("cat app.py", "import os\nprint(os.name)\nprint(1)\nprint(2)")] * 6,
    "two looks in turn": [mini_swe_agent("ls src", "a.py"), mini_swe_agent("ls tests", "b.py")] * 3,
    "searches": [("Grep", {"pattern": f"word{'abcdefgh'[n]}"}, "No matches found") for n in range(8)],
    "a tool that fails": [("get_issue", {"id": f"x{n}"}, "Error: the tracker gave no answer") for n in range(6)],
    "an end": [("finish", {"message": f"Part {n} is done."}, "Thank you.") for n in range(6)],
    "an edit that is undone": [
        ("Edit", {"file_path": "/r/a.py", "old_string": old, "new_string": new}, "The file /r/a.py has been updated.")
        for old, new in [("x = 1", "x = 2"), ("x = 2", "x = 1")] * 3
    ],
}


def played(row: list[MadeCall], *, spoke_after: int) -> int:
    """Return how often guidance speaks if the user does after each so many calls."""
    steps: list[Step] = []
    for n, (tool, params, result) in enumerate(row, start=1):
        event = ToolInvoked(
            event_id="e", session="s", evaluation="e", prompt="p", tool=tool, params=params, result=result
        )
        outcome = classify_published_call(event, datetime(2026, 1, 1, tzinfo=UTC))
        steps += [Call(tool, params, result=result, outcome=outcome), *([SPOKE] if n % spoke_after == 0 else [])]
    return len(testing.run(StuckFeedback(), steps))


@pytest.mark.parametrize("name", ROWS)
def test_what_a_user_asked_for_in_between_is_no_part_of_a_row(name: str) -> None:
    """G-389: who asked for the tests six times was told that the same error had come back."""
    assert played(ROWS[name], spoke_after=100) > 0
    assert played(ROWS[name], spoke_after=2) == 0


def test_what_repeats_after_a_users_word_is_reported() -> None:
    """G-389."""
    row = ROWS["edits and tests"]
    assert played(row, spoke_after=len(row) // 2) > 0


def test_no_agent_reads_of_a_users_word_as_a_change() -> None:
    """G-389: it has read the word itself."""
    steps: list[Step] = [Call("a"), SPOKE, Call("b"), Changed("file", "a.py"), Call("c")]
    assert [fire.call for fire in testing.run(ContextChangeFeedback(), steps)] == [3]
