"""Stretches of agents that get on and only look stuck, as agents of many programs show them: nothing is said."""

from __future__ import annotations

import json

import pytest

from tests.support.dialects import (
    MadeCall,
    claude_code,
    cline,
    codex_exec,
    codex_json,
    cursor,
    gemini_cli,
    mini_swe_agent,
    nudges_in,
    openhands,
    reported,
    swe_agent,
    woven,
)

NAMES = ("numpy", "scipy", "pandas", "torch", "jax", "numba", "dask", "polars")


def edits(count: int, path: str = "/r/app.py") -> list[MadeCall]:
    return [
        (
            "Edit",
            {"file_path": path, "old_string": f"a{n}", "new_string": f"b{n}"},
            f"The file {path} has been updated.",
        )
        for n in range(count)
    ]


def patches(count: int, path: str = "src/lib.rs") -> list[MadeCall]:
    return [
        (
            "apply_patch",
            {"input": f"*** Begin Patch\n*** Update File: {path}\n@@\n-a{n}\n+b{n}\n*** End Patch"},
            "Success. Updated the following files:",
        )
        for n in range(count)
    ]


def trace(error: str, line: int = 9) -> str:
    return f'Traceback (most recent call last):\n  File "/r/app.py", line {line}, in main\n    run()\n{error}'


def summary(failed: int, passed: int) -> str:
    names = "".join(f"FAILED tests/test_app.py::test_{n} - AssertionError: totals differ\n" for n in range(failed))
    return names + (f"{failed} failed, {passed} passed in 0.{failed}2s" if failed else f"{passed} passed in 0.31s")


def missing(name: str) -> str:
    return trace(f"ModuleNotFoundError: No module named '{name}'")


CHECKED_LISTS: dict[str, list[MadeCall]] = {
    "packages": [mini_swe_agent(f"pip show {name}", f"WARNING: Package(s) not found: {name}", 1) for name in NAMES[:7]],
    "usernames": [("check_username", {"name": name}, '{"taken": false, "matches": []}') for name in NAMES],
    "customers": [("find_customer", {"email": f"{name}@example.com"}, "[]") for name in NAMES[:5]],
    "files that must not exist": [
        codex_exec(f"ls build/{name}.o 2>/dev/null || echo absent", "absent") for name in NAMES
    ],
    "rows": [("execute_sql", {"query": f"select count(*) from {name}"}, '[{"count": 0}]') for name in NAMES],
    "pages with a form": [
        ("browser_navigate", {"url": f"/form/{name}"}, f"Page {name}: an empty form") for name in NAMES
    ],
}

POLLING: dict[str, list[MadeCall]] = {
    "gh run": [
        claude_code("sleep 30; gh run view 17 --json status", f'{{"status":"in_progress","step":{n}}}')
        for n in range(12)
    ],
    "a log": [
        mini_swe_agent("sleep 20; tail -1 build.log", f"[{n * 3}%] Building CXX object {n}.o") for n in range(15)
    ],
    "BashOutput": [
        ("BashOutput", {"bash_id": "b1"}, f"<status>running</status>\n<stdout>epoch {n} done</stdout>")
        for n in range(10)
    ],
    "write_stdin": [
        (
            "write_stdin",
            {"session_id": 3, "chars": ""},
            f"Wall time: 9.9 seconds\nProcess running with session ID 3\nOutput:\nunit {n} built",
        )
        for n in range(10)
    ],
    "a stated wait": [
        ("get_job", {"id": 7}, json.dumps({"state": "queued", "position": 9 - n, "retry_after": 10})) for n in range(9)
    ],
    "a pod that comes up": [
        codex_exec(f"sleep {n + 5}; kubectl get pods", f"web-7 {state}")
        for n, state in enumerate(("Pending", "ContainerCreating", "Running", "Running 1/1"))
    ],
    "a server that comes up": [
        *[openhands("sleep 2; curl -s localhost:80", "curl: (7) Connection refused", 7)] * 2,
        openhands("sleep 2; curl -s localhost:80", "ok"),
    ],
}

PAGES: dict[str, list[MadeCall]] = {
    "an API": [("list_orders", {"page": n}, json.dumps([{"id": n * 10 + m} for m in range(9)])) for n in range(20)],
    "a file in parts": [
        ("Read", {"file_path": "/r/a.py", "offset": 1 + n * 100, "limit": 100}, f"{n}: text of part {n}\nmore of {n}")
        for n in range(20)
    ],
    "sed in parts": [
        mini_swe_agent(f"sed -n '{1 + n * 50},{50 + n * 50}p' a.py", f"def part_{n}():\n    return {n}")
        for n in range(20)
    ],
    "a cursor": [
        ("search_issues", {"query": "is:open", "cursor": f"c{n}"}, f"issue {n * 2}\nissue {n * 2 + 1}")
        for n in range(12)
    ],
    "scrolling": [("browser_scroll", {"direction": "down"}, f"row {n * 5} to {n * 5 + 4}") for n in range(15)],
    "overlapping views": [
        (
            "str_replace_editor",
            {"command": "view", "path": "/r/a.py", "view_range": [1 + n * 40, 60 + n * 40]},
            "\n".join(f"{m}\tvalue_{m}" for m in range(1 + n * 40, 60 + n * 40)),
        )
        for n in range(10)
    ],
}

TESTS_THAT_MOVE: dict[str, list[MadeCall]] = {
    "falling counts": woven(
        edits(10), [claude_code("pytest -q", summary(9 - n, 20 + n), int(n < 9)) for n in range(10)]
    ),
    "the failing line moves on": woven(
        edits(6),
        [openhands("python repro.py", trace(f"AttributeError: no attribute 'step_{n}'", 10 + n), 1) for n in range(6)],
    ),
    "another test each time": woven(
        edits(6),
        [
            codex_json(
                "pytest -x -q", f"FAILED tests/test_a.py::test_{n} - assert {n} == 0\n1 failed, {n} passed in 0.1s", 1
            )
            for n in range(6)
        ],
    ),
    "jest": woven(
        edits(6, "/r/a.ts"),
        [gemini_cli("npx jest", f"Tests:       {6 - n} failed, {10 + n} passed, 16 total", 1) for n in range(6)],
    ),
    "go": woven(
        edits(5, "/r/a.go"),
        [
            cursor("go test ./...", "".join(f"--- FAIL: Test{m} (0.00s)\n" for m in range(n, 6)) + "FAIL", 1)
            for n in range(5)
        ],
    ),
    "compiler errors": woven(
        patches(6),
        [
            codex_json(
                "cargo build",
                f"error[E0425]: cannot find value `x{n}` in this scope\n  --> src/lib.rs:{n}:5\n   |",
                101,
            )
            for n in range(6)
        ],
    ),
    "red, green": woven(
        edits(8),
        [
            cline("npm test", f"Tests:       {n % 2} failed, {10 + n // 2} passed, {10 + n // 2 + n % 2} total", n % 2)
            for n in range(8)
        ],
    ),
    "more tests are written": woven(
        edits(6, "/r/tests/test_a.py"), [claude_code("pytest -q", f"{12 + n} passed in 0.31s") for n in range(6)]
    ),
}

CHECKS_AFTER_EDITS: dict[str, list[MadeCall]] = {
    "lint": woven(edits(10), [claude_code("ruff check .", "All checks passed!")] * 10),
    "type check": woven(edits(10, "/r/a.ts"), [codex_exec("npx tsc --noEmit", "")] * 10),
    "git status": woven(edits(10), [mini_swe_agent("git status --short", " M app.py")] * 10),
    "git diff": woven(edits(6), [openhands("git diff --stat", " app.py | 2 +-\n 1 file changed")] * 6),
    "the file again": woven(edits(8), [("Read", {"file_path": "/r/app.py"}, "the text of the file")] * 8),
    "the same green tests": woven(
        patches(10), [codex_json("cargo test", "test result: ok. 9 passed; 0 failed; 0 ignored")] * 10
    ),
    "to-dos": woven(
        edits(8),
        [("TodoWrite", {"todos": [{"content": "x", "status": "done"}]}, "Todos have been modified successfully.")] * 8,
    ),
    "a view after each edit": woven(
        [
            (
                "str_replace_editor",
                {"command": "str_replace", "path": "/r/a.py", "old_str": f"a{n}", "new_str": f"b{n}"},
                "The file has been edited.",
            )
            for n in range(8)
        ],
        [("str_replace_editor", {"command": "view", "path": "/r/a.py", "view_range": [1, 60]}, "the same lines")] * 8,
    ),
    "commits": woven(edits(8), [claude_code(f"git commit -qam 'part {n}'", "") for n in range(8)]),
}

INSTALLING: dict[str, list[MadeCall]] = {
    "pip": woven(
        [mini_swe_agent("python -m pytest -q", missing(name), 1) for name in NAMES],
        [mini_swe_agent(f"pip install -q {name}", "") for name in NAMES],
    ),
    "npm": woven(
        [gemini_cli("npm run build", f"Error: Cannot find module '{name}'", 1) for name in NAMES],
        [gemini_cli(f"npm install {name}", "added 1 package in 2s") for name in NAMES],
    ),
    "apt": woven(
        [codex_exec("./configure", f"configure: error: {name} not found", 1) for name in NAMES[:5]],
        [codex_exec(f"apt-get install -y lib{name}-dev", f"Setting up lib{name}-dev") for name in NAMES[:5]],
    ),
    "go get": woven(
        [
            cline("go build ./...", f"a.go:3:2: no required module provides package example.com/{name}", 1)
            for name in NAMES[:5]
        ],
        [cline(f"go get example.com/{name}", f"go: added example.com/{name} v1.0.0") for name in NAMES[:5]],
    ),
    "commands": woven(
        [claude_code(f"{name} --version", f"/bin/bash: line 1: {name}: command not found", 127) for name in NAMES[:4]],
        [claude_code(f"brew install {name}", f"{name} installed") for name in NAMES[:4]],
    ),
}

REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, "
    "the new_string was NOT written to the file)."
)
SIBLING = "<tool_use_error>Sibling tool call errored</tool_use_error>"
PEOPLE: dict[str, list[MadeCall]] = {
    "edits refused by the user": [(tool, params, REFUSED) for tool, params, _ in edits(6)],
    "commands refused by the user": [("Bash", {"command": f"rm -rf build{n}"}, REFUSED) for n in range(6)],
    "siblings cancelled": [("Read", {"file_path": f"/r/{n}.py"}, SIBLING) for n in range(6)],
    "questions": [("AskUserQuestion", {"question": f"Which {n}?"}, "The user answered.") for n in range(8)],
    "a plan": [("update_plan", {"plan": [{"step": "x", "status": "in_progress"}]}, "Plan updated") for _ in range(8)],
}

SEARCHING: dict[str, list[MadeCall]] = {
    "words that find": [
        ("Grep", {"pattern": name, "path": "src"}, f"src/{name}.py:3: import {name}") for name in NAMES
    ],
    "nothing left of the old name": woven(
        edits(6), [claude_code(f"grep -rn 'old_name_{n}' src", "", 1) for n in range(6)]
    ),
    "three empty, then found": [
        *(codex_exec(f"rg -n '{name}' src", "", 1) for name in NAMES[:3]),
        codex_exec("rg -n 'jax' src", "src/a.py:1: jax"),
        *(codex_exec(f"rg -n '{name}' docs", "", 1) for name in NAMES[:3]),
    ],
    "other folders": [
        mini_swe_agent(f"find {name} -name '*.py' | head", f"{name}/a.py\n{name}/b.py") for name in NAMES
    ],
    "versions": [gemini_cli(f"npm view {name} version", f"1.{n}.0") for n, name in enumerate(NAMES)],
    "bisecting": [
        mini_swe_agent(
            f"git bisect {'bad' if n % 2 else 'good'}",
            f"Bisecting: {64 >> n} revisions left to test after this\n[{n:07x}] part {n}",
        )
        for n in range(6)
    ],
    "history": [
        swe_agent(f"git show --stat HEAD~{n}", f"commit {n:040x}\n file_{n}.py | {n + 1} +") for n in range(15)
    ],
}

TRYING: dict[str, list[MadeCall]] = {
    "two failures, then success": [
        openhands("python repro.py", trace("TypeError: f() missing 1 argument"), 1),
        edits(1)[0],
        openhands("python repro.py", trace("TypeError: f() missing 1 argument"), 1),
        edits(2)[1],
        openhands("python repro.py", "ok"),
    ],
    "a refused edit and its correction": [
        (
            "Edit",
            {"file_path": "/r/a.py", "old_string": "x", "new_string": "y"},
            "<tool_use_error>String to replace not found in file.</tool_use_error>",
        ),
        ("Read", {"file_path": "/r/a.py"}, "the text"),
        ("Edit", {"file_path": "/r/a.py", "old_string": " x", "new_string": " y"}, "The file has been updated."),
    ]
    * 1,
    "a baseline by git stash": [
        *edits(1),
        claude_code("pytest -q", summary(1, 9), 1),
        claude_code("git stash", "Saved working directory"),
        claude_code("pytest -q", summary(1, 9), 1),
        claude_code("git stash pop", "Dropped refs/stash@{0}"),
        *edits(2, "/r/b.py"),
        claude_code("git stash", "Saved working directory"),
        claude_code("pytest -q tests/b", summary(2, 9), 1),
        claude_code("git stash pop", "Dropped refs/stash@{0}"),
    ],
    "one edit taken back": [
        *edits(1),
        claude_code("git checkout app.py", "Updated 1 path from the index"),
        *edits(3, "/r/b.py"),
    ],
    "an experiment that must fail": [
        mini_swe_agent("echo 'a;;' | lint -", "== [stdin] FAIL", 1),
        mini_swe_agent("echo 'b;;' | lint -", "== [stdin] FAIL", 1),
    ],
    "probes that answer": [
        codex_exec(f"python - <<'EOF'\nimport app\nprint(app.state({n}))\nEOF", f"state {n}: {n * n}") for n in range(9)
    ],
    "parameters": [
        gemini_cli(f"python bench.py --size {n}", f"size {n}: {100 - n} ms, {n * 7} rows") for n in range(9)
    ],
    "a longer traceback each time": [
        mini_swe_agent(
            f"pytest -q --tb={style}",
            "".join(f"frame {style} {m}: value {m * len(style)}\n" for m in range(12)) + summary(1, 9),
            1,
        )
        for style in ("short", "long", "native")
    ],
}

HEALTHY = {
    "lists": CHECKED_LISTS,
    "polling": POLLING,
    "pages": PAGES,
    "tests": TESTS_THAT_MOVE,
    "checks": CHECKS_AFTER_EDITS,
    "installing": INSTALLING,
    "people": PEOPLE,
    "searching": SEARCHING,
    "trying": TRYING,
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, stretches in HEALTHY.items() for name in stretches])
def test_an_agent_that_gets_on_hears_nothing(kind: str, name: str) -> None:
    assert [(call, each.summary) for call, each in nudges_in(HEALTHY[kind][name])] == []


def test_work_of_many_parts_is_never_interrupted() -> None:
    parts = [
        call
        for kind in ("pages", "tests", "checks", "installing")
        for calls in HEALTHY[kind].values()
        for call in calls
    ]
    assert len(parts) > 300
    nudges = reported(parts)
    assert nudges == []
