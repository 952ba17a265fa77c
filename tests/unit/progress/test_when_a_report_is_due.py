"""Findings that are reported soon after another one, and findings that wait."""

from __future__ import annotations

import pytest

from tellback import FeedbackProviderConfig, StuckFeedback, recommended_providers
from tellback.testing import Call, Step, run_all
from tests.support.dialects import MadeCall, claude_code, nudges_in, spoken
from tests.support.stretches import claude_edit
from tests.unit.progress.test_detector_conditions import Calls, between
from tests.unit.progress.test_detector_limits import replaced

LOOP: Calls = [claude_code("cat b.py", "x = 1 is all")] * 3
REFUSED = "Error: the order is not there for you"


def order(n: int, said: str = REFUSED) -> MadeCall:
    return "book_order", {"id": f"a{n}"}, said


def gone(n: int) -> MadeCall:
    return "WebFetch", {"url": f"https://example.com/{n * 'x'}y"}, "<pre>Cannot GET /orders</pre>"


DUE: dict[str, tuple[Calls, list[int]]] = {
    "addresses that do not exist are asked in vain": ([*LOOP, *[gone(n) for n in range(4)]], [3, 7]),
    "a script that shows the same fault is run in vain": (
        [*LOOP, *between(lambda _: claude_code("python repro.py", "status 302\nexpected 200"), 3)],
        [3, 9],
    ),
    "an edit that is taken back is made in vain": (
        [*LOOP, *[each for _ in range(2) for each in (replaced("a", "b"), replaced("b", "a"))]],
        [3, 7],
    ),
    "what was reported goes on": (
        [("Edit", replaced("a", "b")[1], "<tool_use_error>String to replace not found in file.</tool_use_error>")] * 9,
        [3, 9],
    ),
    "the same error is counted in another way": (
        [order(1), order(1), order(2, "booked"), *[order(n) for n in range(3, 7)]],
        [2],
    ),
}


@pytest.mark.parametrize("name", DUE)
def test_a_second_report_is_due(name: str) -> None:
    calls, expected = DUE[name]
    assert spoken(calls) == expected


def test_a_kind_that_is_off_hides_no_other_that_the_same_call_shows() -> None:
    config = recommended_providers()[0]
    quiet = FeedbackProviderConfig(StuckFeedback(off=("same_failure",)), config.trigger)
    steps: list[Step] = [Call("book_order", {"id": f"a{n}"}, status="error", error=REFUSED) for n in range(3)]
    assert [fire.feedback.summary[:23] for fire in run_all([config], steps)] == ["The same error has come"]
    assert [fire.feedback.summary[:23] for fire in run_all([quiet], steps)] == ["book_order has failed 3"]


@pytest.mark.parametrize(
    "said",
    [
        "AssertionError: expected 1.0{} to be 1.07\n\n      Tests  1 failed | 11 passed (12)",
        "a.ts({},3): error TS23: x",
    ],
)
def test_what_comes_back_nine_times_is_a_warning_whatever_was_edited_in_between(said: str) -> None:
    """G-362: the window in which three are evidence has room for five runs with an edit behind each."""
    runs = [claude_code("npx vitest run", f" FAIL  src/a.test.ts > cart > half\n{said.format(n)}", 1) for n in range(9)]
    nudges = nudges_in([each for n, run in enumerate(runs) for each in (run, claude_edit(n))])
    assert [(call, feedback.severity) for call, feedback in nudges] == [(5, "caution"), (17, "warning")]
    assert "9 times since call 1" in nudges[1][1].summary


def test_a_report_counts_the_calls_that_its_detector_counted() -> None:
    """Requirement G-369."""
    thoughts: Calls = [
        ("think", {"thought": f"idea {n}: {'x' * n}"}, "Your thought has been logged.") for n in range(12)
    ]
    assert [(call, each.severity, each.summary) for call, each in nudges_in(thoughts)] == [
        (10, "caution", "10 calls since call 1 showed nothing that you had not seen."),
    ]


def test_reads_that_show_nothing_new_are_counted_from_the_first_of_them() -> None:
    """Requirement G-404. The first was counted back over reads alone, while other calls stand between them."""
    text = [f"line {n} of the schedule" for n in range(90)]
    shown = claude_code("cat plan.txt", "\n".join(text))
    parts = [
        claude_code(f"sed -n {n},{n + 9}p plan.txt | head -9", "\n".join(text[n : n + 9])) for n in range(1, 80, 7)
    ]
    runs = [claude_code(f"./count {n}", f"{n}{n} words") for n in range(len(parts))]
    calls = [each for pair in zip(parts, runs, strict=True) for each in pair]
    ((call, nudge), *_) = nudges_in([shown, *calls])
    assert (call, nudge.summary) == (14, "7 calls since call 2 showed nothing that you had not seen.")
    news = [claude_code(f"cat {n}.txt", f"{n} is said\nof {n} here") for n in range(9)]
    ((call, nudge), *_) = nudges_in([shown, parts[0], *news, *calls])
    assert (call, nudge.summary) == (24, "7 calls since call 12 showed nothing that you had not seen.")
