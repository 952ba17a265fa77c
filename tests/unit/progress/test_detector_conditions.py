"""The conditions of detectors, each with calls that it alone decides about."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from tests.support.dialects import MadeCall, claude_code, nudges_in, reported, spoken
from tests.support.stretches import claude_edit

Calls = list[MadeCall]


def between(call: Callable[[int], MadeCall], times: int, other: Callable[[int], MadeCall] = claude_edit) -> Calls:
    """Return calls with another one before each."""
    return [each for n in range(times) for each in (other(n), call(n))]


def written(n: int) -> MadeCall:
    return "Write", {"file_path": f"/r/new{n}.py", "content": f"x = {n}"}, f"File created successfully at: /r/new{n}.py"


def missing(n: int) -> MadeCall:
    return claude_code(f"curl -s http://localhost/{n * 'a'}", "404 Not Found")


def edits(times: int, first: int = 0) -> Calls:
    return [claude_edit(n, f"/r/other{n}.py") for n in range(first, first + times)]


def lacking(n: int) -> MadeCall:
    return claude_code(f"python part{n}.py", "ModuleNotFoundError: No module named 'yaml'", 1)


def with_tests(failed: int, passed: int, path: str = "", error: str = "KeyError: 'total'") -> Calls:
    names = "".join(f"FAILED test_a.py::test_{n} - {error}\n" for n in range(failed))
    run = claude_code(f"pytest -q {path}", f"{names}{failed} failed, {passed} passed in 0.3s", 1)
    return [claude_edit(failed * 1000 + passed * 10 + next(_numbers)), run]


_numbers = count()


def unloaded(n: int) -> MadeCall:
    return claude_code("pytest -q", f"ERROR test_{n}.py - NameError: name {n * 'a'}b\n1 error in 0.2s", 2)


def passage(first: int, moved: int) -> MadeCall:
    return claude_code(f"sed -n '{first + moved},{first + 40 + moved}p' app.py", f"lines from {first + moved}")


def checked(n: int) -> MadeCall:
    return claude_code(f"./check {n}", f"part {n} is fine")


def shown(n: int, said: str = "x = 1") -> MadeCall:
    return claude_code(f"sed -n '{n * 40 + 1},{n * 40 + 40}p' app.py", f"{said}\nline {n}")


FAULTY = "Wrote file.\n\nLSP errors detected in this file:\n<diagnostics>\nERROR [3:1] undefined: total\n</diagnostics>"

REPORTED: dict[str, tuple[Calls, int]] = {
    "what blocks lasts for 24 actions": (
        [*edits(1), lacking(1), *edits(9, 10), lacking(2), *edits(9, 20), lacking(3)],
        22,
    ),
    "a retry that was asked for, in other words": (
        [claude_code(f"deploy -{n}", "error: the registry is busy, please retry", 1) for n in range(6)],
        5,
    ),
    "names that should be tried again later": (
        [claude_code(f"./fetch pkg{n}", f"error: pkg{n} is locked, try again later", 1) for n in range(6)],
        5,
    ),
    "one error in a run of other tests": (
        [*with_tests(1, 3, "a.py"), *with_tests(1, 50), *with_tests(1, 3, "a.py")],
        6,
    ),
    "fewer failures than in the run before": (
        [
            each
            for n in (3, 5, 3, 3, 3)
            for each in with_tests(n, 9, error="KeyError: 'a'" if n == 3 else "TypeError: b")
        ],
        10,
    ),
    "restores after files that do not load": (
        [each for n in range(2) for each in (claude_edit(n), unloaded(n), claude_code("git checkout app.py"))],
        6,
    ),
    "a file that is written again with the same fault": (
        [("write", {"filePath": "/r/a.go", "content": f"x = {n}"}, FAULTY) for n in range(3)],
        3,
    ),
    "an editor's tests that count the same after edits of one file": (
        [(*claude_edit(n)[:2], "Edited.\n\n86 passed. 2 failed. 0 errors.") for n in range(4)],
        3,
    ),
    "a folder says nothing of missing pages": (between(missing, 5, lambda n: claude_code(f"ls {n}", f"f{n}")), 8),
}


LET_PASS: dict[str, Calls] = {
    "a silent exit of 1 may be an answer": between(lambda _: ("Bash", {"command": "./differs"}, "Exit code 1"), 5),
    "a script with nothing but new files between": between(
        lambda _: claude_code("python repro.py", "status 302\nexpected 200"), 5, written
    ),
    "another fault after each of two changes": between(
        lambda n: claude_code("kubectl get pod web", f"web Error {'exit' if n else 'image'}"), 3
    ),
    "a file that is shown while others change": [
        claude_code("sed -i 's/a/b/' app.py"),
        claude_code("grep -n total app.py", "3: total = 0"),
        *between(lambda _: claude_code("grep -n total app.py", "3: total = 0"), 3, lambda n: edits(1, n)[0]),
    ],
    "a wait that fails for one name after another": [
        claude_code(f"sleep 5; ./poll part{n}", f"error: part{n} is not there", 1) for n in range(6)
    ],
    "a wait that fails and shows something new": [
        claude_code("sleep 5; ./poll job-4711", f"step {n * 'x'} of the build goes on", 1) for n in range(7)
    ],
    "waits with a change in between": [
        *[claude_code("sleep 5; ./queue", "waiting for work")] * 4,
        *edits(1),
        *[claude_code("sleep 6; ./queue -v", "waiting for work")] * 4,
    ],
    "waits for several things that print nothing": [claude_code(f"sleep 5; ./step{n * 'x'}") for n in range(8)],
    "passages that were read long ago": [
        *(passage(first, n) for n in (0, 1) for first in (0, 200, 400)),
        *[checked(n) for n in range(61)],
        *(passage(first, 2) for first in (0, 200, 400)),
    ],
    "lines that anything may have changed": between(
        lambda _: shown(0), 5, lambda n: claude_code(f"patch -p1 < part{n}.diff", "patching file lib.py")
    ),
    "lines that something changed unseen": [shown(0, f"x = {n * 'a'}") for n in range(5)],
    "a task after the one that was handed in": [
        ("submit", {}, "Submitted."),
        ("TodoWrite", {"todos": []}, "Todos have been modified"),
        *[checked(n) for n in range(4)],
    ],
    "an edit after the task was handed in": [
        ("submit", {}, "Submitted."),
        *edits(1),
        *[checked(n) for n in range(4)],
    ],
    "edits after which all tests pass": [
        (*claude_edit(n, f"/r/p{n}.py")[:2], "Edited.\n\n9 passed. 0 failed. 0 errors.") for n in range(6)
    ],
    "lines that are read again much later": [
        each
        for n in range(5)
        for each in (
            passage(100, n),
            *[checked(10 * n + m) for m in range(6)],
        )
    ],
    "a folder of that name": [claude_code(f"ls done/{n}", f"file{n}.txt") for n in range(5)],
    "work that was handed in and refused": [
        ("submit", {}, "Error: the tests were not run"),
        *[checked(n) for n in range(4)],
    ],
}


@pytest.mark.parametrize("name", REPORTED)
def test_a_condition_of_a_detector_is_met(name: str) -> None:
    calls, expected = REPORTED[name]
    assert spoken(calls) == [expected]


@pytest.mark.parametrize("name", LET_PASS)
def test_a_condition_of_a_detector_is_not_met(name: str) -> None:
    assert reported(LET_PASS[name]) == []


def test_a_program_that_complains_is_named_and_not_the_folder_it_ran_in() -> None:
    calls = [claude_code(f"cd app && ./get column{n}", f"error: column{n} is not there", 1) for n in range(4)]
    assert [each.summary.partition(" has")[0] for _, each in nudges_in(calls)] == ["get"]


def test_a_request_that_is_made_again_as_it_is_is_the_same_call() -> None:
    calls = [claude_code("curl -s http://localhost/orders", "the order is invalid")] * 3
    assert [each.summary.partition(" 3 times")[0] for _, each in nudges_in(calls)] == ["You have made the same call"]


def test_three_passages_that_are_each_read_for_the_third_time_are_the_same_lines() -> None:
    calls = [passage(first, n) for n in range(3) for first in (0, 200, 400)]
    assert [(call, each.summary[:28]) for call, each in nudges_in(calls)] == [(9, "You have read the same lines")]


def test_reads_of_nine_other_files_in_between_do_not_hide_that_the_same_lines_are_read() -> None:
    others = [claude_code(f"sed -n '1,40p' other{n}.py", f"line of file {n}") for n in range(9)]
    first, *again = (passage(0, n) for n in range(4))
    assert [(call, each.summary[:28]) for call, each in nudges_in([first, *others, *again])] == [
        (13, "You have read the same lines")
    ]
