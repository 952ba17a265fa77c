"""Findings of the measure of progress, and runs that it lets pass: agents that get on, and each way to get nowhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback import FeedbackProviderConfig, InvalidInput, StuckFeedback, recommended_providers
from tellback.contracts.guidance import Outcome, OutcomeCode
from tellback.guidance.next_steps import COUNTED_STEP, ENDED_STEP, FAILING_CALL_STEP, LACKING_STEP, REFUSED_EDIT_STEP
from tellback.guidance.progress.trail import StuckFinding
from tellback.guidance.stuck_feedback import KINDS, TEXTS
from tellback.testing import Call, Changed, Fire, Step, context, run_all


def reports(steps: list[Step], providers: list[FeedbackProviderConfig] | None = None) -> list[Fire]:
    return run_all(recommended_providers() if providers is None else providers, steps)


def bash(command: str, result: str = "", *, failed: bool = False, code: OutcomeCode = "ok") -> Call:
    outcome = Outcome(status="error" if failed else "success", code="error" if failed else code)
    return Call("Bash", {"command": command}, result=result, status="error" if failed else "success", outcome=outcome)


def edit(old: str, new: str, path: str = "/r/app.py", *, failed: bool = False) -> Call:
    params = {"file_path": path, "old_string": old, "new_string": new}
    if failed:
        error = "String to replace not found in file."
        return Call("Edit", params, status="error", error=error, outcome=Outcome(status="error", code="error"))
    return Call("Edit", params, result=f"The file {path} has been updated.")


def pytest_run(failed: int, passed: int = 10, error: str = "AssertionError: totals differ") -> Call:
    names = "".join(f"FAILED tests/test_app.py::test_{n} - {error}\n" for n in range(failed))
    end = f"{failed} failed, {passed} passed in 0.{failed}2s" if failed else f"{passed} passed in 0.31s"
    return bash("pytest -q", f"{names}{end}", failed=failed > 0)


def read(path: str, offset: int = 1, limit: int = 40) -> Call:
    return Call("Read", {"file_path": path, "offset": offset, "limit": limit}, result=f"{path} from {offset}")


def edit_with_counts(place: int, failed: int, passed: int, said: str = "\n\n") -> Call:
    """An edit by an editor that runs the tests itself and prints no names."""
    params = {"command": "str_replace", "path": f"/r/p{place}.py", "old_str": f"a{place}", "new_str": f"b{place}"}
    return Call("str_replace_editor", params, result=f"Edited.{said}{passed} passed. {failed} failed. 0 errors.")


def probe(place: int, said: str = "") -> Call:
    code = f"cat > debug{place}.py <<'EOF'\nprint('patched {place}')\nEOF\npython debug{place}.py"
    return bash(code, f"patched {place}\n{said}parse failed: unexpected token at the end")


def search(place: int, lines: int = 9) -> Call:
    found = [f"src/part{(place + n) % 9}.py: def handle_{(place + n) % 9}(request)" for n in range(lines)]
    return bash(f"grep -rn 'handle.*{place}' src", "\n".join(found))


def healthy(failures: Iterator[int]) -> list[Step]:
    """A coding agent at work: reads, edits, greps and runs its tests, with fewer failures each time."""
    steps: list[Step] = []
    for place, failed in enumerate(failures):
        steps += [
            read(f"/r/part{place}.py"),
            bash(f"grep -rn name{place} src", f"src/part{place}.py:3: name{place}"),
            edit(f"old {place}", f"new {place}", f"/r/part{place}.py"),
            pytest_run(failed, 40 - failed),
        ]
    return steps


def test_a_healthy_run_of_eighty_calls_is_never_interrupted() -> None:
    """The former providers gave this run 19 nudges."""
    steps = healthy(iter(range(19, -1, -1)))
    assert (len(steps), reports(steps)) == (80, [])


@given(st.lists(st.integers(0, 60), unique=True, max_size=15))
def test_a_run_whose_failures_strictly_fall_is_never_interrupted(numbers: list[int]) -> None:
    assert reports(healthy(iter(sorted(numbers, reverse=True)))) == []


def test_one_failure_of_each_of_two_subagents_is_nothing() -> None:
    assert reports([bash("make", "make: *** no rule", failed=True), read("/r/a.py"), edit("a", "b", failed=True)]) == []


def test_refusals_and_cancelled_siblings_are_neither_success_nor_failure() -> None:
    refused = Call(
        "Edit", {"file_path": "/r/a.py"}, status="error", outcome=Outcome(status="partial", code="cancelled")
    )
    assert reports([refused] * 8) == []


@pytest.mark.parametrize(
    "steps",
    [
        [Call("list_items", {"page": n}, result=f"items of {n}") for n in range(20)],
        [bash("sleep 5; tail -1 build.log", f"step {n}") for n in range(20)],
        [Call("TodoWrite", {"todos": []}, result="Todos have been modified") for _ in range(9)],
        [each for n in range(8) for each in (edit(f"a{n}", f"b{n}"), bash("ruff check", "All checks passed!"))],
        [Call("look", {"name": name}, result="[]") for name in ("a", "b", "c", "d", "e", "f", "g")],
        [edit_with_counts(n, 2, 86 + n // 3) for n in range(9)],
        [probe(n, f"the parser is in state {n}\n") for n in range(9)],
        [step for n in range(9) for step in (probe(n), edit(f"a{n}", f"b{n}"))],
        [step for n in range(4) for step in (*(search(5 * n + m) for m in range(5)), edit(f"a{n}", f"b{n}"))],
        [bash("echo 'a;;' | lint -", "== [stdin] FAIL", failed=True)] * 2,
    ],
    ids=[
        "pages",
        "a wait that shows news",
        "plans",
        "lint after each edit",
        "seven names",
        "passes that rise",
        "probes that show news",
        "probes with edits between",
        "searches between edits",
        "a wanted failure",
    ],
)
def test_what_is_only_alike_is_let_pass(steps: list[Step]) -> None:
    assert reports(steps) == []


def failing(error: str = "KeyError: 'indexes'", command: str = "python app.py") -> Call:
    return bash(command, f'Traceback (most recent call last):\n  File "app.py", line 3\n{error}', failed=True)


def same_failure() -> list[Step]:
    return [each for n in range(4) for each in (edit(f"a{n}", f"b{n}"), failing())]


STUCK: dict[str, tuple[Callable[[], list[Step]], int]] = {
    "same_failure": (same_failure, 6),
    "same_output": (
        lambda: [
            each
            for n in range(4)
            for each in (edit(f"a{n}", f"b{n}"), bash("python repro.py", "status 302\nexpected 200"))
        ], 6,
    ),
    "same_call": (lambda: [bash("git status", "nothing to commit")] * 5, 3),
    "same_lines": (lambda: [bash(f"sed -n '{100 + n},{140 + n}p' app.py", f"lines {n}") for n in range(6)], 4),
    "undone_edit": (lambda: [edit("a", "b"), edit("b", "a"), edit("a", "b"), edit("b", "a"), edit("a", "b")], 3),
    "two_states": (lambda: [bash("ls a", "x"), bash("ls b", "y")] * 3, 4),
    "empty_searches": (lambda: [bash(f"grep -rn word{n} src", "", code="no_results") for n in range(8)], 6),
    "worse_tests": (
        lambda: [each for n in (1, 2, 4) for each in (edit(f"a{n}", f"b{n}"), pytest_run(n, 20 - n, f"E{n}: x"))], 6,
    ),
    "failing_tool": (lambda: [Call("book", {"seat": n}, status="error", error=f"no {n * 'x'}") for n in range(5)], 3),
    "dead_wait": (lambda: [bash("sleep 9; curl localhost:80", "curl: (7) Connection refused")] * 5, 3),
    "after_done": (lambda: [Call("finish", {}), *(read(f"/r/{n}.py") for n in range(5))], 4),
    "no_news": (
        lambda: [
            *(bash(f"ls {name}", name) for name in "abcd"),
            *(bash(f"ls {name}", name) for name in "acbd"),
        ], 7,
    ),
}  # fmt: skip


def test_reads_and_searches_that_show_no_new_line_are_reported_at_the_seventh() -> None:
    assert [fire.call for fire in reports([search(n) for n in range(10)])] == [8]


@pytest.mark.parametrize(
    ("steps", "calls"),
    [
        ([bash("ls", "app.py")] * 300, [3, 28, 53]),
        ([each for n in range(100) for each in (read(f"/r/new{n}.py"), read("/r/new0.py"))], [4, 30, 56, 82]),
        ([search(n) for n in range(200)], [8]),
    ],
    ids=["one call", "half of the calls", "the same lines"],
)
def test_what_lasts_is_reported_once_at_each_level(steps: list[Step], calls: list[int]) -> None:
    """Detectors look at a window; when it had moved by its length, what lasted was reported every 25 calls for ever."""
    assert [fire.call for fire in reports(steps)] == calls


def others(place: int) -> list[Step]:
    return [read(f"/r/other{place}-{n}.py") for n in range(8)]


def test_reads_between_the_attempts_change_no_verdict() -> None:
    attempts = [each for n in range(3) for each in (edit(f"a{n}", f"b{n}"), failing(), *others(n))]
    assert [fire.call for fire in reports(attempts)] == [22]
    restores = [each for n in range(2) for each in (edit("a", f"b{n}"), bash("git checkout app.py"), *others(n))]
    assert [fire.call for fire in reports(restores)] == [12]


def test_an_error_after_many_other_runs_and_edits_is_another_attempt() -> None:
    works = [each for n in range(9) for each in (edit(f"c{n}", f"d{n}"), bash("python other.py", f"result {n}"))]
    assert (
        reports([each for n in range(3) for each in (edit(f"a{n}", f"b{n}"), failing("TypeError: no"), *works)]) == []
    )


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        (bash("python reproduce.py", "Result: 0.0\nIs NaN: no"), []),
        (bash("pytest -q", "11 passed in 0.31s"), []),
        (bash("python reproduce.py", "Result: nan\nFAILED: expected 0.0"), [6]),
        (bash("pytest -q", "FAILED tests/test_app.py::test_1\n1 failed, 10 passed in 0.31s", failed=True), [6]),
        (bash("sed -n 1,9p app.py", "def total():\n    return 0"), [6]),
    ],
)
def test_a_fix_that_worked_and_is_replaced_by_a_better_one_was_not_undone(shown: Call, found: list[int]) -> None:
    attempts: list[Step] = []
    for n in range(3):
        attempts += [edit("a", f"b{n}"), shown, bash("git checkout app.py")]
    assert [fire.call for fire in reports(attempts)][:1] == found


def test_a_file_over_which_its_own_copy_is_put_twice_was_taken_back() -> None:
    steps = [bash("cp app.py kept/app.py")]
    for n in range(2):
        steps += [bash(f"sed -i 's/a/{n}/' app.py"), bash("cp kept/app.py app.py")]
    assert [fire.call for fire in reports(list(steps))] == [5]


def test_a_copy_that_was_edited_is_no_way_back() -> None:
    steps = [bash("cp app.py next.py")]
    for n in range(3):
        steps += [bash(f"sed -i 's/a/{n}/' next.py"), bash("cp ./next.py app.py")]
    assert reports(list(steps)) == []


def test_views_between_the_refused_edits_of_an_editor_change_no_verdict() -> None:
    steps: list[Step] = []
    for n in range(3):
        path = f"/r/p{n}.py"
        params = {"command": "str_replace", "path": path, "old_str": f"a{n}", "new_str": f"b{n}"}
        steps += [
            Call("str_replace_editor", params, status="error", error=f"{'no ' * (n + 1)}text to replace"),
            Call("str_replace_editor", {"command": "view", "path": path}, result=f"the text of {path}"),
        ]
    assert [fire.call for fire in reports(steps)] == [5]


@pytest.mark.parametrize("failed", [2, 4])
def test_edits_after_which_an_editor_counts_the_same_four_times_are_reported(failed: int) -> None:
    fires = reports([edit_with_counts(n, failed, 88 - failed) for n in range(6)])
    assert [(fire.call, fire.feedback.suggestions) for fire in fires] == [(4, (COUNTED_STEP,))]


def test_a_replacement_that_is_made_for_the_third_time_counts_as_taken_back() -> None:
    fires = reports([each for n in range(4) for each in (edit("a", "b"), bash(f"./make {n}", f"run {n}"))])
    assert [(fire.call, fire.feedback.suggestions) for fire in fires] == [(5, (TEXTS["undone_edit"][1],))]


def test_scripts_that_end_with_the_same_line_bring_no_news() -> None:
    fires = reports([probe(n) for n in range(6)])
    assert [(fire.call, fire.feedback.suggestions) for fire in fires] == [(4, (TEXTS["no_news"][1],))]


def test_a_call_that_lacks_a_module_is_reported_at_its_second_failure() -> None:
    lacking = bash("python -m pytest -q", "/usr/bin/python: No module named pytest", failed=True)
    assert [fire.call for fire in reports([lacking] * 2)] == [2]


def test_a_refused_edit_is_reported_if_it_is_sent_again_after_other_calls_but_not_at_once() -> None:
    refused, reads = edit("a", "b", failed=True), [read(f"/r/{name}.py") for name in "cde"]
    assert [fire.call for fire in reports([refused, *reads, refused])] == [5]
    assert reports([refused, reads[0], refused]) == []


@pytest.mark.parametrize(
    ("error", "step"),
    [
        ("String to replace not found in file.", REFUSED_EDIT_STEP),
        ("No replacement was performed, old_str `a` did not appear verbatim in a.py.", REFUSED_EDIT_STEP),
        ("ModuleNotFoundError: No module named 'yaml'", LACKING_STEP),
        ("bash: cargo: command not found", LACKING_STEP),
        ("Error: connect ECONNREFUSED 10.0.0.5:5432", LACKING_STEP),
        ("npm error code EAI_AGAIN", LACKING_STEP),
        ("Error: oldString and newString must be different", REFUSED_EDIT_STEP),
        ("KeyError: 'indexes'", TEXTS["same_failure"][1]),
    ],
)
def test_the_step_fits_the_error(error: str, step: str) -> None:
    finding = StuckFinding("same_failure", "x", 3, 1, 5, detail=error)
    feedback = StuckFeedback().provide(context=context(finding=finding))
    assert feedback.suggestions == (step,)


def test_a_call_that_failed_is_not_said_to_show_something() -> None:
    steps: list[Step] = [Call("book", {"seat": 1}, status="error", error="seat taken")] * 2
    assert [fire.feedback.suggestions for fire in reports(steps)] == [(FAILING_CALL_STEP,)]


def test_an_error_that_was_reported_is_not_reported_as_another_kind_soon_after() -> None:
    error = "no such seat on this flight"
    steps: list[Step] = [Call("book", {"seat": n}, status="error", error=error) for n in (1, 1, 2, 3, 4, 5, 6, 7)]
    assert [fire.call for fire in reports(steps)] == [2]


def test_the_same_error_after_edits_of_several_files_is_reported_at_the_third() -> None:
    error = "\n\nRecursionError: maximum recursion depth exceeded\n\n"
    steps: list[Step] = [edit_with_counts(n, 38 + n, 80 - n, said=error) for n in range(3)]
    assert [fire.call for fire in reports(steps)] == [3]


def test_every_kind_has_its_run() -> None:
    assert set(STUCK) == set(KINDS)


@pytest.mark.parametrize("kind", STUCK)
def test_each_way_to_get_nowhere_is_reported_once_with_evidence_and_one_step(kind: str) -> None:
    make, at = STUCK[kind]
    fires = reports(make())
    assert [fire.call for fire in fires] == [at]
    feedback = fires[0].feedback
    assert feedback.suggestions == (ENDED_STEP if kind == "dead_wait" else TEXTS[kind][1],)
    assert "call" in feedback.summary
    assert not any(word in feedback.render() for word in ("{", "}", "use the result that you have"))


@pytest.mark.parametrize("kind", STUCK)
def test_a_healthy_beginning_changes_no_verdict(kind: str) -> None:
    make, at = STUCK[kind]
    before = healthy(iter((3, 2, 1)))
    assert [fire.call for fire in reports([*before, *make()])] == [len(before) + at]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_can_be_turned_off(kind: str) -> None:
    config = recommended_providers()[0]
    quiet = FeedbackProviderConfig(StuckFeedback(off=(kind,)), config.trigger)
    reported = [fire.feedback.suggestions for fire in reports(STUCK[kind][0](), [quiet])]
    assert (TEXTS[kind][1],) not in reported


def test_a_kind_that_is_off_silences_no_other() -> None:
    """The finding that nobody was told began the silence after feedback, and the others waited for its end."""
    config = recommended_providers()[0]
    quiet = FeedbackProviderConfig(StuckFeedback(off=("same_call", "no_news")), config.trigger)
    steps = [*[bash("git status", "nothing to commit")] * 3, *STUCK["same_lines"][0]()]
    assert [fire.call for fire in reports(steps)] == [3]
    assert [fire.call for fire in reports(steps, [quiet])] == [3 + STUCK["same_lines"][1]]


@pytest.mark.parametrize(
    ("before", "now"), [("same_edit", "undone_edit"), ("same_counts", "same_failure"), ("blind_probe", "no_news")]
)
def test_a_kind_that_is_a_part_of_another_now_is_refused_by_its_name(before: str, now: str) -> None:
    with pytest.raises(InvalidInput, match=f"'{before}'.* '{now}'"):
        StuckFeedback(off=(before,))


def test_a_kind_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidInput, match="same_failure"):
        StuckFeedback(off=("nothing",))


@given(st.integers(0, 9**6))
def test_times_and_temporary_paths_change_no_verdict(number: int) -> None:
    steps: list[Step] = []
    for n in range(3):
        said = f"in /tmp/t{number + n}/x at 10:1{n}:00: KeyError: 'a{n // 9}' after {number % 97 + n}.5s"
        steps += [edit(f"a{n}", f"b{n}"), failing(said.replace("in /tmp", "KeyError: x in /tmp"))]
    assert [fire.call for fire in reports(steps)] == [6]


def test_a_change_by_someone_else_makes_the_same_call_a_new_one() -> None:
    status = bash("git status", "nothing to commit")
    assert reports([status, status, Changed("file", "app.py", by="user"), status, status]) == []


def test_an_agent_that_succeeds_hears_at_most_one_thing_in_25_calls() -> None:
    loops: list[Step] = [step for n in range(25) for step in [bash(f"cat f{n}", f"text {n}")] * 4]
    fires = reports(loops)
    assert all(later.call - earlier.call >= 25 for earlier, later in pairwise(fires))
    assert len({fire.feedback.render() for fire in fires}) == len(fires)
