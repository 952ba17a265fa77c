"""Ways to be stuck in the forms of many programs and test runners, with noise, and healthy work that looks alike.

Each stretch is drawn by a seed: names, numbers, times, places of lines, options, colours, and calls of other work.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

from tests.support.dialects import MadeCall, claude_code, nudges_in
from tests.support.perturbations import PROGRAMS, Scene, Tools
from tests.support.runners import RUNNERS
from tests.support.stretches import claude_edit

Way = Callable[[Scene], Sequence[MadeCall]]
STUCK: dict[str, tuple[Way, int]] = {}
HEALTHY: dict[str, Way] = {}
COUNTED = ("pytest", "unittest", "jest", "mocha", "cargo", "rspec", "maven")
IN_TIME = 3


def stuck(enough: int) -> Callable[[Way], Way]:
    """Register a way to be stuck; at this of its calls a reader has seen enough."""

    def register(way: Way) -> Way:
        STUCK[way.__name__] = (way, enough)
        return way

    return register


def healthy(way: Way) -> Way:
    HEALTHY[way.__name__] = way
    return way


@stuck(6)
def the_same_failure_after_each_edit(scene: Scene) -> list[MadeCall]:
    path, failures = scene.path(), scene.failures(scene.number(1, 4))
    return [call for _ in range(4) for call in (scene.edit(path), scene.run(failures))]


@stuck(6)
def more_failures_after_each_edit(scene: Scene) -> list[MadeCall]:
    scene.runner, scene.varies = scene.draw(COUNTED), False
    failures = scene.failures(6)
    return [call for n in range(4) for call in (scene.edit(), scene.run(failures[: n + 1], 14 - n))]


@stuck(5)
def an_edit_made_undone_and_made(scene: Scene) -> list[MadeCall]:
    path, old, new = scene.path(), scene.name(), scene.name()
    one, other = scene.failures(1), scene.failures(1)
    back_and_forth = [(old, new, one), (new, old, other)] * 2
    return [call for a, b, failed in back_and_forth for call in (scene.edit(path, a, b), scene.run(failed))]


@stuck(5)
def an_edit_restored_and_made_again(scene: Scene) -> list[MadeCall]:
    path, old, new, failures = scene.path(), scene.name(), scene.name(), scene.failures(1)
    tried = [scene.edit(path, old, new), scene.run(failures)]
    return [*tried, scene.shell(f"git checkout -- {path}"), scene.read_something(), *tried]


@stuck(6)
def a_file_restored_after_each_attempt(scene: Scene) -> list[MadeCall]:
    path, failures = scene.path(), scene.failures(1)
    restored = scene.shell(f"git checkout -- {path}", "Updated 1 path from the index")
    return [call for _ in range(3) for call in (scene.edit(path), scene.run(failures), restored)]


@stuck(4)
def two_reads_in_turn(scene: Scene) -> list[MadeCall]:
    scene.noise = 0
    return [scene.tools.read(scene.path(), 10, scene.text()), scene.tools.read(scene.path(), 40, scene.text())] * 3


@stuck(4)
def the_same_lines_read_in_other_ranges(scene: Scene) -> list[MadeCall]:
    path, lines = scene.path(), scene.text(40).split("\n")
    starts = [0, 3, 1, 4, 2, 5]
    return [scene.tools.read(path, 10 + start, "\n".join(lines[start : start + 30])) for start in starts]


@stuck(6)
def searches_that_find_nothing(scene: Scene) -> list[MadeCall]:
    scene.noise = 0
    return [scene.tools.search(scene.name(), "") for _ in range(8)]


@stuck(3)
def one_refusal_of_many_commands(scene: Scene) -> list[MadeCall]:
    name, port = scene.name(), scene.number(2_000, 9_000)
    commands, said, code = scene.random.choice([
        (
            (f"python -c 'import {name}'", f"python3 -m {name}", f"cd /r && python -c 'import {name}; print(1)'"),
            f'Traceback (most recent call last):\n  File "<string>"\nModuleNotFoundError: No module named {name!r}',
            1,
        ),
        ((f"{name} a", f"{name} b --release", f"cd /r && {name} c 2>&1"), f"/bin/sh: line 1: {name}: not found", 127),
        (
            (f"curl -s localhost:{port}/a", f"curl -sS http://localhost:{port}/b", f"curl -v localhost:{port}"),
            f"curl: (7) Failed to connect to localhost port {port}: Connection refused",
            7,
        ),
        (
            ("docker compose up -d", "docker compose up -d --build", "docker ps"),
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
            1,
        ),
    ])  # fmt: skip
    return [scene.shell(command, said, code) for command in commands]


@stuck(3)
def a_tool_that_fails_for_everything(scene: Scene) -> list[MadeCall]:
    said = "Error: upstream returned 502 for request {:04x}"
    return [("mcp__tracker__get", {"item": scene.name()}, said.format(scene.number(1, 9_999))) for _ in range(5)]


@stuck(4)
def waits_for_a_process_that_ended(scene: Scene) -> list[MadeCall]:
    pid = scene.number(1_000, 90_000)
    said = f"bash: kill: ({pid}) - No such process"
    waits = [scene.shell(f"sleep {scene.number(5, 60)}; kill -0 {pid}", said, 1) for _ in range(5)]
    return [scene.shell("nohup ./serve > /tmp/serve.log 2>&1 & echo $!", str(pid)), *waits]


@stuck(2)
def the_same_run_with_nothing_changed(scene: Scene) -> list[MadeCall]:
    scene.varies, scene.noise, failures = False, 0, scene.failures(2)
    return [scene.run(failures) for _ in range(5)]


@stuck(6)
def a_script_that_shows_the_same_fault(scene: Scene) -> list[MadeCall]:
    said = f"{scene.name()}: expected 9 rows, got 4"
    runs = [scene.shell("python repro.py", f"loaded in {scene.seconds()} s\n{said}") for _ in range(4)]
    return [call for run in runs for call in (scene.edit(), run)]


@stuck(6)
def a_service_that_answers_the_same(scene: Scene) -> list[MadeCall]:
    calls: list[MadeCall] = []
    for _ in range(4):
        at = scene.clock().replace(" ", "T")
        body = {"timestamp": f"{at}Z", "status": 500, "error": "Internal Server Error", "requestId": scene.hex()}
        calls += [scene.edit(), scene.shell("curl -s localhost:8000/api/users", json.dumps(body))]
    return calls


@healthy
def fewer_failures_after_each_edit(scene: Scene) -> list[MadeCall]:
    failures = scene.failures(5)
    return [call for n in range(6) for call in (scene.edit(), scene.run(failures[n:], 14 + n))]


@healthy
def other_failures_after_each_edit(scene: Scene) -> list[MadeCall]:
    return [call for _ in range(5) for call in (scene.edit(), scene.run(scene.failures(1)))]


@healthy
def failures_fixed_one_by_one(scene: Scene) -> list[MadeCall]:
    return [
        call
        for n in range(4)
        for call in (scene.run(scene.failures(1), 14 + n), scene.read_something(), scene.edit(), scene.run([], 15 + n))
    ]


@healthy
def fewer_findings_beside_one_that_stays(scene: Scene) -> list[MadeCall]:
    scene.runner = scene.draw([*COUNTED, "tsc", "gcc"])
    stays, *failures = scene.failures(6)
    return [call for n in range(5) for call in (scene.edit(), scene.run([stays, *failures[n:]], 10 + n))]


@healthy
def more_tests_pass_beside_two_that_fail_anyway(scene: Scene) -> list[MadeCall]:
    scene.runner, failures = scene.draw(COUNTED), scene.failures(2)
    work = [call for n in range(4) for call in (scene.edit(), scene.read_something(), scene.run(failures, 15 + n))]
    return [scene.run(failures, 14), *work]


@healthy
def a_fix_taken_back_to_see_the_test_fail(scene: Scene) -> list[MadeCall]:
    scene.runner = scene.draw([*COUNTED, "go"])
    path, old, new, failures = scene.path(), scene.name(), scene.name(), scene.failures(1)
    fixed = [scene.edit(path, old, new), scene.run([], 15)]
    return [scene.run(failures), *fixed, scene.edit(path, new, old), scene.run(failures), *fixed]


@healthy
def failures_of_before_run_with_the_work_put_aside(scene: Scene) -> list[MadeCall]:
    before, calls = scene.failures(1), list[MadeCall]()
    for _ in range(2):
        aside = scene.shell("git stash", f"Saved working directory and index state WIP on main: {scene.hex()}")
        back = scene.shell(
            "git stash pop", f"On branch main\n\tmodified: src/{scene.name()}.py\nDropped refs/stash@{{0}}"
        )
        calls += [scene.edit(), scene.run(scene.failures(1)), aside, scene.run(before), back]
    return calls


@healthy
def reads_on(scene: Scene) -> list[MadeCall]:
    path, lines = scene.path(), scene.text(120).split("\n")
    return [scene.tools.read(path, 10 + 20 * n, "\n".join(lines[20 * n : 20 * n + 20])) for n in range(6)]


@healthy
def reads_again_what_it_edited(scene: Scene) -> list[MadeCall]:
    path = scene.path()
    return [call for _ in range(5) for call in (scene.edit(path), scene.tools.read(path, 10, scene.text()))]


@healthy
def searches_half_of_which_find_something(scene: Scene) -> list[MadeCall]:
    return [scene.tools.search(scene.name(), f"/r/src/a.py:{n}:{scene.text(1)}" if n % 2 else "") for n in range(8)]


@healthy
def waits_for_a_build_that_moves(scene: Scene) -> list[MadeCall]:
    return [scene.shell(f"sleep {5 * n}; tail -1 build.log", f"[{9 * n}/90] {scene.name()}") for n in range(1, 8)]


@healthy
def a_script_that_shows_another_value(scene: Scene) -> list[MadeCall]:
    name = scene.name()
    runs = [scene.shell("python repro.py", f"loaded\n{name}: expected 9 rows, got {n}") for n in range(4, 9)]
    return [call for run in runs for call in (scene.edit(), run)]


@healthy
def checks_and_a_commit_at_the_end(scene: Scene) -> list[MadeCall]:
    diff = scene.shell("git diff", f"diff --git a/src/a.py b/src/a.py\n+{scene.name()}")
    checked = scene.shell("ruff check .", "All checks passed!")
    return [scene.edit(), scene.run([], 20), scene.shell("git status --short", " M src/a.py"), diff, checked]


SCENES = [
    *((tools, list(RUNNERS)[n % len(RUNNERS)]) for n, tools in enumerate(PROGRAMS)),
    *((PROGRAMS[(n + 5) % len(PROGRAMS)], runner) for n, runner in enumerate(RUNNERS)),
]


def stretches(way: Way, enough: int, tools: Tools, runner: str) -> list[tuple[list[MadeCall], int]]:
    """Return what is drawn of a way in this scene; what "own words" say needs an exit code."""
    hides_codes = tools.name == "swe-agent" and runner == "own words"
    scene = Scene(tools, runner, seed=0)
    return [] if hides_codes else [scene.woven(way(scene), enough)]


@pytest.mark.parametrize("name", STUCK)
def test_each_way_to_be_stuck_is_reported_in_time_in_any_form(name: str) -> None:
    """G-297."""
    way, enough = STUCK[name]
    for tools, runner in SCENES:
        for calls, place in stretches(way, enough, tools, runner):
            first = next((call for call, _ in nudges_in(calls)), None)
            assert place - 1 <= (first or 0) <= place + IN_TIME, (tools.name, runner, place, first)


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_work_in_any_form_hears_nothing(name: str) -> None:
    """G-298."""
    for tools, runner in SCENES:
        for calls, _ in stretches(HEALTHY[name], 0, tools, runner):
            assert not nudges_in(calls), (tools.name, runner)


def test_an_edit_that_went_through_may_be_taken_back_and_made_again() -> None:
    """G-299: whoever does so looks if a test fails without it; one that failed both times is an attempt made twice."""

    def made_again(first: str) -> list[int]:
        edit: MadeCall = ("Edit", {"file_path": "a.py", "old_string": "a", "new_string": "b"}, "Updated a.py.")
        back: MadeCall = ("Edit", {"file_path": "a.py", "old_string": "b", "new_string": "a"}, "Updated a.py.")
        runs = [claude_code("pytest -q", said, "failed" in said) for said in (first, "2 failed, 9 passed in 1s")]
        return [call for call, _ in nudges_in([edit, runs[0], back, runs[1], edit])]

    assert made_again("10 passed in 1s") == []
    assert made_again("1 failed, 9 passed in 1s") == [5]


def test_fewer_findings_are_progress_whichever_command_counts_them() -> None:
    """G-229."""

    def found(counts: Sequence[int]) -> list[int]:
        commands = ("npx tsc --noEmit", "npm run build", "npx tsc -p .", "npm run build")
        error = "src/a.ts(3,1): error TS2345: Argument of type 'Leaf' is not assignable to 'Tree'."
        calls = [claude_code(each, f"{error}\nFound {n} errors.", 2) for each, n in zip(commands, counts, strict=True)]
        return [call for call, _ in nudges_in([each for n, run in enumerate(calls) for each in (claude_edit(n), run)])]

    assert found((9, 7, 4, 2)) == []
    assert found((4, 4, 4, 4)) == [6]
