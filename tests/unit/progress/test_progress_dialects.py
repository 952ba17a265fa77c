"""The same ways to be stuck, and the same healthy work, as agents of several programs show them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.dialects import SHELLS, MadeCall, Shell, claude_code, spoken

EACH_SHELL = pytest.mark.parametrize("sh", SHELLS)


def edit(old: str, new: str, path: str = "/r/app.py") -> MadeCall:
    return "Edit", {"file_path": path, "old_string": old, "new_string": new}, f"The file {path} has been updated."


def edit_with_tests(old: str, new: str, failed: int, passed: int) -> MadeCall:
    params: dict[str, object] = {"command": "str_replace", "path": "app.py", "old_str": old, "new_str": new}
    return "EditActionArguments", params, f"Edited.\n\n{passed} passed. {failed} failed. 0 errors."


def traceback(error: str = "KeyError: 'indexes'", line: int = 3) -> str:
    return f'Traceback (most recent call last):\n  File "/r/app.py", line {line}, in main\n    run()\n{error}'


def summary(failed: int, passed: int = 20, error: str = "AssertionError: totals differ") -> str:
    names = "".join(f"FAILED tests/test_app.py::test_{n} - {error}\n" for n in range(failed))
    return names + (f"{failed} failed, {passed} passed in 0.{failed}2s" if failed else f"{passed} passed in 0.3s")


def changed(sh: Shell, n: int) -> MadeCall:
    return sh(f"sed -i 's/a{n}/b{n}/' app.py", "", 0)


@EACH_SHELL
def test_the_same_failing_command_with_cosmetic_changes_is_reported_at_the_third(sh: Shell) -> None:
    script = [
        sh("python app.py", traceback(), 1),
        sh("python  app.py 2>&1", traceback(line=4), 1),
        sh("cd /r && python3 app.py 2>&1 | tail -20", traceback(line=4), 0),
    ]
    tests = [
        sh("pytest -q", summary(2), 1),
        sh("pytest -q --tb=short", summary(2), 1),
        sh("python -m pytest -q 2>&1 | tail -5", summary(2), 0),
    ]
    builds = [sh(line, "src/main.c:4:2: error: expected ';'", 2) for line in ("make", "make -j4", "make V=1")]
    logins = [sh(f"ssh {flags} host ls", "Permission denied (publickey).", 255) for flags in ("", "-v", "-p 22")]
    assert [spoken(calls) for calls in (script, tests, builds, logins)] == [[3]] * 4


@EACH_SHELL
def test_runs_that_show_more_of_a_failure_each_time_are_let_pass(sh: Shell) -> None:
    def longer(n: int) -> str:
        return "".join(f"frame {n} of the run: value {n * m}\n" for m in range(2, 20)) + summary(1)

    assert spoken([sh(f"pytest -q --tb=style{n}", longer(n), 1) for n in range(4)]) == []


@EACH_SHELL
def test_the_same_error_of_several_scripts_is_let_pass(sh: Shell) -> None:
    assert spoken([sh(f"python probe{n}.py", traceback("ValueError: bad state"), 1) for n in range(4)]) == []
    codes = [f"python - <<'EOF'\nimport app; print(app.state({n}))\nEOF" for n in range(3)]
    assert spoken([sh(code, traceback("ValueError: bad state"), 1) for code in codes]) == []


@EACH_SHELL
def test_a_script_that_shows_the_same_fault_after_each_edit_is_reported_at_the_third(sh: Shell) -> None:
    calls = [each for n in range(4) for each in (changed(sh, n), sh("python repro.py", "got 302, expected 200", 0))]
    assert spoken(calls) == [6]


@EACH_SHELL
@pytest.mark.parametrize("said", ["System check identified no issues (0 silenced).", "all fine, 0 errors", "done"])
def test_a_check_that_finds_nothing_after_each_edit_is_let_pass(sh: Shell, said: str) -> None:
    assert spoken([each for n in range(8) for each in (changed(sh, n), sh("python manage.py check", said, 0))]) == []


@EACH_SHELL
def test_an_edit_that_is_made_again_after_it_was_restored_is_reported(sh: Shell) -> None:
    restored = sh("git checkout app.py", "Updated 1 path from the index", 0)
    assert spoken([changed(sh, 1), restored, changed(sh, 1)]) == [3]
    assert spoken([edit("a", "b"), sh("git checkout /r/app.py", "", 0), edit("a", "b")]) == [3]


@EACH_SHELL
def test_the_good_one_of_two_edits_may_be_made_again(sh: Shell) -> None:
    restored = sh("git checkout app.py", "Updated 1 path from the index", 0)
    assert spoken([changed(sh, 1), changed(sh, 2), restored, changed(sh, 1), changed(sh, 3)]) == []


@EACH_SHELL
def test_a_run_of_the_original_between_undoing_and_redoing_is_a_check(sh: Shell) -> None:
    restored = sh("git checkout app.py", "Updated 1 path from the index", 0)
    calls = [changed(sh, 1), sh("pytest -q", summary(1), 1), restored, sh("pytest -q", summary(1), 1), changed(sh, 1)]
    assert spoken(calls) == []


def test_an_edit_there_and_back_by_an_editor_that_runs_tests_is_reported() -> None:
    there, back = edit_with_tests("a", "b", 2, 86), edit_with_tests("b", "a", 1, 87)
    assert spoken([there, back, there]) == [3]


@EACH_SHELL
def test_the_same_lines_are_known_by_whatever_path_they_are_read(sh: Shell) -> None:
    lines = "first line of the file\nsecond line of the file"
    commands = (
        "sed -n 1,50p src/app.py",
        "head -50 ./src/app.py",
        "cat src/app.py | head -50",
        "head -n 50 ./src/app.py",
    )
    assert spoken([sh(command, lines, 0) for command in commands])[:1] in ([3], [4])
    moved = (
        "cd /r && head -50 src/app.py",
        "head -50 /r/src/app.py",
        "sed -n 1,50p /r/src/app.py",
        "head -50 /r/src/app.py",
    )
    assert spoken([sh(command, lines, 0) for command in moved])[:1] in ([3], [4])


@EACH_SHELL
def test_searches_for_ever_changing_words_with_nothing_found_are_reported(sh: Shell) -> None:
    assert spoken([sh(f'grep -rn "word{n}" src', "", 1) for n in range(7)]) == [6]


def test_an_error_of_a_compiler_is_the_same_at_another_line() -> None:
    error = "src/a.ts({},5): error TS2345: Argument of type 'X' is not assignable to parameter of type 'Y'."
    calls = [
        each for n in range(4) for each in (edit(f"a{n}", f"b{n}"), claude_code("npx tsc", error.format(n + 10), 2))
    ]
    assert spoken(calls) == [6]


def test_what_an_agent_remarks_about_its_call_is_no_other_call() -> None:
    remarks = ("Check it", "Look once more", "See if it changed")
    shell: list[MadeCall] = [("Bash", {"command": "git status", "description": each}, "clean") for each in remarks]
    tool: list[MadeCall] = [("get_page", {"id": 1, "explanation": each}, "the page") for each in remarks]
    comments: list[MadeCall] = [("bash", {"command": f"git status  # try {n}"}, "clean") for n in range(3)]
    matters: list[MadeCall] = [("create_issue", {"description": each}, "Done.") for each in remarks]
    assert [spoken(calls) for calls in (shell, tool, comments, matters)] == [[3], [3], [3], []]


def fewer_failures(sh: Shell) -> list[MadeCall]:
    """The run of the issue: reads, edits, greps and test runs, with fewer failures each time."""
    return [
        call
        for n in range(20)
        for call in (
            sh(f"sed -n '{n * 20 + 1},{n * 20 + 20}p' app.py", f"def part_{n}():\n    return {n} + value_{n}", 0),
            sh(f"grep -rn 'part_{n}(' src", f"src/use_{n}.py:{n}: part_{n}()", 0),
            changed(sh, n),
            sh("pytest -q", summary(19 - n, 40 + n), int(n < 19)),
        )
    ]


def refactoring(sh: Shell) -> list[MadeCall]:
    return [call for n in range(20) for call in (changed(sh, n), sh("pytest -q", summary(0), 0))]


def review(sh: Shell) -> list[MadeCall]:
    return [sh(f"git show --stat c{n}", f"commit c{n}\n file_{n}.py | {n + 1} +", 0) for n in range(40)]


def commits(sh: Shell) -> list[MadeCall]:
    return [
        call
        for n in range(15)
        for call in (
            changed(sh, n),
            sh("npm test", "Tests: 12 passed, 12 total", 0),
            sh("git status --short", " M app.py", 0),
            sh(f"git commit -qam 'part {n}'", "", 0),
        )
    ]


def other_errors(sh: Shell) -> list[MadeCall]:
    return [
        call
        for n in range(10)
        for call in (
            sh("python app.py", traceback(f"NameError: name 'value_{n}' is not defined", n), 1),
            changed(sh, n),
        )
    ]


def build_log(sh: Shell) -> list[MadeCall]:
    return [sh("sleep 20; tail -1 build.log", f"compiling unit {n} of 40", 0) for n in range(40)]


def names_in_a_list(sh: Shell) -> list[MadeCall]:
    return [sh(f"pip show package_{n} || true", f"WARNING: Package(s) not found: package_{n}", 0) for n in range(7)]


@EACH_SHELL
@pytest.mark.parametrize(
    "work", [fewer_failures, refactoring, review, commits, other_errors, build_log, names_in_a_list]
)
def test_a_healthy_run_is_never_interrupted(work: Callable[[Shell], list[MadeCall]], sh: Shell) -> None:
    assert spoken(work(sh)) == []
