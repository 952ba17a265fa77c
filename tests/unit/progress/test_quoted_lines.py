"""The line that feedback quotes of a failure, how a failure is known again, and the step that fits it."""

from __future__ import annotations

import pytest

from tellback.guidance.next_steps import GUESSED_STEP, LACKING_STEP, LIMITED_STEP, SERVER_STEP
from tests.support.dialects import (
    MadeCall,
    Shell,
    claude_code,
    codex_exec,
    cursor,
    mini_swe_agent,
    nudges_in,
    spoken,
    step_of,
    woven,
)
from tests.support.stretches import claude_edit

SHELLS: list[Shell] = [claude_code, codex_exec, cursor, mini_swe_agent]


def runs(command: str, *said: str, code: int = 1, shell: Shell = claude_code) -> list[MadeCall]:
    """Return runs with an edit before each."""
    return woven([claude_edit(n) for n in range(len(said))], [shell(command, each, code) for each in said])


def quoted(calls: list[MadeCall]) -> list[str]:
    return [each.value for each in nudges_in(calls)[0][1].observations]


RUST = """running 2 tests
test b ... ok
test a ... FAILED

thread 'a' ({0}) panicked at src/lib.rs:9:5:
assertion `left == right` failed
  left: 1
 right: 2

failures:
    a

test result: FAILED. 1 passed; 1 failed; 0 ignored"""
SANITIZER = """=={0}==ERROR: AddressSanitizer: heap-use-after-free on address 0x60200{0}
    #0 0x55d{0} in get /app/a.cpp:9"""
SPRING = "2026-05-11T10:11:12.123Z ERROR {0} --- [ main] o.s.boot.SpringApplication : Application run failed"
NUMBERED = {"cargo test": RUST, "./app": SANITIZER, "java -jar app.jar": SPRING}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("command", NUMBERED)
def test_a_failure_is_known_again_though_its_thread_or_process_has_another_number(command: str, shell: Shell) -> None:
    """G-306."""
    assert spoken(
        runs(command, *(NUMBERED[command].format(number) for number in (72712, 14171, 95281)), shell=shell)
    ) == [6]


MAKE = """src/a.c:9:2: warning: unused x
./gen.sh: no rule for b.tbl
make: *** [all] Error 2"""
LINKER = """/usr/bin/ld: cannot find -lssl: No such file or directory
collect2: error: ld returned 1 exit status"""
YARN = """\u27a4 YN0000: \u00b7 Yarn 4.5.1
\u27a4 {0}
\u27a4 YN0000: \u2514 Completed in 0s 310ms
\u27a4 YN0000: \u00b7 Failed with errors in 0s 391ms"""
MISSING = "YN0035: \u2502 @acme/tokens@npm:^3.1.0: Package not found"
DOCKER = """#8 1.2 ERROR: No matching distribution found for foo==9
------
ERROR: failed to solve: process "/bin/sh -c pip install foo" did not complete successfully: exit code: 1"""
HINT = """Could not open /dev/ttyUSB0, the port is busy or doesn't exist.
Hint: Check if the port is correct"""
FLAG = """docker: invalid reference format for web:v1!

Run 'docker run --help' for more information"""
JVM = """Unrecognized option: -Xmxx2g
Error: Could not create the Java Virtual Machine.
Error: A fatal exception has occurred. Program will exit."""
PERL = """Can't locate Acme/Queue.pm in @INC (you may need to install the Acme::Queue module)
BEGIN failed--compilation aborted at bin/run line 3."""
VITEST = """ RUN  v4.1.12 /r

No test files found, exiting with code 1
"""
PYTEST = """no tests ran in 0.30s
ERROR: file or directory not found: tests/test_qeue.py"""
SEQ = """seq: invalid floating point argument: 'a'
Try 'seq --help' for more information."""
CMAKE = """-- Detecting C compile features - done
CMake Error at CMakeLists.txt:3 (find_package):
  Could not find a package configuration file provided by "Queue".
-- Configuring incomplete, errors occurred!"""
FLAGS = """flag provided but not defined: -prot
Usage of ./srv:
  -port int
    \tport to listen on (default 80)"""
LUA = """lua: (command line):1: no such queue
stack traceback:
\t[C]: in function 'error'
\t(command line):1: in main chunk"""
TCL = """can't read "queue": no such variable
    while executing
"puts $queue"
    (file "a.tcl" line 2)"""
STRICT = """Global symbol "$queue" requires explicit package name at a.pl line 1.
Execution of a.pl aborted due to compilation errors."""
FIXTURE = """file /r/tests/test_a.py, line 1
E       fixture 'queue' not found
>       available fixtures: cache, capfd
ERROR tests/test_a.py::test_a
1 error in 0.13s"""
SECOND_HAND = {
    'Global symbol "$queue"': STRICT,
    "fixture 'queue' not found": FIXTURE,
    "invalid floating point argument": SEQ,
    'find_package): Could not find a package configuration file provided by "Queue"': CMAKE,
    "flag provided but not defined: -prot": FLAGS,
    "no such queue": LUA,
    'can\'t read "queue": no such variable': TCL,
    "invalid reference format": FLAG,
    "Unrecognized option: -Xmxx2g": JVM,
    "Can't locate Acme/Queue.pm": PERL,
    "No test files found": VITEST,
    "file or directory not found: tests/test_qeue.py": PYTEST,
    "no rule for b.tbl": MAKE,
    "cannot find -lssl": LINKER,
    "Package not found": YARN.format(MISSING),
    "No matching distribution found for foo==9": DOCKER,
    "Could not open /dev/ttyUSB0": HINT,
}


@pytest.mark.parametrize("cause", SECOND_HAND)
def test_feedback_quotes_the_line_that_says_what_failed_and_none_that_passes_it_on(cause: str) -> None:
    """G-307."""
    said = SECOND_HAND[cause]
    assert cause in quoted(runs("./build.sh", said, said, said))[0]


def test_other_failures_that_yarn_sums_up_alike_are_others() -> None:
    """G-307."""
    causes = (
        MISSING,
        "YN0028: \u2502 The lockfile would have been modified by this install",
        "YN0018: \u2502 react@npm:19: The remote archive doesn't match the checksum",
    )
    assert not spoken(runs("yarn install", *map(YARN.format, causes)))


def test_an_exception_is_quoted_with_its_message_and_with_the_test_that_it_fails() -> None:
    """G-307."""
    said = "SQLSTATE[HY000] [2002] Connection refused (mysql)"
    below = f"\n   Illuminate\\Database\\QueryException\n\n  {said}\n\n  at vendor/x.php:8\n"
    refused = runs("php artisan migrate", below, below, below)
    assert "QueryException: SQLSTATE[HY000] [2002] Connection refused" in quoted(refused)[0]
    assert step_of(refused) == LACKING_STEP
    failed = (
        "E   AssertionError: assert None == 'en'\nFAILED tests/test_a.py::test_default - AssertionError\n1 failed in 1s"
    )
    assert quoted(runs("pytest", failed, failed, failed)) == [
        "AssertionError: assert None == 'en'",
        "tests/test_a.py::test_default",
    ]


STEPS = {
    "HTTP/1.1 500 Internal Server Error\nContent-Length: 61": ("curl -si localhost:3000/users", SERVER_STEP),
    "could not open port /dev/ttyUSB0: [Errno 2] No such file or directory": ("esptool.py chip_id", GUESSED_STEP),
    "Error: API quota exceeded for this project": ("gcloud builds submit", LIMITED_STEP),
}


@pytest.mark.parametrize("said", STEPS)
def test_the_step_fits_a_server_that_fails_a_port_that_is_not_there_and_a_limit(said: str) -> None:
    """G-310."""
    command, step = STEPS[said]
    assert step_of(runs(command, said, said, said)) == step


def test_a_value_that_is_called_a_quota_is_no_limit() -> None:
    """G-310."""
    said = "Error from server (BadRequest): QuotaError: quota must be a positive integer"
    assert step_of(runs("kubectl apply -f quota.yaml", said, said, said)) != LIMITED_STEP


ESLINT = """
/r/src/a.js
  1:5  error  'unused' is assigned a value but never used  no-unused-vars

\u2716 1 problem (1 error, 0 warnings)"""
RUFF = """F821 Undefined name `quue`
 --> src/a.py:9:5

Found 1 error."""
SYNTAX = """warning: `D203` and `D211` are incompatible
 --> pyproject.toml:3:1

invalid-syntax: Expected an indented block
 --> src/a.py:2:1

Found 1 error."""
CONCISE = """src/a.py:9:5: F821 Undefined name `quue`
Found 1 error."""
PYRIGHT = """/r/src/a.py
  /r/src/a.py:1:10 - error: Type "str" is not assignable to "int"
1 error, 0 warnings, 0 informations"""
FIRST = {
    "npx eslint src": (ESLINT, "'unused' is assigned"),
    "ruff check .": (RUFF, "F821 Undefined name"),
    "ruff check src": (SYNTAX, "invalid-syntax: Expected"),
    "ruff check --output-format concise": (CONCISE, "F821 Undefined name"),
    "pyright src": (PYRIGHT, 'Type "str" is not assignable'),
}


@pytest.mark.parametrize("command", FIRST)
def test_the_first_finding_of_a_linter_is_quoted_and_not_their_number(command: str) -> None:
    """G-338."""
    said, finding = FIRST[command]
    assert finding in quoted(runs(command, said, said, said, said))[0]


OPENED = {
    "git commit -qm done": "On branch main\nnothing to commit, working tree clean",
    "zip -r out.zip nosuch": "\tzip warning: name not matched: nosuch\n\nzip error: Nothing to do! (try: zip -r)",
    "docker inspect web": "DEPRECATED: The legacy builder is deprecated.\n\nunable to inspect web: nothing to read",
    "git push": "WARNING: the agent holds no keys\nThe remote end hung up, nothing to send",
}


@pytest.mark.parametrize("command", OPENED)
def test_a_warning_or_a_place_above_what_failed_is_not_quoted(command: str) -> None:
    """G-307."""
    assert "othing to" in quoted([claude_code(command, OPENED[command], 2)] * 3)[0]


def test_of_a_build_of_docker_the_reason_that_npm_gives_is_quoted() -> None:
    """G-351: the line of the Dockerfile was quoted, and then the last line of npm, which says what to do."""
    said = (
        "#9 [5/6] RUN npm ci\n#9 1.{0} npm error code EUSAGE\n#9 1.{0} npm error\n"
        "#9 1.{0} npm error `npm ci` can only install packages when package.json and its lock are in sync.\n"
        "#9 ERROR: process did not complete successfully: exit code: 1\n > [5/6] RUN npm ci:\n"
        "1.{0} npm error Clean install a project\n1.{0} npm error A complete log of this run can be found in: /x.log\n"
        "Dockerfile:5\n   5 | >>> RUN npm ci\nERROR: process did not complete successfully: exit code: 1"
    )
    calls = [each for n in range(3) for each in (claude_edit(n), claude_code("docker build .", said.format(n), 1))]
    ((_, feedback),) = nudges_in(calls)
    assert feedback.observations[0].value == (
        "npm error `npm ci` can only install packages when package.json and its lock are in sync."
    )


PASSED_ON = {
    "mkdocs build --strict": "INFO - Building documentation to directory: /r/site\nWARNING - A reference to "
    "'api/client.md' is in the 'nav' configuration, but is not found.\n\nAborted with 1 warnings in strict mode!",
    "npx nx build web": ' NX   Failed to process project graph.\n\n  executor "@nx/rollup:rolup" is not found in it\n\n'
    "Pass --verbose to see the stacktraces.",
}


@pytest.mark.parametrize("command", PASSED_ON)
def test_what_ends_a_build_is_not_quoted_for_what_failed_in_it(command: str) -> None:
    """G-307."""
    assert "not found" in quoted([claude_code(command, PASSED_ON[command], 1)] * 3)[0]
