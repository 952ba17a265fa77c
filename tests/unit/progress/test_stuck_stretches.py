"""Stretches in which an agent gets nowhere, as agents of many programs show them: each is reported within three calls.

Each entry has the calls and the one at which a careful reader has seen enough, by `benchmarks/labels/RULES.md`.
"""

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
    swe_agent,
    woven,
)

Stretch = tuple[list[MadeCall], int]
IN_TIME = 3


def trace(error: str, line: int = 9, path: str = "/r/app.py") -> str:
    return f'Traceback (most recent call last):\n  File "{path}", line {line}, in main\n    run()\n{error}'


def str_replace(n: int, path: str = "/r/app.py", said: str = "The file /r/app.py has been edited.") -> MadeCall:
    params: dict[str, object] = {"command": "str_replace", "path": path, "old_str": f"a{n}", "new_str": f"b{n}"}
    return "str_replace_editor", params, said


def claude_edit(n: int, path: str = "/r/app.py", said: str = "") -> MadeCall:
    params: dict[str, object] = {"file_path": path, "old_string": f"a{n}", "new_string": f"b{n}"}
    return "Edit", params, said or f"The file {path} has been updated."


def apply_patch(n: int | str, path: str = "app.py", old: str = "old") -> MadeCall:
    patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{n}\n*** End Patch"
    return "apply_patch", {"input": patch}, json.dumps({"output": f"Success. Updated the following files:\nM {path}"})


def gemini_replace(n: int, path: str = "/r/app.ts") -> MadeCall:
    params: dict[str, object] = {
        "file_path": path,
        "old_string": f"a{n}",
        "new_string": f"b{n}",
        "instruction": f"i{n}",
    }
    return "replace", params, f"Successfully modified file: {path} (1 replacements)."


def cline_replace(n: int, path: str = "src/app.ts") -> MadeCall:
    diff = f"<<<<<<< SEARCH\na{n}\n=======\nb{n}\n>>>>>>> REPLACE"
    return "replace_in_file", {"path": path, "diff": diff}, f"The content was successfully saved to {path}."


def cursor_edit(n: int, path: str = "src/app.go") -> MadeCall:
    params: dict[str, object] = {
        "target_file": path,
        "instructions": f"step {n}",
        "code_edit": f"// ...\nx = {n}\n// ...",
    }
    return "edit_file", params, f"The apply model made the following changes to the file:\n+x = {n}"


def aider_block(n: int) -> MadeCall:
    return "write_file", {"path": "app.rb", "content": f"puts {n}\n"}, "Applied edit to app.rb"


FIELD = trace("django.core.exceptions.FieldError: Cannot resolve keyword 'x' into field. Choices are: id")
JEST = (
    "FAIL src/app.test.ts\n  ● totals > adds\n\n    expect(received).toBe(expected)\n\n"
    "Tests:       1 failed, 8 passed, 9 total\nTime:        {}.{} s"
)
GO = "--- FAIL: TestTotals (0.0{}s)\n    app_test.go:31: got 4, want 5\nFAIL\nFAIL\texample.com/app\t0.01{}s\nFAIL"
CARGO = (
    "error[E0308]: mismatched types\n  --> src/lib.rs:{}:5\n   |\n"
    "error: could not compile `app` (lib) due to 1 previous error"
)
RSPEC = (
    "Failures:\n\n  1) Order totals\n     expected: 5\n          got: 4\n\nFinished in 0.{}2 seconds\n"
    "9 examples, 1 failure\n\nrspec ./spec/order_spec.rb:3 # Order totals"
)
MAVEN = (
    "[ERROR] Tests run: 4, Failures: 1, Errors: 0, Skipped: 0\n"
    "[ERROR]   OrderTest.totals:31 expected:<5> but was:<4>\n[INFO] Total time:  {}.2 s\n"
    "[INFO] BUILD FAILURE"
)
PYTEST = "FAILED tests/test_app.py::test_total - AssertionError: assert 4 == 5\n1 failed, 11 passed in 0.{}1s"
UNITTEST = (
    "FAIL: test_total (app.tests.TotalTests)\nAssertionError: 4 != 5\nRan 12 tests in 0.{}31s\n\nFAILED (failures=1)"
)
DOTNET = (
    "  Failed App.Tests.Totals [{} ms]\n  Error Message:\n   Assert.Equal() Failure\n"
    "Failed!  - Failed:     1, Passed:     8, Skipped:     0, Total:     9, Duration: {} ms - App.Tests.dll (net8.0)"
)

NO_BLOCK = (
    "The tool execution failed with the following error:\n<error>\n"
    "The SEARCH block:\na\n...does not match anything in the file.\n</error>"
)

SAME_COMMAND: dict[str, Stretch] = {
    "flags of a script": (
        [
            openhands("python repro.py", FIELD, 1),
            openhands("cd /w && python3 repro.py 2>&1", FIELD, 1),
            openhands("cd /w && timeout 60 env DEBUG=1 python repro.py 2>&1 | tail -5", FIELD, 0),
            openhands("python -X dev repro.py", FIELD, 1),
        ],
        3,
    ),
    "ssh with other flags": (
        [
            codex_exec(f"ssh {flags} deploy@10.0.0.7 uptime", "deploy@10.0.0.7: Permission denied (publickey).", 255)
            for flags in ("", "-v", "-o StrictHostKeyChecking=no", "-i ~/.ssh/id_rsa", "-p 22")
        ],
        3,
    ),
    "npm with other flags": (
        [
            gemini_cli(line, "npm ERR! code ERESOLVE\nnpm ERR! ERESOLVE unable to resolve dependency tree", 1)
            for line in (
                "npm install",
                "npm i --verbose",
                "npm install --no-audit --no-fund",
                "npm install --loglevel=info",
            )
        ],
        3,
    ),
    "make": (
        [
            cline(line, "src/a.c:4:2: error: expected ';' before 'return'\nmake: *** [Makefile:9: a.o] Error 1", 2)
            for line in ("make", "make -j4", "make V=1", "make all 2>&1")
        ],
        3,
    ),
    "one test by other options": (
        [
            mini_swe_agent(line, PYTEST.format(n), int("|" not in line))
            for n, line in enumerate(
                (
                    "cd /testbed && python -m pytest tests/test_app.py -q",
                    "cd /testbed && pytest -x tests/test_app.py::test_total",
                    "cd /testbed && python -m pytest -p no:cacheprovider tests/test_app.py 2>&1 | tail -20",
                    "cd /testbed && python -m pytest tests/test_app.py -q --tb=line",
                )
            )
        ],
        4,
    ),
    "PowerShell": (
        [
            (
                "powershell",
                {"command": line},
                (
                    "dotnet : The term 'dotnet' is not recognized as the name of a cmdlet, "
                    "function, script file, or operable program.\nAt line:1 char:1"
                ),
            )
            for line in ("dotnet build", "dotnet build -v n", "cd C:\\src; dotnet build", "& dotnet build")
        ],
        3,
    ),
    "curl": (
        [
            claude_code(line, "curl: (7) Failed to connect to localhost port 8080: Connection refused", 7)
            for line in (
                "curl localhost:8080/health",
                "curl -s http://localhost:8080/health",
                "curl -v localhost:8080/health",
                "curl --retry 2 localhost:8080/health",
            )
        ],
        3,
    ),
}

EDIT_TEST: dict[str, Stretch] = {
    "OpenHands, Django": (
        woven(
            [str_replace(n) for n in range(4)],
            [openhands("./tests/runtests.py app", UNITTEST.format(n), 1) for n in range(4)],
        ),
        6,
    ),
    "Claude Code, jest": (
        woven(
            [claude_edit(n, "/r/app.ts") for n in range(4)],
            [claude_code("npx jest src/app", JEST.format(n, n), 1) for n in range(4)],
        ),
        6,
    ),
    "Codex, cargo": (
        woven(
            [apply_patch(n, "src/lib.rs") for n in range(4)],
            [codex_json("cargo build", CARGO.format(30 + n), 101) for n in range(4)],
        ),
        6,
    ),
    "Cursor, go": (
        woven([cursor_edit(n) for n in range(4)], [cursor("go test ./...", GO.format(n, n), 1) for n in range(4)]),
        6,
    ),
    "Gemini, maven": (
        woven(
            [gemini_replace(n, "/r/Order.java") for n in range(4)],
            [gemini_cli("mvn -q test", MAVEN.format(n), 1) for n in range(4)],
        ),
        6,
    ),
    "aider, rspec": (
        woven([aider_block(n) for n in range(4)], [cline("bundle exec rspec", RSPEC.format(n), 1) for n in range(4)]),
        6,
    ),
    "mini-swe-agent, sed": (
        woven(
            [mini_swe_agent(f"sed -i '{n + 3}s/a/b{n}/' app.py", "") for n in range(4)],
            [
                mini_swe_agent("python -m pytest -q tests/test_app.py 2>&1 | tail -5", PYTEST.format(n), 0)
                for n in range(4)
            ],
        ),
        6,
    ),
    "SWE-agent, a script": (
        woven(
            [
                ("edit", {"path": "app.py", "text": f"x = {n}"}, "[File: app.py (90 lines total)]\n(Open file: app.py)")
                for n in range(4)
            ],
            [
                swe_agent(
                    "python reproduce.py", trace("ValueError: not enough values to unpack (expected 2, got 1)", 9 + n)
                )
                for n in range(4)
            ],
        ),
        6,
    ),
    "dotnet": (
        woven(
            [claude_edit(n, "/r/Order.cs") for n in range(4)],
            [claude_code("dotnet test", DOTNET.format(n, n * 7), 1) for n in range(4)],
        ),
        6,
    ),
    "a new script each time": (
        woven(
            [claude_edit(n) for n in range(4)],
            [codex_exec(f"python /tmp/check{n}.py", trace("KeyError: 'indexes'", 40), 1) for n in range(4)],
        ),
        6,
    ),
    "reads between": (
        woven(
            [claude_edit(n) for n in range(4)],
            [("Read", {"file_path": f"/r/m{n}.py"}, f"class Model{n}:\n    value_{n} = {n}") for n in range(4)],
            [claude_code("pytest -q", PYTEST.format(n), 1) for n in range(4)],
        ),
        9,
    ),
}

UNDONE: dict[str, Stretch] = {
    "git checkout": (
        [
            mini_swe_agent("sed -i 's/x/y/' app.py"),
            mini_swe_agent("pytest -q", PYTEST.format(1), 1),
            mini_swe_agent("git checkout app.py", "Updated 1 path from the index"),
            mini_swe_agent("sed -i 's/x/z/' app.py"),
            mini_swe_agent("pytest -q", PYTEST.format(2), 1),
            mini_swe_agent("git checkout -- app.py", "Updated 1 path from the index"),
        ],
        6,
    ),
    "git restore by Codex": (
        [apply_patch(1), codex_exec("git restore app.py"), apply_patch(2), codex_exec("git restore -- app.py")],
        4,
    ),
    "there and back": (
        [
            claude_edit(1),
            ("Edit", {"file_path": "/r/app.py", "old_string": "b1", "new_string": "a1"}, "updated"),
            claude_edit(1),
        ],
        3,
    ),
    "apply_patch there and back": (
        [apply_patch("new", old="old"), apply_patch("old", old="new"), apply_patch("new", old="old")],
        3,
    ),
    "git stash": (
        [
            str_replace(1),
            openhands("git stash", "Saved working directory and index state WIP on main"),
            str_replace(2),
            openhands("git stash", "Saved working directory and index state WIP on main"),
            str_replace(3),
            openhands("git stash drop; git checkout .", "Dropped refs/stash@{0}"),
        ],
        4,
    ),
    "undo_edit": (
        [
            str_replace(1),
            ("str_replace_editor", {"command": "undo_edit", "path": "/r/app.py"}, "Last edit undone."),
            str_replace(2),
            ("str_replace_editor", {"command": "undo_edit", "path": "/r/app.py"}, "Last edit undone."),
        ],
        4,
    ),
    "a backup": (
        [
            gemini_cli("cp app.py app.py.bak"),
            gemini_replace(1, "app.py"),
            gemini_cli("cp app.py.bak app.py"),
            gemini_replace(2, "app.py"),
            gemini_cli("mv app.py.bak app.py"),
        ],
        5,
    ),
    "the whole file written twice over": (
        [
            ("Write", {"file_path": "/r/a.py", "content": text}, "File written.")
            for text in ("one\n", "two\n", "one\n", "two\n", "one\n")
        ],
        5,
    ),
}

ALTERNATING: dict[str, Stretch] = {
    "two listings": ([mini_swe_agent("ls src", "a.py"), mini_swe_agent("ls tests", "b.py")] * 3, 4),
    "two tabs": (
        [
            ("browser_click", {"ref": "tab1"}, "Tab 1 is open: 3 items"),
            ("browser_click", {"ref": "tab2"}, "Tab 2 is open: no items"),
        ]
        * 3,
        4,
    ),
    "two files": (
        [("Read", {"file_path": "/r/a.py"}, "import b"), ("Read", {"file_path": "/r/b.py"}, "import a")] * 3,
        4,
    ),
    "two queries": (
        [("mcp__db__query", {"sql": "select * from a"}, "[]"), ("mcp__db__query", {"sql": "select * from b"}, "3 rows")]
        * 3,
        4,
    ),
    "two commands of Codex": ([codex_exec("node -v", "v18.2.0"), codex_exec("npm -v", "9.1.0")] * 3, 4),
    "two pages": (
        [("browser_navigate", {"url": "/a"}, "Page A"), ("browser_navigate", {"url": "/b"}, "Page B")] * 3,
        4,
    ),
}


def lines(first: int, last: int) -> str:
    return "\n".join(f"{n}\tvalue_{n} = compute({n})" for n in range(first, min(last, first + 60) + 1))


SAME_READ: dict[str, Stretch] = {
    "sed with shifting ranges": (
        [mini_swe_agent(f"sed -n '{100 + n},{160 + n}p' /testbed/a.py", lines(100 + n, 160 + n)) for n in range(6)],
        3,
    ),
    "other programs": (
        [
            cline(line, lines(1, 50))
            for line in (
                "head -50 a.py",
                "cat a.py | head -n 50",
                "sed -n 1,50p a.py",
                "nl -ba a.py | sed -n 1,50p",
                "awk 'NR<=50' a.py",
            )
        ],
        3,
    ),
    "view_range": (
        [
            (
                "str_replace_editor",
                {"command": "view", "path": "/r/a.py", "view_range": [10 + n, 60]},
                lines(10 + n, 60),
            )
            for n in range(5)
        ],
        3,
    ),
    "Read with offsets": (
        [
            ("Read", {"file_path": "/r/a.py", "offset": 10 + 2 * n, "limit": 50}, lines(10 + 2 * n, 60))
            for n in range(5)
        ],
        3,
    ),
    "Cursor's read_file": (
        [
            (
                "read_file",
                {
                    "target_file": "a.go",
                    "start_line_one_indexed": 1 + n,
                    "end_line_one_indexed_inclusive": 60,
                    "should_read_entire_file": False,
                },
                lines(1 + n, 60),
            )
            for n in range(5)
        ],
        3,
    ),
    "Gemini's read_file": (
        [("read_file", {"absolute_path": "/r/a.ts", "offset": n, "limit": 60}, lines(1 + n, 60 + n)) for n in range(5)],
        3,
    ),
    "the whole file": ([("read_file", {"path": "src/a.ts"}, lines(1, 50))] * 5, 3),
    "PowerShell": (
        [("powershell", {"command": f"Get-Content a.ps1 -TotalCount {50 + n}"}, lines(1, 50 + n)) for n in range(5)],
        3,
    ),
}

WORDS = ("handler", "Handler", "onRequest", "request_handler", "dispatch", "route", "entry_point", "serve")
EMPTY: dict[str, Stretch] = {
    "grep": ([mini_swe_agent(f"grep -rn '{word}' src", "", 1) for word in WORDS], 4),
    "rg by Codex": ([codex_exec(f"rg -n '{word}' src", "", 1) for word in WORDS], 4),
    "Claude Code's Grep": ([("Grep", {"pattern": word, "path": "src"}, "No matches found") for word in WORDS], 4),
    "Gemini's": (
        [
            (
                "search_file_content",
                {"pattern": word},
                f'No matches found for pattern "{word}" in the workspace directory.',
            )
            for word in WORDS
        ],
        4,
    ),
    "Cline's": ([("search_files", {"path": "src", "regex": word}, "Found 0 results.") for word in WORDS], 4),
    "Cursor's": ([("grep_search", {"query": word, "explanation": word}, "No matches found.") for word in WORDS], 4),
    "find": ([openhands(f"find . -name '*{word}*'", "") for word in WORDS], 4),
    "the web": ([("web_search", {"query": f"acme {word} api"}, json.dumps({"results": []})) for word in WORDS], 4),
    "moatless": (
        [("FindFunction", {"function_name": word}, f"No functions found with the name {word}") for word in WORDS],
        4,
    ),
}


def failures(failed: int, total: int = 20) -> str:
    names = "".join(f"FAILED tests/test_app.py::test_{n} - E{n}: x\n" for n in range(failed))
    return f"{names}{failed} failed, {total - failed} passed in 0.2s"


WORSE: dict[str, Stretch] = {
    "pytest": (
        woven([claude_edit(n) for n in range(3)], [claude_code("pytest -q", failures(n), 1) for n in (1, 3, 6)]),
        6,
    ),
    "jest": (
        woven(
            [gemini_replace(n) for n in range(3)],
            [gemini_cli("npm test", f"Tests:       {n} failed, {20 - n} passed, 20 total", 1) for n in (2, 4, 5)],
        ),
        6,
    ),
    "go": (
        woven(
            [cursor_edit(n) for n in range(3)],
            [
                cursor(
                    "go test ./...",
                    "".join(f"--- FAIL: Test{m} (0.00s)\n" for m in range(n))
                    + "".join(f"--- PASS: Test{m} (0.00s)\n" for m in range(n, 12))
                    + "FAIL",
                    1,
                )
                for n in (1, 2, 5)
            ],
        ),
        6,
    ),
    "cargo": (
        woven(
            [apply_patch(n, "src/lib.rs") for n in range(3)],
            [
                codex_json("cargo test", f"test result: FAILED. {30 - n} passed; {n} failed; 0 ignored", 101)
                for n in (1, 2, 4)
            ],
        ),
        6,
    ),
    "phpunit": (
        woven(
            [str_replace(n) for n in range(3)],
            [openhands("vendor/bin/phpunit", f"Tests: 20, Assertions: 44, Failures: {n}.", 1) for n in (1, 3, 4)],
        ),
        6,
    ),
    "type errors": (
        woven(
            [claude_edit(n, "/r/a.ts") for n in range(3)],
            [
                claude_code(
                    "npx tsc --noEmit",
                    "\n".join(f"src/a.ts({m},1): error TS2304: Cannot find name 'x{m}'." for m in range(n))
                    + f"\nFound {n} errors.",
                    2,
                )
                for n in (2, 9, 31)
            ],
        ),
        6,
    ),
}

TOOL_FAILS: dict[str, Stretch] = {
    "an MCP server": (
        [("mcp__jira__get_issue", {"id": f"P-{n}"}, "MCP error -32000: Connection closed") for n in range(5)],
        3,
    ),
    "a browser": (
        [
            (
                "browser_navigate",
                {"url": f"https://a/{n}"},
                "Error: Browser is already in use for /home/u/.cache/ms-playwright, use --isolated",
            )
            for n in range(5)
        ],
        3,
    ),
    "edits refused": (
        [
            str_replace(n, said="No replacement was performed, old_str `a` did not appear verbatim in /r/app.py.")
            for n in range(5)
        ],
        3,
    ),
    "Cline's diffs": (
        [
            (
                "replace_in_file",
                {"path": "a.ts", "diff": f"<<<<<<< SEARCH\na{n}\n=======\nb\n>>>>>>> REPLACE"},
                NO_BLOCK,
            )
            for n in range(5)
        ],
        3,
    ),
    "SQL": (
        [("execute_sql", {"query": f"select {n} from t"}, 'ERROR: relation "t" does not exist') for n in range(5)],
        3,
    ),
    "docker": (
        [
            claude_code(
                f"docker {verb}",
                "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
                1,
            )
            for verb in ("ps", "info", "compose up -d", "run hello-world", "images")
        ],
        3,
    ),
    "apply_patch": (
        [
            (
                "apply_patch",
                {"input": f"*** Begin Patch\n*** Update File: a.py\n-x{n}\n+y\n*** End Patch"},
                "apply_patch verification failed: Failed to find expected lines in a.py",
            )
            for n in range(5)
        ],
        3,
    ),
}

DEAD: dict[str, Stretch] = {
    "a server that ended": (
        [
            claude_code(
                "sleep 5 && curl -s localhost:3000",
                "curl: (7) Failed to connect to localhost port 3000: Connection refused",
                7,
            )
        ]
        * 4,
        3,
    ),
    "BashOutput": (
        [
            (
                "BashOutput",
                {"bash_id": "bash_1"},
                f"<status>killed</status>\n\n<timestamp>2026-01-01T10:0{n}:00Z</timestamp>",
            )
            for n in range(5)
        ],
        3,
    ),
    "write_stdin": (
        [
            (
                "write_stdin",
                {"session_id": 7, "chars": ""},
                f"Wall time: {n}.0 seconds\nProcess exited with code 137\nOutput:\n",
            )
            for n in range(5)
        ],
        3,
    ),
    "a log that stands still": (
        [mini_swe_agent(f"sleep {30 + n}; tail -1 build.log", "error: linker killed by signal 9") for n in range(5)],
        3,
    ),
    "a process id": ([openhands("sleep 10; ps -p 4242", "    PID TTY          TIME CMD", 1)] * 5, 3),
    "a container": (
        [codex_exec(f"sleep {n + 5}; docker inspect -f '{{{{.State.Status}}}}' web", "exited") for n in range(5)],
        3,
    ),
    "a deployment": (
        [
            ("wait_for_deployment", {"id": "d1", "seconds": 30 + n}, '{"state": "failed", "error": "image not found"}')
            for n in range(5)
        ],
        3,
    ),
}

AFTER_DONE: dict[str, Stretch] = {
    "mini-swe-agent": (
        [
            mini_swe_agent("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
            *(mini_swe_agent(f"cat f{n}.py", f"text {n}") for n in range(5)),
        ],
        4,
    ),
    "SWE-agent": (
        [("submit", {}, "diff --git a/x b/x"), *(swe_agent(f"cat f{n}.py", f"text {n}") for n in range(5))],
        4,
    ),
    "OpenHands": (
        [("finish", {"message": "Done."}, ""), *(openhands(f"cat f{n}.py", f"text {n}") for n in range(5))],
        4,
    ),
    "Cline": (
        [("attempt_completion", {"result": "Done."}, ""), *(cline(f"cat f{n}.ts", f"text {n}") for n in range(5))],
        4,
    ),
    "the same green run": (
        [
            claude_edit(1),
            *(claude_code(f"pytest -q {flag}", "12 passed in 0.31s") for flag in ("", "-v", "-x", "--tb=short", "-q")),
        ],
        4,
    ),
}


def repeated_check(n: int) -> MadeCall:
    return mini_swe_agent(
        ("ls src", "git status --short", "cat a.py", "git diff --stat")[n % 4],
        ("a.py b.py", "M a.py", lines(1, 9), "a.py | 2 +-")[n % 4],
    )


NO_NEWS: dict[str, Stretch] = {
    "the same four looks": ([repeated_check(n) for n in range(14)], 8),
    "searches that find the same": (
        [
            mini_swe_agent(
                f"grep -rn 'handle.*{n}\\|def' src",
                "\n".join(f"src/part{(n + m) % 9}.py: def handle_{(n + m) % 9}(request)" for m in range(9)),
            )
            for n in range(13)
        ],
        8,
    ),
    "a page that stays": (
        [
            ("browser_snapshot", {"depth": n % 3}, "- heading: Sign in\n- textbox: Email address\n- button: Continue")
            for n in range(13)
        ],
        7,
    ),
    "Grep in other modes": (
        [
            (
                "Grep",
                {"pattern": "def total", "path": "src", "-C": n},
                "src/a.py:3:def total(self):\nsrc/b.py:9:def total(self, tax):",
            )
            for n in range(13)
        ],
        8,
    ),
    "SQL that shows the same rows": (
        [
            (
                "query",
                {"sql": f"select * from orders limit {n + 5}"},
                "order 1001 | paid | 42.00\norder 1002 | open | 17.50",
            )
            for n in range(13)
        ],
        8,
    ),
}

STUCK = {
    "same command": SAME_COMMAND,
    "edit and test": EDIT_TEST,
    "undone": UNDONE,
    "alternating": ALTERNATING,
    "same read": SAME_READ,
    "empty": EMPTY,
    "worse": WORSE,
    "tool fails": TOOL_FAILS,
    "dead": DEAD,
    "after done": AFTER_DONE,
    "no news": NO_NEWS,
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, stretches in STUCK.items() for name in stretches])
def test_a_stretch_in_which_nothing_moves_is_reported_in_time(kind: str, name: str) -> None:
    calls, enough = STUCK[kind][name]
    nudges = nudges_in(calls[: enough + IN_TIME])
    assert nudges, f"nothing within {IN_TIME} calls of call {enough}"
    assert all(call >= enough - 1 for call, _ in nudges), [call for call, _ in nudges]
