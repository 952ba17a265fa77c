"""Results of shells, editors and readers of files: named by what the call was, not by words alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tellback.contracts.guidance import Outcome, OutcomeCode, ToolCall
from tellback.guidance.observations.classify import classify
from tellback.guidance.observations.evidence_builder import build_evidence
from tellback.guidance.observations.observer import ToolObserver
from tellback.guidance.observations.programs import exit_code_in
from tellback.guidance.provider import call_failed, call_verdict
from tests.support.examples import examples

TRACE = "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    go()\nKeyError: 'indexes'"


def finding(command: str, output: str, tool: str = "Bash", **given_: Any) -> tuple[OutcomeCode, str]:
    found = classify(build_evidence(tool, {"command": command}, output, None, **given_), {})
    return found.code, found.message


def wrapped(code: int, output: str) -> str:
    return f"<returncode>{code}</returncode>\n<output>\n{output}\n</output>"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("<returncode>65</returncode>\n<output>\n</output>", 65),
        ("Exit code 2\nstat x: no such file or directory", 2),
        ("Exit code: 1\nWall time: 0.2 seconds\nOutput:\nx", 1),
        ("x\n\nCommand exited with code 3", 3),
        ("x\nroot@host:/srv # \n[Command finished with exit code 127]", 127),
        ("x\n[The command completed with exit code 0.]\n[Current working directory: /srv]", 0),
        ("Command: ls\nOutput: (empty)\nExit Code: 1\nSignal: (none)", 1),
        ("Exit code 137 means that the kernel ended the container.", None),
        ("the docs say: exited with code 4\n" + "and so on\n" * 60, None),
    ],
)
def test_the_exit_code_where_a_tool_puts_it(text: str, code: int | None) -> None:
    assert exit_code_in(text) == code


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("cd /srv && grep -n 'class X' a.py", wrapped(1, "")),
        ("grep -rn x src | grep -v test", wrapped(1, "")),
        ("find . -name '*.py' | xargs grep -l x", wrapped(123, "")),
        ("pgrep -f server", "Exit code 1"),
        ("which pytest", "(no output)\n\nCommand exited with code 1"),
        ("ls build 2>/dev/null", wrapped(2, "")),
        ("git log --oneline | grep fix | head -3", wrapped(0, "")),
        ("command -v jq >/dev/null 2>&1", "Exit code 1"),
    ],
)
def test_an_exit_that_says_nothing_was_found_is_an_empty_answer(command: str, output: str) -> None:
    assert finding(command, output)[0] == "no_results"


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("diff a b", wrapped(1, "1c1\n< x\n---\n> y")),
        ("git diff --no-index a b", "Exit code 1\n-x\n+y"),
        ("grep -rn x src | grep -v y", "grep: src/a.pyc: binary file matches\ngrep: src/b.pyc: binary file matches"),
        ("cat app.log", f"2026 ERROR boom\n{TRACE}\nFAILED (errors=1)"),
        ("git log -3", "ab12 error: handle FAILED uploads\ncd34 fatal: was a typo"),
        ("sed -n '1,9p' a.py | head -5", "Error: this is how the file begins\nraise ValueError"),
        ("gh run view 1 --log-failed | tail -50", "--- FAIL: TestA (0.00s)\nFAIL\nexit status 1"),
        ("python experiment.py", wrapped(0, "✗ Error: refused, as expected\nTest 2 FAILED: 3 != 4\nok")),
        ("python a.py", '  File "a.py", line 1, in go\n    go()\nThe frame above is the last one.'),
        ("python a.py", '  File "a.py", line 1, in go\n    go()\nDeprecationWarning: go() will be removed'),
        ("pytest -q", wrapped(0, f"{TRACE}\n3 passed, 1 xfailed in 0.10s")),
        ("git rev-parse nope || echo none", "fatal: ambiguous argument 'nope'\nnone"),
        (
            "pip install x",
            wrapped(0, "ERROR: pip's dependency resolver does not take into account\nSuccessfully installed x"),
        ),
        ("yes | head -1", wrapped(141, "y")),
        ("ls a b; true", "ls: cannot access 'a': No such file or directory\nb"),
        ("touch x", ""),
        ("ssh web uptime", wrapped(0, "bash: line 1: cd: /home/me/lab: No such file or directory\n10:00 up 3 days")),
        ("ssh web uptime", "/etc/profile.d/x.sh: line 3: nvm: command not found\n10:00 up 3 days"),
        ("docker exec web df", "/dev/sda1 20G\nbash: /srv/a/.bashrc: Permission denied"),
        ("python checks.py", wrapped(0, "ModuleNotFoundError: No module named 'yaml'")),
        ("python -c 'print(\"Error: as it is shown\")'", "Error: as it is shown"),
        ("sqlite3 a.db \"insert into log values('Error: it is full'); select * from log\"", "Error: it is full"),
        ("sqlite3 a.db 'select msg from log'", wrapped(0, "ERROR: it is full\nfatal: it was removed")),
        ("apt-get update", "W: Some index files failed to download. Old ones are used instead.\nReading lists... Done"),
        ("apt-get install -y curl", "debconf: unable to initialize frontend: Dialog\nSetting up curl (8.5.0) ..."),
    ],
)
def test_these_are_no_failures(command: str, output: str) -> None:
    assert finding(command, output)[0] == "ok"


@pytest.mark.parametrize(
    ("command", "output", "named"),
    [
        ("python a.py", wrapped(1, TRACE), "KeyError: 'indexes'"),
        ("python a.py | head -20", wrapped(0, TRACE), "KeyError: 'indexes'"),
        ("python a.py | tail -3", wrapped(0, TRACE.partition("\n")[2]), "KeyError: 'indexes'"),
        (
            "python a.py 2>&1 | tail -1",
            wrapped(0, "ModuleNotFoundError: No module named 'yaml'"),
            "No module named 'yaml'",
        ),
        (
            "cargo run",
            wrapped(101, "thread 'main' panicked at src/main.rs:9:5:\nindex out of bounds: the len is 3"),
            "index out of bounds",
        ),
        ("ssh web 'cd /srv/x; ls'", "bash: line 1: cd: /srv/x: No such file or directory\nnotes.txt", "cd: /srv/x"),
        ("ssh web 'a; b'", "bash: /srv/a/.bashrc: Permission denied\nbash: line 1: b: command not found", "b: command"),
        ("python a.py; echo done", f"{TRACE}\ndone", "KeyError: 'indexes'"),
        ("grep x missing.py", wrapped(2, "grep: missing.py: No such file or directory"), "grep: missing.py"),
        ("python a.py && grep -q x out", wrapped(1, TRACE), "KeyError"),
        ("pytest -q | tail -3", "1 failed, 2 passed in 0.10s", "1 failed"),
        ("go test ./... 2>&1 | tail -5", "--- FAIL: TestA (0.00s)\nFAIL\nFAIL\ta/b\t0.4s\nFAIL", "1 failed"),
        ("npx jest || true", "Tests:       2 failed, 3 passed, 5 total", "2 failed"),
        ("make 2>&1 | tail -1", "make: *** [all] Error 2", "make: ***"),
        ("gcc a.c | head", "a.c:3:9: error: expected ';' before 'return'", "a.c:3:9"),
        ("cargo build | head", "error[E0308]: mismatched types\n  --> src/main.rs:2:5", "error[E0308]"),
        ("npx tsc | head", "src/a.ts(4,2): error TS2304: Cannot find name 'x'.", "error TS2304"),
        ("javac A.java | head", "A.java:3: error: ';' expected\n1 error", "A.java:3"),
        ("go vet ./... | head", "# a/b\nvet: ./a.go:3:4: undefined: x", "undefined: x"),
        ("npx eslint . | tail -2", "✖ 3 problems (1 error, 2 warnings)", "3 problems"),
        ("ruff check | tail -1", "Found 2 errors.", "Found 2 errors"),
        ("mypy | tail -1", "Found 1 error in 1 file (checked 4 source files)", "Found 1 error"),
        ("foo --version | head", "bash: foo: command not found", "command not found"),
        ("python -m pytest | tail", "/usr/bin/python: No module named pytest", "No module named pytest"),
        ("patch -p1 < a.diff | tail", "1 out of 1 hunk FAILED -- saving rejects", "hunk FAILED"),
        ("git push | cat", " ! [rejected]        main -> main (fetch first)", "[rejected]"),
        ("cat missing | head", "cat: missing: No such file or directory", "cat: missing"),
        ('app enable; echo "exit: $?"', "not a repository\nexit: 1", "not a repository"),
        ("npm test", "Command timed out after 2m 0.0s", "timed out"),
        ("wget http://h/a | cat", "http://h/a\n2026-11-29 18:45:35 ERROR 404: Not found.", "ERROR 404"),
        ("ruby -e 'load(1)'", "-e:1:in `load': no implicit conversion of Integer (TypeError)", "TypeError"),
        ("docker run web | cat", "docker: Cannot connect to the Docker daemon at unix:///x. Is it up?", "Cannot"),
        ("make all", wrapped(-1, "").replace("<ret", "<exception>it timed out</exception>\n<ret", 1), "timed"),
    ],
)  # fmt: skip
def test_failures_and_how_they_are_named(command: str, output: str, named: str) -> None:
    code, message = finding(command, output)
    assert code == "error"
    assert named in message


CLOSED = (
    'Traceback (most recent call last):\n  File "a.py", line 5, in <module>\nBrokenPipeError: [Errno 32] Broken pipe'
)
IGNORED = (
    "Exception ignored in: <_io.TextIOWrapper name='<stdout>' mode='w' encoding='utf-8'>\nBrokenPipeError: [Errno 32]"
)


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("python a.py | head -2", CLOSED),
        ("python a.py 2>&1 | head -n 2", IGNORED),
        ("pip list | head -2", "ERROR: Pipe to stdout was broken"),
        ("make list | head -2", "find: 'standard output': Broken pipe\nfind: write error"),
        ("./list | grep -m1 a", "grep: write error: Broken pipe"),
        ("./list | grep -q a && echo yes", "seq: write error: Broken pipe"),
    ],
)
def test_a_reader_that_has_seen_enough_makes_no_failure_of_the_writer(command: str, complaint: str) -> None:
    """G-345: `head` closes the pipe."""
    for output in (f"one\ntwo\n{complaint}", f"{complaint}\none\ntwo"):
        assert finding(command, wrapped(0, output))[0] == "ok"
        assert finding(command, output)[0] == "ok"


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("python client.py | tail -2", CLOSED),  # which reads to the end
        ("python client.py", CLOSED),
        ("python a.py | head -20", f"{CLOSED}\n\nDuring handling of the above exception:\n\n{TRACE}"),
    ],
)
def test_a_connection_that_was_closed_is_a_failure(command: str, output: str) -> None:
    assert finding(command, wrapped(1 if "|" not in command else 0, output))[0] == "error"


@pytest.mark.parametrize(
    ("tool", "params", "result"),
    [
        (
            "str_replace_editor",
            {"command": "str_replace", "path": "a"},
            "ERROR:\nNo replacement was performed, old_str ...",
        ),
        ("edit", {"path": "a.py", "oldText": "x"}, "Could not find the exact text in a.py."),
        ("EditAction", {"path": "a.py", "old_str": "x"}, "String 'def f():\n" + "  x\n" * 300 + "' not found in a.py"),
        ("apply_patch", {"path": "a", "patch": "x"}, "patching file a\nHunk #1 FAILED at 3.\n1 out of 1 hunk FAILED"),
        ("Read", {"file_path": "/a.json"}, "File content (31211 tokens) exceeds maximum allowed tokens (25000)."),
        ("Read", {"file_path": "/a.json"}, "File size (5.1 MB) exceeds the maximum of 256 KB. Use offset and limit."),
        (
            "EditAction",
            {"path": "a.py", "new_str": "x"},
            "The file a.py has been edited.\n\n31 passed. 2 failed. 0 errors.",
        ),
        ("read_file", {"path": "src/a.py"}, "Error: ENOENT: no such file or directory, open 'src/a.py'"),
        ("view", {"path": "/srv/a.py"}, "The path /srv/a.py does not exist."),
        ("Grep", {"pattern": "x", "path": "src"}, "<tool_use_error>Path does not exist: src</tool_use_error>"),
    ],
)
def test_editors_and_readers_that_could_not(tool: str, params: dict[str, Any], result: str) -> None:
    assert classify(build_evidence(tool, params, result, None), {}).code == "error"


WORDS = st.sampled_from(
    ["Error: x", TRACE, "FAILED (errors=3)", "npm ERR! x", "fatal: no", "a.c:1:2: error: x", "Exit code 1", "timed out",
     "rate limit exceeded", "permission denied", "No results found", "1 failed in 0.1s", "", "429 Too Many Requests"]
)  # fmt: skip
READS = st.sampled_from(
    [("Read", {"file_path": "/srv/app/handlers.py"}), ("view", {"path": "lib/errors.rb"}),
     ("Bash", {"command": "cat lib/errors.rb"}), ("bash", {"command": "cd /srv && sed -n '1,80p' a.py"}),
     ("Grep", {"pattern": "raise", "path": "src"})]
)  # fmt: skip


@settings(max_examples=examples(150))
@given(READS, st.lists(WORDS, min_size=1, max_size=12))
def test_a_healthy_read_of_text_with_error_words_is_no_error(
    call: tuple[str, dict[str, str]], lines: list[str]
) -> None:
    text = "\n".join(f"{number:6}\t{line}" for number, line in enumerate("\n".join(lines).splitlines() or [""], 1))
    assert classify(build_evidence(*call, text, None), {}).code in ("ok", "no_results")


@pytest.mark.parametrize(
    "said",
    [
        "The user doesn't want to proceed with this tool use. The tool use was rejected",
        "<tool_use_error>Sibling tool call errored</tool_use_error>",
        "[Request interrupted by user for tool use]",
        "Command aborted",
        "[Operation Cancelled] Reason: User cancelled the operation.",
    ],
)
def test_what_a_person_or_a_sibling_stopped_is_neither_a_success_nor_a_failure(said: str) -> None:
    observer = ToolObserver(tools=["Bash"])
    seen = observer.observe("Bash", params={"command": "make"}, error=said)
    assert seen.envelope is not None
    assert (seen.envelope.code, seen.status) == ("cancelled", "partial")
    assert seen.suggestions == ("Follow what the user said, and make the call again only if it is still needed",)
    assert not observer.memory.failed, "it was not tried"


SHELL: dict[str, Any] = {"shellId": "b1", "command": "npm run e2e", "stdout": "", "stderr": "", "stdoutLines": 1}
GREP: dict[str, Any] = {"mode": "content", "numFiles": 0, "filenames": [], "content": "", "numLines": 0}


@pytest.mark.parametrize(
    ("tool", "record", "expected"),
    [
        ("BashOutput", {**SHELL, "status": "running", "exitCode": None}, "ok"),
        ("BashOutput", {**SHELL, "status": "completed", "exitCode": 0}, "ok"),
        ("BashOutput", {**SHELL, "status": "failed", "exitCode": 1}, "error"),
        ("BashOutput", {**SHELL, "status": "killed", "exitCode": None}, "error"),
        ("Grep", GREP, "no_results"),
        ("Grep", {**GREP, "content": "a.py:3: x", "numLines": 1}, "ok"),
    ],
)
def test_the_records_that_the_hooks_of_claude_code_pass(
    tool: str, record: dict[str, Any], expected: OutcomeCode
) -> None:
    """A program that still runs has not failed, and a search without a line has found nothing."""
    assert classify(build_evidence(tool, {"pattern": "x"}, record, None), {}).code == expected


def test_a_policy_that_refuses_is_a_failure() -> None:
    said = "Permission to use Bash with command rm has been denied."
    assert classify(build_evidence("Bash", {"command": "rm x"}, None, said), {}).code == "denied"


def test_the_outcome_outranks_the_status_of_the_host() -> None:
    call = ToolCall(at=0, tool="Bash", call_index=1, status="error")
    assert call_failed(call)
    verdicts: dict[OutcomeCode, str] = {"no_results": "success", "cancelled": "neutral", "error": "failure"}
    for code, verdict in verdicts.items():
        outcome = Outcome(status="error" if code == "error" else "partial", code=code)
        assert call_verdict(ToolCall(at=0, tool="Bash", call_index=1, status="error", outcome=outcome)) == verdict


def suggestions(tool: str, params: dict[str, Any], result: str, **given_: Any) -> tuple[str, ...]:
    return tuple(ToolObserver(**given_).observe(tool, params=params, result=result).suggestions)


def test_work_on_files_is_neither_asked_to_answer_nor_said_to_miss_the_question() -> None:
    question = "Why does the importer drop rows with umlauts?"
    for tool, params in (
        ("Read", {"file_path": "a.py"}),
        ("Bash", {"command": "cat a.py"}),
        ("Grep", {"pattern": "x", "path": "a"}),
        ("codebase_search", {"query": "where are rows dropped"}),
        ("read_many_files", {"paths": ["a.py"]}),
        ("mcp__github__get_file_contents", {"owner": "a", "repo": "b", "ref": "main"}),
        ("mcp__github__search_code", {"q": "open"}),
        ("find_symbol", {"name": "read"}),
    ):
        seen = ToolObserver(question=question).observe(
            tool, params=params, result="def read(path):\n    return open(path)"
        )
        assert seen.status == "success"
        assert seen.suggestions == ()
    for tool in ("search", "file_search", "zip_code_lookup"):
        assert suggestions(tool, {"query": "importer"}, "The importer drops rows with umlauts.", question=question)


def test_a_long_briefing_is_not_answered_by_one_result() -> None:
    briefing = " ".join(f"Requirement{number} asks for Thing{number}." for number in range(40))
    assert not any(
        "answer" in line for line in suggestions("search", {"query": "x"}, "x is a letter", question=briefing)
    )


RAN_OUT = "tool terminated command after exceeding timeout 90000 ms. Retry with a larger timeout if it needs one."


@pytest.mark.parametrize(
    ("tool", "params", "result"),
    [
        ("Bash", {"command": "pytest"}, "Command timed out after 2m 0.0s"),
        ("bash", {"command": "pytest"}, "The last command <command>pytest</command> timed out and has been killed."),
        ("bash", {"command": "timeout 60 pytest"}, "<returncode>124</returncode>\n<output>\n...\n</output>"),
        ("shell", {"command": ["bash", "-lc", "pytest"]}, '{"output":"...","metadata":{"exit_code":124}}'),
        ("exec", {"cmd": "x"}, '{"output":"command timed out after 9000 milliseconds","metadata":{"exit_code":124}}'),
        ("bash", {"command": "npm test"}, f"Starting\n\n<shell_metadata>\nshell {RAN_OUT}\n</shell_metadata>"),
        ("bash", {"command": "npm test"}, f"(no output)\n\n<bash_metadata>\nbash {RAN_OUT}\n</bash_metadata>\n"),
        ("Bash", {"command": "cd /srv && curl -s -m 5 http://10.0.0.1"}, "Exit code 28"),
        (
            "Bash",
            {"command": "curl -m 5 x.dev"},
            "Exit code 28\ncurl: (28) Connection timed out after 5001 ms",
        ),
    ],
)
def test_a_run_that_took_too_long_is_not_suggested_unchanged(tool: str, params: dict[str, Any], result: str) -> None:
    """G-234: wherever the tool says so."""
    assert suggestions(tool, params, result) == ("Run less at once, run it in the background, or allow more time",)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("pytest -q", "FAILED tests/test_a.py::test_a - assert 1 == 2\n1 failed, 2 passed in 0.10s"),
        ("cargo test", "test a ... FAILED\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured"),
        ("npx jest", "FAIL ./a.test.js\n  \u25cf adds\n\nTests:       1 failed, 1 total"),
    ],
)
def test_tests_that_fail_say_nothing_of_the_arguments(command: str, said: str) -> None:
    """G-363: the run itself went as it was asked for."""
    assert suggestions("Bash", {"command": command}, f"Exit code 1\n{said}") == ("Try a different approach",)


@pytest.mark.parametrize(
    ("said", "again"),
    [
        ("MCP error -32001: Request timed out", False),
        ("TimeoutError: deadline exceeded", False),
        ("Connection to 10.0.0.1 timed out", True),
        ("503 Service Unavailable", True),
    ],
)
def test_a_call_that_took_too_long_is_not_suggested_unchanged(said: str, *, again: bool) -> None:
    steps = ToolObserver(tools=["run_tests"]).observe("run_tests", params={"suite": "all"}, error=said).suggestions
    assert any("run_tests(" in step for step in steps) is again
    assert ("Ask for less at once, or allow more time" in steps) is not again


def test_a_declared_tool_that_was_not_tried_comes_before_giving_up() -> None:
    observer = ToolObserver(tools=["lookup_order", "read_manual", "final_answer", "delete_order"])
    lines = [observer.observe("lookup_order", params={"id": 1}, result=[]).suggestions for _ in range(6)][-1]
    assert lines[0] == "Try read_manual, which you have not used yet"
    assert lines[1].startswith("If nothing else is left")
