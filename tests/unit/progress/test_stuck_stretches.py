"""Work that gets nowhere, as agents of many programs show it: runs, edits and tests that come out the same or worse.

Each entry has the calls and the one at which a careful reader has seen enough, by `benchmarks/labels/RULES.md`.
"""

from __future__ import annotations

import pytest

from tests.support.dialects import (
    claude_code,
    cline,
    codex_exec,
    codex_json,
    cursor,
    gemini_cli,
    mini_swe_agent,
    openhands,
    swe_agent,
    woven,
)
from tests.support.stretches import (
    Stretch,
    aider_block,
    apply_patch,
    check_reported_in_time,
    claude_edit,
    cursor_edit,
    gemini_replace,
    str_replace,
)


def trace(error: str, line: int = 9, path: str = "/r/app.py") -> str:
    return f'Traceback (most recent call last):\n  File "{path}", line {line}, in main\n    run()\n{error}'


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


STUCK = {
    "same command": SAME_COMMAND,
    "edit and test": EDIT_TEST,
    "undone": UNDONE,
    "worse": WORSE,
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, stretches in STUCK.items() for name in stretches])
def test_a_stretch_in_which_nothing_moves_is_reported_in_time(kind: str, name: str) -> None:
    check_reported_in_time(STUCK[kind][name])
