"""The outcome of a program that was run, whatever its output speaks of."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tellback.contracts.guidance import OutcomeCode
from tellback.guidance.observations.observer import ToolObserver


def code(tool: str = "run", **given: Any) -> OutcomeCode:
    envelope = ToolObserver(tools=["run", "get_door"]).observe(tool, params={"command": "x"}, **given).envelope
    assert envelope is not None
    return envelope.code


@pytest.mark.parametrize(
    "result",
    [
        {"stdout": "1 failed", "stderr": "", "exit_code": 1},
        {"stdout": "", "stderr": "429 rate limit exceeded", "returncode": 22},
        {"stdout_tail": "", "stderr_tail": "", "exit_code": None, "error": "timed out after 3 s"},
        '{"stdout": "ok", "stderr": "", "exitCode": 137}',
        subprocess.CompletedProcess(["curl"], 6, b"", b"could not resolve host"),
        "Exit code 1\n\nrequest timed out\n" * 40,
        "[exit code: 127] x: not found",
        "Process exited with code 1",
        "Command failed with exit code 2: make",
        "make: *** [all] Error 2",
        "make[1]: *** No rule to make target 'x'.  Stop.",
    ],
)
def test_a_program_that_failed_is_an_error_and_not_the_absence_of_its_tool(result: object) -> None:
    assert code(result=result) == "error"
    if isinstance(result, str) and not result.startswith("{"):
        assert code(error=result) == "error"


@pytest.mark.parametrize(
    "result",
    [
        {"stdout": "x", "stderr": "warning: rate limit", "exit_code": 0},
        subprocess.CompletedProcess(["true"], 0, "done", ""),
        "Exit code 0\nall is well",
        "Process exited with code 0",
        {"exit_code": 3, "name": "the code of the emergency exit"},
        "Return value: 42",
        "Return code 20417 was made for your parcel",
        "Exit code 137 means that the kernel ended the container.",
        {"stdout": "x", "exit_code": True},
    ],
)
def test_a_program_that_succeeded_or_another_record_is_none(result: object) -> None:
    assert code("get_door", result=result) == "ok"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("503 unavailable", "unavailable"),
        ("ECONNRESET: socket hang up", "unavailable"),
        ("connect ETIMEDOUT 10.0.0.1:443", "unavailable"),
    ],
)
def test_short_words_of_a_connection(said: str, expected: OutcomeCode) -> None:
    assert code(result=said) == code(error=said) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Got 429 from the server", "rate_limited"),
        ("API call limit reached. Try tomorrow.", "rate_limited"),
        ("You were blocked: too many searches", "rate_limited"),
        ("Access token expired", "denied"),
        ("API key not valid. Please pass a valid API key.", "denied"),
        ("Your account is suspended", "denied"),
        ("query cannot be empty", "invalid_arguments"),
        ("The date is in the wrong format, expected YYYY-MM-DD", "invalid_arguments"),
        ("Unsupported currency 'ABC'", "invalid_arguments"),
        ("unsupported operand type(s) for +: 'int' and 'str'", "error"),
        ("returned 503 rows too many", "error"),
        ("recursion limit exceeded", "error"),
    ],
)
def test_what_services_say_of_limits_keys_and_values(said: str, expected: OutcomeCode) -> None:
    assert code(error=said) == expected


@pytest.mark.parametrize(
    "said", ["KeyError: 'serch'", "AttributeError: no method 'serch'", "Function serch is not defined"]
)
def test_what_a_host_raises_that_finds_no_such_tool(said: str) -> None:
    assert code("serch", error=said) == "unknown_tool"
    assert code("run", error=said.replace("serch", "run")) == "error", "this one is declared"


@pytest.mark.parametrize("said", ['Page "Xyzzyville" does not exist.', "Nothing matched your query."])
def test_a_page_that_is_not_there_is_no_result(said: str) -> None:
    assert code("get_door", result=said) == "no_results"


def test_an_error_code_that_a_page_explains_is_no_failure() -> None:
    assert code("get_door", result="ECONNRESET is an error code of Node: the peer closed.") == "ok"
