"""The names of failures of programs, and reports of hosts, in forms that any program may have."""

from __future__ import annotations

import json

import pytest

from tellback.guidance.observations.classify import classify
from tellback.guidance.observations.evidence import Finding, verdict_of
from tellback.guidance.observations.evidence_builder import build_evidence
from tests.support.dialects import SHELLS, Shell, antigravity, codex_json, swe_agent

WITH_CODES = [shell for shell in SHELLS if shell not in (antigravity, swe_agent)]


def judged(tool: str, params: dict[str, object], result: object) -> Finding:
    return classify(build_evidence(tool, params, result, None), {})


def ran(command: str, text: str) -> Finding:
    return judged("Bash", {"command": command}, text)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("date -d frob", "date: invalid date 'frob'"),
        ("curl --frobx x", "curl: option --frobx: is unknown\ncurl: try 'curl --help' for more information"),
        ("python3 -c 'f(1)' 2>&1 | tail -3", "    return f(n+1)\n           ^^^^^^\nRecursionError: too deep"),
    ],
)
def test_what_a_harness_writes_below_an_output_hides_no_failure(command: str, said: str) -> None:
    """Requirement G-371."""
    footer = "\n(Open file: n/a)\n(Current directory: /repo)\nbash-$"
    assert verdict_of(ran(command, said + footer).code) == "failure"
    tool, params, result = swe_agent(command, said)
    assert verdict_of(judged(tool, params, result).code) == "failure"


def test_the_line_of_openhands_with_the_code_is_no_part_of_an_output() -> None:
    """Requirement G-371."""
    said = "    return f(n+1)\n           ^^^^^^\nRecursionError: too deep"
    below = "\n[The command completed with exit code 0.]\n[Current working directory: /w]"
    below += "\n[Command finished with exit code 0]"
    found = judged("execute_bash", {"command": "python3 a.py 2>&1 | tail -3"}, said + below)
    assert (found.code, found.message) == ("error", "RecursionError: too deep")


@pytest.mark.parametrize(
    "text",
    [
        "pg_ctl: cannot be run as root\nPlease log in as the user that will own the server process.",
        "An error has occurred: FatalError: git failed.\nCheck the log at /tmp/x.log",
        "the build took a turn\nfor the worse",
    ],
)
def test_a_failure_that_a_protocol_reports_beside_a_command_is_one(text: str) -> None:
    """Requirement G-372."""
    reported = {"content": [{"type": "text", "text": text}], "isError": True}
    assert judged("mcp__shell__run", {"command": "./start.sh"}, reported).code == "error"
    reported["isError"] = False
    assert judged("mcp__shell__run", {"command": "./start.sh"}, reported).code == "ok"


@pytest.mark.parametrize("shell", WITH_CODES)
def test_a_failure_with_an_exit_code_is_named_by_its_line(shell: Shell) -> None:
    """Requirement G-373."""
    said = "Reading configuration\nLinking modules\nwidgetc: cannot open profile 'fast'"
    tool, params, result = shell("widgetc build", said, 1)
    assert judged(tool, params, result).message == "widgetc: cannot open profile 'fast'"


def test_a_failure_without_a_line_is_named_by_its_output_and_not_by_the_record_around_it() -> None:
    """Requirement G-373."""
    tool, params, result = codex_json("./go", "all of it\nwas odd", 3)
    assert judged(tool, params, result).message == "all of it\nwas odd"


@pytest.mark.parametrize(
    ("command", "text", "name"),
    [
        (
            "perl -MNope -e 1",
            "Can't locate Nope.pm in @INC (@INC contains: /etc/perl).\nBEGIN failed--compilation aborted.",
            "Can't locate Nope.pm in @INC",
        ),
        (
            "mix test",
            (
                '    error: undefined variable "x"\n  6 |     x\n    |     ^\n== Compilation error in file a.exs ==\n'
                "** (CompileError) a.exs: cannot compile module A (errors have been logged)"
            ),
            'error: undefined variable "x"',
        ),
        (
            "gpg --decrypt a.gpg",
            "gpg: no valid data found: No such file or directory\ngpg: decrypt failed: No such file or directory",
            "gpg: no valid data found",
        ),
        (
            "cabal build",
            "src/A.hs:2:10: error:\n    • Variable not in scope: f\n",
            "src/A.hs:2:10: error: • Variable not",
        ),
        (
            "forge build",
            "Error (9755): Wrong argument count.\n    --> src/A.sol:6:3:\n     |\n6053 | f(\nError: Compilation failed",
            "Error (9755): Wrong argument count.",
        ),
        (
            "flask run",
            "Usage: flask run [OPTIONS]\nTry 'flask run --help' for help.\n\nError: Could not locate an application.",
            "Error: Could not locate an application.",
        ),
        (
            "yq . gone.yml",
            "usage: yq [-h] [--width WIDTH]\n          [files ...]\nyq: error: argument files: can't open 'gone.yml'",
            "yq: error: argument files",
        ),
        (
            "systemctl status x",
            "Not booted with systemd.\nFailed to connect to bus: Host is down",
            "Failed to connect to bus",
        ),
        (
            "pg_ctl status",
            "pg_ctl: cannot be run as root\nPlease log in as another user.",
            "pg_ctl: cannot be run as root",
        ),
        (
            "cmake -B build",
            "-- Detecting\nCMake Error at CMakeLists.txt:3 (find_package):\n  By not providing FindX.cmake",
            "CMake Error at CMakeLists.txt:3 (find_package): By not providing",
        ),
        ("pytest -q gone.py", "\nno tests ran in 0.1s\nERROR: file or directory not found: gone.py", "ERROR: file or"),
        (
            "npx jest --coverage",
            'Jest: Coverage for lines (50%) does not meet "global" threshold (100%)\nTests:       1 passed, 1 total',
            "Jest: Coverage for lines (50%) does not meet",
        ),
        (
            "npx jest",
            (
                "FAIL ./a.test.js\n  ● Test suite failed to run\n\n    Cannot find module './nope' from 'a.test.js'\n\n"
                "Test Suites: 1 failed, 1 total\nTests:       0 total"
            ),
            "0 failed, 1 errors, 0 passed: Cannot find module './nope'",
        ),
        (
            "terraform frob",
            'Terraform has no command named "frob".\n\nTo see all commands, run:\n  x',
            "Terraform has no",
        ),
        (
            "python -m compileall p",
            "***   File \"p/a.py\", line 1\n    x = (1,\n        ^\nSyntaxError: '(' was never closed\n",
            "SyntaxError: '(' was never closed",
        ),
    ],
)
def test_a_line_that_passes_a_reason_on_is_not_named_in_its_place(command: str, text: str, name: str) -> None:
    """Requirement G-374."""
    found = ran(command, text)
    assert (found.code, found.message[: len(name)]) == ("error", name)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (
            "ansible-playbook site.yml",
            (
                "[ERROR]: Task failed: Module failed\nfatal: [a]: FAILED! => {}\n...ignoring\n\n"
                "PLAY RECAP ****\na : ok=1 changed=1 unreachable=0 failed=0 ignored=1"
            ),
        ),
        ("python -m doctest -v m.py | tail -2", "3 passed and 0 failed.\nTest passed."),
        (
            "python -m doctest -v m.py",
            "Expecting:\n    Traceback (most recent call last):\n    E: 1\nok\n1 passed and 0 failed.",
        ),
        ("perl a.pl", "error handler is deprecated at a.pl line 1.\ndone"),
        ("ninja -C build", "ninja: Entering directory `build'\n[9/9] Linking target error_test"),
    ],
)
def test_an_end_that_counts_no_failure_outweighs_the_words_above(command: str, text: str) -> None:
    """Requirement G-375."""
    assert verdict_of(ran(command, text).code) == "success"


def test_one_line_that_says_what_failed_is_a_failure_of_any_tool() -> None:
    """Requirement G-376."""
    assert judged("deploy", {"env": "p"}, "Deployment failed: image not found in registry").code == "error"
    assert (
        judged("deploy", {"env": "p"}, "Deployed 12. The last deployment failed: it was odd\nAll is well").code == "ok"
    )


def test_the_record_that_was_asked_for_by_its_id_was_found() -> None:
    """Requirement G-376."""
    build = {"id": 7, "status": "failed", "error": "exit code 1"}
    assert judged("get_build", {"id": 7}, build).code == "ok"
    assert judged("start_build", {"branch": "main"}, build).code == "error"
    assert judged("get_build", {"id": 7}, json.dumps({"error": "no such build"})).code == "error"


def test_what_a_page_wrote_to_its_console_is_no_failure_of_the_tool_that_shows_it() -> None:
    """G-366: one line alone was."""
    said = "[ERROR] Uncaught TypeError: x is undefined @ http://localhost/a.js:3"
    for tool, code in (("mcp__playwright__browser_console_messages", "ok"), ("deploy", "error")):
        assert judged(tool, {}, said).code == code


PYDANTIC = (
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for Config\nport\n"
    "  Input should be a valid integer [type=int_parsing, input_value='x']\n    For further information visit x"
)
FIELD = "1 validation error for Config: port: Input should be a valid integer"
POWERSHELL = (
    "Get-Item : Cannot find path 'gone' because it does not exist.\nAt line:1 char:1\n+ Get-Item gone\n+ ~~~~~\n"
    "    + CategoryInfo          : ObjectNotFound: (gone:String) [Get-Item], ItemNotFoundException\n"
    "    + FullyQualifiedErrorId : PathNotFound,Microsoft.PowerShell.Commands.GetItemCommand"
)


@pytest.mark.parametrize(
    ("command", "text", "name"),
    [
        (
            "npx eslint src",
            "/w/a.js\n  1:9  warning  Odd quotes  q\n  3:7   error    'b' is unused  x\n\n\u2716 2 problems (1 error)",
            "3:7   error    'b' is unused",
        ),
        ("ruff check .", "F401 [*] `os` imported but unused\n --> a.py:1:8\n  |\n\nFound 1 error.", "F401 [*] `os`"),
        ("ruff check .", "a.py:1:8: F401 [*] `os` imported but unused\nFound 1 error.", "a.py:1:8: F401"),
        (
            "npx jshint a.js",
            "a.js: line 1, col 9, Expected an identifier.\n\n4 errors",
            "a.js: line 1, col 9, Expected",
        ),
        (
            "npx vite build",
            'transforming...\nx Build failed in 55ms\nerror during build:\nCould not resolve "./gone.js"',
            'Could not resolve "./gone.js"',
        ),
        (
            "npm install nope",
            "npm error code E404\nnpm error 404 Not Found - GET https://registry.example/nope\nnpm error 404",
            "npm error 404 Not Found",
        ),
        (
            "npm ci",
            "npm ERR! code ENOENT\nnpm ERR! syscall open\nnpm ERR! path /w/a\nnpm ERR! errno -2\nnpm ERR! no such file",
            "npm ERR! no such file",
        ),
        (
            "gcc a.c -lnope",
            "/usr/bin/ld: cannot find -lnope: No such file\ncollect2: error: ld returned 1 exit status",
            "/usr/bin/ld: cannot find -lnope",
        ),
        (
            "g++ a.c | tail -3",
            (
                "/usr/bin/ld: /tmp/a.o: in function `main':\na.c:(.text+0x5): undefined reference to `foo()'\n"
                "collect2: error: ld returned 1 exit status"
            ),
            "undefined reference to `foo()'",
        ),
        (
            "docker run -p 5432:5432 postgres",
            f"docker: Error response from daemon: failed on {'x' * 300}: port is already allocated.",
            "port is already allocated",
        ),
        (
            "npx eslint a.js --format compact",
            "/w/a.js: line 1, col 1, Error - Odd (quotes)\n\n1 problem",
            "Error - Odd",
        ),
        ("zsh -c 'ls *.nope'", "zsh:1: no matches found: *.nope", "no matches found"),
        ("Get-Item gone", POWERSHELL, "Cannot find path 'gone'"),
        ("python a.py", f'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n{PYDANTIC}', FIELD),
        ("python a.py 2>&1 | tail -5", f"{' ' * 20}^^^^^^^^^\n{PYDANTIC}", FIELD),
    ],
)
def test_what_is_wrong_is_named_and_not_the_number_or_the_code_of_it(command: str, text: str, name: str) -> None:
    """Requirement G-391."""
    found = ran(command, text)
    assert (found.code, name in found.message) == ("error", True), found.message


def test_the_first_line_behind_a_heading_of_gemini_cli_is_a_line_of_the_output() -> None:
    """Requirement G-391."""
    said = "tar: gone.tar: Cannot open: No such file or directory\ntar: Error is not recoverable: exiting now"
    text = f"Command: tar xf gone.tar\nDirectory: (root)\nOutput: {said}\nError: (none)\nExit Code: 2\nSignal: (none)"
    assert judged("run_shell_command", {"command": "tar xf gone.tar"}, text).message == said.partition("\n")[0]


PYTEST_THAT_DOES_NOT_COLLECT = """==================================== ERRORS ====================================
_____________________ ERROR collecting tests/test_import.py ____________________
ImportError while importing test module '/srv/shop/tests/test_import.py'.
Hint: make sure your test modules/packages have valid Python names.
Traceback:
tests/test_import.py:1: in <module>
    import stock
E   ModuleNotFoundError: No module named 'stock'
=========================== short test summary info ============================
ERROR tests/test_import.py
!!!!!!!!!!!!!!!!!!!! Interrupted: 1 error during collection !!!!!!!!!!!!!!!!!!!!
1 error in 0.47s"""


@pytest.mark.parametrize(
    ("command", "text", "named"),
    [
        (
            "pytest -q tests/test_import.py",
            PYTEST_THAT_DOES_NOT_COLLECT,
            "0 failed, 1 errors, 0 passed: ModuleNotFoundError: No module named 'stock'",
        ),
        (
            "go test ./cart",
            "--- FAIL: TestTotal (0.0s)\n    --- FAIL: TestTotal/a (0.0s)\n        cart_test.go:4: got 3, want 4\nFAIL",
            ": cart_test.go:4: got 3, want 4",
        ),
        (
            "pytest -q tests/nope.py",
            "ERROR: file or directory not found: tests/nope.py\n\nno tests ran in 0.63s",
            "ERROR: file or directory not found: tests/nope.py",
        ),
        (
            "awk '{print $1' e.csv",
            "awk: cmd. line:1: {print $1\nawk: cmd. line:1:          ^ unexpected newline or end of string",
            "awk: cmd. line:1: unexpected newline or end of string",
        ),
    ],
    ids=["pytest does not collect", "go", "no tests", "awk"],
)
def test_the_reason_is_quoted_and_not_the_count_or_the_source_above_it(command: str, text: str, named: str) -> None:
    """Requirement G-397."""
    for found in (ran(command, text), ran(f"{command} 2>&1 | tail -20", text)):
        assert found.code == "error"
        assert found.message.endswith(named)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("tmux ls", "error connecting to /tmp/tmux-0/default (No such file or directory)"),
        (
            "wget http://127.0.0.1:9/x 2>&1 | tail -20",
            "--2026-11-30 06:55:27--  http://127.0.0.1:9/x\nConnecting to 127.0.0.1:9... failed: Connection refused.",
        ),
    ],
)
def test_the_reason_of_a_system_call_counts_without_the_name_of_a_program(command: str, text: str) -> None:
    """Requirement G-398."""
    found = ran(command, text)
    assert (found.code, found.message) == ("error", text.rpartition("\n")[2])


def test_a_connection_that_was_made_at_the_second_address_is_no_failure() -> None:
    """Requirement G-398."""
    text = "Connecting to ::1:80... failed: Connection refused.\nConnecting to 127.0.0.1:80... connected.\nSaved 'x'"
    assert ran("wget http://localhost/x 2>&1 | tail -20", text).code != "error"


def test_the_exit_code_that_a_command_asks_for_beside_a_discarded_error_is_an_answer() -> None:
    """Requirement G-399. Who discards the error asks whether there is something."""
    assert verdict_of(ran('ls build 2>/dev/null; echo "exit $?"', "exit 2").code) != "failure"
    assert (
        ran('ls build; echo "exit $?"', "ls: cannot access 'build': No such file or directory\nexit 2").code == "error"
    )
    assert ran('make all 2>/dev/null; echo "exit $?"', "exit 2").code == "error"
