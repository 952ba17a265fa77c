"""The output of a call is the same whatever an agent's program puts around it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.guidance.progress.output import printed_by
from tellback.guidance.progress.substance import last_line
from tests.support.dialects import SHELLS, Shell

SAID = "collected 3 items\n  indented [1]\nError: x != y"


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("said", [SAID, ""])
@pytest.mark.parametrize("sh", SHELLS)
def test_what_a_command_printed_is_the_same_in_every_program(sh: Shell, said: str, code: int) -> None:
    printed = printed_by(sh("make test", said, code)[2])
    assert printed.strip() == said


@pytest.mark.parametrize(
    "written",
    [
        "<output>\nstart\n{}\n</output>\n",
        "start\n{}[Python Interpreter: /usr/bin/python]\nroot@host:/repo # \n[Command finished with exit code 1]",
        "start\n{}\n[Command finished with exit code 1]",
        "start\n{}\n[The command completed with exit code 1.]\n[Current working directory: ]\n[Python interpreter: p]",
        "start\n{}\n<system-reminder>\nMind the file.\n</system-reminder>",
        "start\n{}\nShell cwd was reset to /repo",
        "start\n{}\n(Open file: n/a)\n(Current directory: /repo)\nbash-$",
        "Exit code: 1\nWall time: 0.2 seconds\nTotal output lines: 2\nOutput:\nstart\n{}",
        "Command: a\nb\nDirectory: (root)\nOutput: start\n{}\nError: (none)\nExit Code: 1\nSignal: (none)",
        "Command executed in terminal  within working directory '/r'. Exit code: 0\nOutput:\nstart\n{}",
        "start\n 10%\r 50%\r100%\n{}",
        "start\n\x1b[1m\x1b[31m{}\x1b[0m\n",
    ],
    ids=[
        "mini-swe-agent",
        "OpenHands",
        "OpenHands, other",
        "OpenHands, new",
        "Claude Code",
        "Claude Code, other",
        "SWE-agent",
        "Codex",
        "Gemini",
        "Roo Code",
        "a progress bar",
        "colours",
    ],
)
def test_the_last_line_is_that_of_the_output_without_what_a_harness_writes(written: str) -> None:
    printed = printed_by(written.format("Error: x != y"))
    assert (last_line(printed), printed.split()[0]) == ("Error: x != y", "start")


@pytest.mark.parametrize(
    "record",
    [
        {"stdout": SAID, "stderr": "", "interrupted": False},
        {"returncode": 1, "output": SAID},
        {"output": SAID},
        {"content": [{"type": "text", "text": SAID}], "isError": False},
        [{"type": "text", "text": json.dumps({"output": SAID, "metadata": {"exit_code": 1}})}],
    ],
)
def test_a_record_holds_what_was_printed(record: object) -> None:
    assert printed_by(json.dumps(record)) == SAID


def test_a_record_whose_middle_was_left_out_is_read_as_lines() -> None:
    text = json.dumps({"output": f"{SAID}\n{'x' * 90}", "metadata": {"exit_code": 1}})
    assert printed_by(f"{text[:60]} … {text[-40:]}").startswith(SAID[:40])


@pytest.mark.parametrize("data", ['{"output": "a", "id": 1}', '[{"id": 1}]', '{"items": [{"name": "a"}]}', "{", "null"])
def test_data_that_no_program_printed_stays_as_it_is(data: str) -> None:
    assert printed_by(data) == data


@given(st.text(alphabet='{}[]"\\<>/ab \n\r\x1b1:', max_size=80))
def test_any_text_can_be_read(text: str) -> None:
    assert isinstance(printed_by(text), str)


def test_a_record_without_its_middle_is_read_as_what_it_printed() -> None:
    cut = '{"stdout": "one\\ntwo \\"x\\"\\n…[4 bytes left out]…\\nlast'
    assert printed_by(cut) == 'one\ntwo "x"\n…[4 bytes left out]…\nlast'


def test_an_exit_code_that_the_command_prints_is_a_part_of_its_output() -> None:
    """G-352: `make; echo "Exit code: $?"` said nothing new when it went through."""
    assert printed_by("linked\nExit code: 1") != printed_by("linked\nExit code: 0")
    assert printed_by("linked\nExit code 1") != printed_by("linked\nExit code 0")
