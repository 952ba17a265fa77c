"""The counts of a test run, as its runner printed them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tellback.guidance.observations.testruns import FORMS, TestCounts, count_tests
from tests.support.examples import examples


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("===== 1 failed, 2 passed, 1 error in 0.12s =====", (2, 1, 1)),
        ("FAIL a.c:3\n24 tests, 5 failed", (19, 5, 0)),
        ("3 passed, 1 xfailed, 2 warnings in 1.20s", (3, 0, 0)),
        ("FAILED tests/a_test.py::test_x - assert 1\nFAILED tests/a_test.py::test_y", (0, 2, 0)),
        ("Ran 3 tests in 0.001s\n\nFAILED (failures=1, errors=1)", (1, 1, 1)),
        ("Ran 3 tests in 0.001s\n\nOK (skipped=1)", (3, 0, 0)),
        ("--- FAIL: TestA (0.05s)\n--- PASS: TestB (0.00s)\nFAIL\nFAIL\ta/b\t0.481s\nFAIL", (1, 1, 0)),
        ("ok  \ta/b\t(cached)\nFAIL\ta/c [build failed]\nFAIL", (1, 0, 1)),
        (
            "test result: ok. 3 passed; 0 failed; 0 ignored\ntest result: FAILED. 1 passed; 2 failed; 0 ignored",
            (4, 2, 0),
        ),
        ("Tests:       1 failed, 2 passed, 3 total", (2, 1, 0)),
        (" Test Files  1 failed | 2 passed (3)\n      Tests  4 passed (4)", (4, 0, 1)),
        ("Tests run: 5, Failures: 1, Errors: 1, Skipped: 0", (3, 1, 1)),
        ("7 tests completed, 2 failed", (5, 2, 0)),
        ("  3 passing (10ms)\n  1 failing", (3, 1, 0)),
        ("# tests 3\n# pass 2\n# fail 1", (2, 1, 0)),
        ("TAP version 13\n1..3\nok 1 a\nnot ok 2 b\nnot ok 3 c # TODO later", (1, 1, 0)),
        ('<testsuite name="a" tests="4" failures="1" errors="1">', (2, 1, 1)),
        ("31 passed. 0 failed. 2 errors.", (31, 0, 2)),
        ("9/11 tests passed\nFAIL: nested: raised TypeError", (9, 2, 0)),
        ("\u2713 12 of 12 unit tests passed", (12, 0, 0)),
        ("===== tests finished: 3 passed, 1 failed, in 0.10 seconds =====", (3, 1, 0)),
        ("no tests ran in 0.00s", (0, 0, 0)),
        ("Ok:                 4   \nExpected Fail:      1   \nFail:               2   ", (4, 2, 0)),
    ],
)
def test_summaries(text: str, counts: tuple[int, int, int]) -> None:
    assert count_tests(f"some output\n{text}\n") == TestCounts(*counts)


@pytest.mark.parametrize(
    "text", ["", "we passed 5 of 7 exams in 3s", "def test_failed(): ...", "tests are at 3 passed"]
)
def test_other_texts_have_none(text: str) -> None:
    assert count_tests(text) is None


def test_a_long_run_is_counted_by_its_end_and_colours_do_not_matter() -> None:
    assert count_tests("line\n" * 400_000 + "\x1b[31m1 failed\x1b[0m, 2 passed in 0.1s") == TestCounts(2, 1, 0)


@pytest.mark.parametrize(("words", "form"), FORMS)
@settings(max_examples=examples(10))
@given(data=st.data())
def test_every_text_of_a_form_has_its_words(words: str, form: re.Pattern[str], data: st.DataObject) -> None:
    assert words in data.draw(st.from_regex(form, fullmatch=True))
