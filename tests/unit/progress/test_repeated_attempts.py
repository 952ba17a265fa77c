"""Attempts that are made again in another way: replacements, files deleted and written again, restores, findings."""

from __future__ import annotations

import json

import pytest

from tellback.guidance.next_steps import SERVICE_STEP
from tellback.guidance.stuck_feedback import TEXTS
from tests.support.dialects import MadeCall, claude_code, codex_exec, mini_swe_agent, nudges_in, spoken
from tests.support.stretches import claude_edit

COUNT_UP = range(5)


def kinds(calls: list[MadeCall]) -> list[tuple[int, str]]:
    """Return the calls after which something was reported, each with the kind that has its step."""
    steps = {step: kind for kind, (_, step) in TEXTS.items()}
    return [(call, steps.get(each.suggestions[0], "")) for call, each in nudges_in(calls)]


@pytest.mark.parametrize(("said", "found"), [("users", [(6, "same_failure")]), ("", [])])
def test_the_failure_of_a_program_that_go_runs_stands_above_its_exit_status(said: str, found: list[object]) -> None:
    def run(n: int) -> MadeCall:
        return claude_code("go run .", f"started\ncannot read table {said or 'u' * n}\nexit status 1", 1)

    assert kinds([each for n in range(3) for each in (claude_edit(n), run(n))]) == found


def test_lines_that_a_shell_cannot_read_are_the_agents_own_fault() -> None:
    said = "bash: -c: line 1: syntax error near unexpected token `('"
    calls = [claude_code(line, said, 2) for line in ("make a(1)", "python b(2).py", "node c(3).js")]
    assert spoken(calls) == [3]


@pytest.mark.parametrize(("said", "expected"), [("No local changes to save", []), ("Saved working directory", [6])])
def test_a_stash_that_finds_nothing_takes_nothing_back(said: str, expected: list[int]) -> None:
    stash = claude_code("git stash", said)
    calls = [each for n in (1, 2) for each in (claude_edit(n), claude_code(f"git commit -am {n}"), stash)]
    nudges = nudges_in(calls)
    assert [call for call, _ in nudges] == expected
    assert all(each.summary.startswith("A change to the work has been taken back") for _, each in nudges)


def written(n: int) -> MadeCall:
    params: dict[str, object] = {"file_path": "/r/repro.py", "content": f"assert total({n}) == {n}"}
    return "Write", params, "File created successfully at: /r/repro.py"


def trace(error: str) -> str:
    return f'Traceback (most recent call last):\n  File "/r/repro.py", line 3, in main\n    run()\n{error}'


ERRORS = ("KeyError: 'first'", "TypeError: no number", "ValueError: empty", "IndexError: beyond", "OSError: closed")


@pytest.mark.parametrize("said", ["total is 3", "All checks passed"])
def test_scripts_that_are_deleted_after_they_worked_are_clean_work(said: str) -> None:
    calls: list[MadeCall] = []
    for n in COUNT_UP:
        calls += [written(n), claude_code("python repro.py", f"{said} ({n})"), claude_code("rm -f /r/repro.py")]
    assert kinds(calls) == []


def test_a_file_that_somebody_else_wrote_may_be_deleted_as_often_as_wanted() -> None:
    calls = [claude_code(line, f"{n}") for n in COUNT_UP for line in (f"./build {n}", "rm out.log")]
    assert kinds(calls) == []


@pytest.mark.parametrize(
    "said", ["Datei ist schon da.", "Il file esiste.", "File already exists at: /r/repro.py.", "File created."]
)
def test_a_file_that_is_deleted_because_no_editor_writes_over_it_was_not_tried(said: str) -> None:
    calls = [written(0), claude_code("python repro.py", trace(ERRORS[0]), 1)]
    for n in (1, 2):
        calls += [(*written(n)[:2], said), claude_code("rm /r/repro.py"), written(n)]
        calls += [claude_code("python repro.py", trace(ERRORS[n]), 1)]
    assert kinds(calls) == []


@pytest.mark.parametrize("then", ["docker compose up -d", "python repro.py", "npx tsc --noEmit", "terraform apply"])
def test_a_line_that_failed_at_its_end_has_changed_what_comes_before_it(then: str) -> None:
    ahead, back = (f"sed -i 's/{old}:5432/{new}:5432/' conf.yml && {then}" for old, new in ((5433, 5432), (5432, 5433)))
    calls = [mini_swe_agent(line, error, 1) for line, error in zip((ahead, back, ahead), ERRORS, strict=False)]
    assert kinds(calls) == [(3, "undone_edit")]


def test_a_line_that_failed_at_its_only_act_has_changed_nothing() -> None:
    ahead, back = (f"cd /r && sed -i 's/{old}:5432/{new}:5432/' conf.yml" for old, new in ((5433, 5432), (5432, 5433)))
    calls = [mini_swe_agent(line, error, 2) for line, error in zip((ahead, back, ahead), ERRORS, strict=False)]
    assert kinds(calls) == []


def sed(place: int, path: str) -> MadeCall:
    return mini_swe_agent(f"cd /t && sed -i '{place}s/a(b)/try:\\n  a(b)/' {path}")


def test_one_replacement_in_a_file_and_its_copies_is_reported_at_the_fourth() -> None:
    calls = [
        each for n in range(5) for each in (mini_swe_agent(f"cp u/q.py u/q.py.new{n}"), sed(670, f"u/q.py.new{n}"))
    ]
    assert kinds(calls) == [(8, "undone_edit")]


@pytest.mark.parametrize(
    "calls",
    [
        [mini_swe_agent(f"cd packages/{name} && sed -i 's/1.0.0/1.1.0/' package.json") for name in "abcdef"],
        [mini_swe_agent(f"sed -i 's/old_name/new_name/' src/part{n}.py") for n in range(6)],
        [mini_swe_agent(f"sed -i '{n}s/^/    /' src/app.py") for n in range(10, 17)],
        [claude_edit(1, f"/r/{name}/index.ts") for name in "abcdef"],
        [(*claude_edit(1)[:2], f"Replaced the text at line {n}.") for n in (3, 40, 77, 90)],
    ],
    ids=["packages", "files", "lines", "edits of many files", "places, each the first that an editor finds"],
)
def test_one_replacement_in_many_places_is_one_change(calls: list[MadeCall]) -> None:
    assert kinds(calls) == []


def test_a_line_that_restores_a_file_has_restored_it_though_what_it_runs_then_fails() -> None:
    line = "git checkout app.py && python patch_more.py && python repro.py"
    calls: list[MadeCall] = []
    for n in range(3):
        calls += [mini_swe_agent(f"python fix{n}.py", "done"), mini_swe_agent(line, trace("KeyError: 'idx'"), 1)]
    assert kinds(calls)[:1] == [(4, "undone_edit")]


def test_a_restore_that_failed_is_none() -> None:
    said = "error: pathspec 'app.py' did not match any file(s) known to git"
    calls = [mini_swe_agent(f"git checkout {name}.py", said.replace("app", name), 1) for name in "abc"]
    assert [kind for _, kind in kinds(calls)] == []


def lint(program: str, found: int) -> MadeCall:
    lines = "".join(f"a.py:{n}:1: F821 Undefined name `x{n}`\n" for n in range(found))
    return claude_code(program, f"{lines}Found {found} errors.", 1)


@pytest.mark.parametrize(
    ("program", "counts", "found"),
    [
        ("ruff check .", (3, 5, 9, 12), [(6, "worse_tests")]),
        ("npx eslint src", (3, 5, 9, 12), [(6, "worse_tests")]),
        ("ruff check .", (1, 7, 9, 2), []),  # the first may be a syntax error, which hides the others
        ("npx tsc --noEmit", (3, 5, 9, 12), [(6, "worse_tests")]),
        ("cargo check", (3, 5, 9, 12), []),  # a compiler that gets further
        ("ruff check .", (9, 5, 3, 1), []),
    ],
)
def test_findings_of_a_linter_that_grow_twice_are_reported(
    program: str, counts: tuple[int, ...], found: list[tuple[int, str]]
) -> None:
    calls = [each for n in counts for each in (claude_edit(n), lint(program, n))]
    assert kinds(calls)[:1] == found


@pytest.mark.parametrize("line", ["kubectl get pods", "sleep 20; kubectl get pods"])
def test_a_pod_that_crashes_again_and_again_is_no_news_because_it_is_older(line: str) -> None:
    said = "NAME   READY  STATUS            RESTARTS    AGE\nweb-7  0/1    CrashLoopBackOff  5 ({0}s ago)  {1}m{0}s"
    assert kinds([codex_exec(line, said.format(7 + 9 * n, 3 + n)) for n in range(4)])[0][0] == 3


def test_an_option_of_git_before_its_subcommand_changes_nothing() -> None:
    calls: list[MadeCall] = []
    for n in range(4):
        calls += [claude_code("git -C /w/a --no-pager status", "clean"), claude_code(f"git -c a.b={n} diff", "")]
    assert kinds(calls)[0][0] <= 6


def refused_edit(text: str) -> MadeCall:
    params: dict[str, object] = {"filePath": "/r/a.py", "oldString": text, "newString": text}
    return "edit", params, "Error: oldString and newString must be different"


def test_searches_in_vain_are_reported_soon_after_another_finding() -> None:
    calls = [refused_edit("b"), refused_edit("total(x)"), refused_edit("total(x)")]
    words = ("def total", "total(", "class Total", "sum_total", "totals", "TOTAL")
    calls += [mini_swe_agent(f"grep -n '{word}' a.py", "", 1) for word in words]
    assert [call for call, _ in kinds(calls)] == [3, 9]


@pytest.mark.parametrize(("between", "reported"), [(("1 failed", 1), [3, 9]), (("3 passed", 0), [3])])
def test_an_agent_whose_calls_fail_hears_another_finding_within_25_calls(
    between: tuple[str, int], reported: list[int]
) -> None:
    """G-291: here that it reads one file again and again, which in itself is no failure."""
    calls = [refused_edit("b"), refused_edit("total(x)"), refused_edit("total(x)")]
    calls += [claude_code("./check.sh", *between)]
    calls += [each for n in range(3) for each in (claude_code("cat b.py", "x = 1"), claude_code(f"cat f{n}", f"{n}"))]
    assert [call for call, _ in kinds(calls)] == reported


def test_nobody_is_sent_to_read_the_code_of_a_service() -> None:
    said = json.dumps({"error": "the payment method of this user was not found"})
    booked: list[MadeCall] = [("book_reservation", {"id": n}, said) for n in range(3)]
    assert [each.suggestions for _, each in nudges_in(booked)] == [(SERVICE_STEP,)]
    ran = [
        each for n in range(3) for each in (claude_edit(n), claude_code("python app.py", trace("KeyError: 'idx'"), 1))
    ]
    assert [each.suggestions for _, each in nudges_in(ran)] == [(TEXTS["same_failure"][1],)]


FAILED = "1 failed, 4 passed in 0.2s\nFAILED tests/test_x.py::test_a - ValueError: bad"


def test_a_test_that_passed_and_fails_without_the_fix_begins_a_new_count() -> None:
    """G-248: to put the fix aside shows that the test needs it."""
    red, green = claude_code("pytest -q", FAILED, 1), claude_code("pytest -q", "5 passed in 0.2s")
    aside, again = claude_code("git stash", "Saved working directory"), claude_code("git stash pop", "Dropped stash")
    fixed = [red, claude_edit(1), red, claude_edit(2), green, aside, red, again, green]
    assert not nudges_in(fixed)
    stuck = [each for n in range(3, 6) for each in (claude_edit(n), red)]
    assert [call for call, _ in nudges_in([*fixed, *stuck])] == [len(fixed) + 6]


@pytest.mark.parametrize("codemod", ["npx jscodeshift -t rename.js src", "node scripts/codemod.js src"])
def test_changes_by_a_codemod_that_are_restored_each_time_are_reported(codemod: str) -> None:
    """G-348: each codemod that ended well began a new count of restores. Planted faults are no such attempts."""
    attempts = [
        call
        for n in range(3)
        for call in (
            claude_code(codemod, f"Processing {20 + n} files...\nAll done.\nResults: 0 errors {10 + n} ok"),
            claude_code("npm run build", f"src/a{n}.ts({n},3): error TS230{n}: Cannot find name 'x{n}'.", 2),
            claude_code("git restore ."),
        )
    ]
    assert kinds(attempts) == [(6, "undone_edit")]
    planted = [
        call
        for n in range(4)
        for call in (
            claude_code(f"sed -i 's/a{n}/b{n}/' src/m.py"),
            claude_code("./check.sh", f"mutant {n} was noticed at line {n}", 1),
            claude_code("git restore ."),
            claude_code("./check.sh", "everything is fine here"),
        )
    ]
    assert kinds(planted) == []


@pytest.mark.parametrize(("tries", "found"), [(7, ["undone_edit"]), (11, [])])
def test_two_restores_are_one_attempt_though_each_edit_is_tried_in_several_ways(tries: int, found: list[str]) -> None:
    """G-414: counted over eight actions, the second restore belonged to another attempt."""
    calls: list[MadeCall] = []
    for n in range(2):
        ways = [mini_swe_agent(f"sed -i 's/at {way}/at {n}{way}/' probe{way}.cfg") for way in range(tries)]
        calls += [mini_swe_agent(f"python patch{n}.py", "patched"), *ways]
        calls += [mini_swe_agent("python repro.py", ERRORS[n], 1), mini_swe_agent("git checkout app.py")]
    assert [kind for _, kind in kinds(calls)] == found
