"""Calls and results as the programs of several makers write them, and what guidance says of a run of them.

The forms are those of recorded transcripts and of the programs' own sources: each puts something else around what a
command printed.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Final, Protocol

from tellback.contracts.guidance import Feedback
from tellback.replay.accounts import GuidanceAnalyzer
from tellback.replay.reading import parse_line
from tellback.replay.transcript import BadLine

MadeCall = tuple[str, dict[str, object], str]


class Shell(Protocol):
    """A program's way to show that a command line printed `said` and ended with `code`."""

    def __call__(self, command: str, said: str = "", code: int = 0) -> MadeCall: ...


def mini_swe_agent(command: str, said: str = "", code: int = 0) -> MadeCall:
    return "bash", {"command": command}, f"<returncode>{code}</returncode>\n<output>\n{said}\n</output>"


def claude_code(command: str, said: str = "", code: int = 0) -> MadeCall:
    said = said or "(Bash completed with no output)"
    params: dict[str, object] = {"command": command, "description": f"Look at {len(said)} things"}
    return "Bash", params, f"Exit code {code}\n{said}" if code else said


def openhands(command: str, said: str = "", code: int = 0) -> MadeCall:
    footer = f"[Python Interpreter: /usr/bin/python]\nroot@h:/w # \n[Command finished with exit code {code}]"
    return "execute_bash", {"command": command}, said + footer


def codex_json(command: str, said: str = "", code: int = 0) -> MadeCall:
    result = {"output": said, "metadata": {"exit_code": code, "duration_seconds": round(len(command) / 7, 1)}}
    return "shell", {"command": ["bash", "-lc", command], "workdir": "/r"}, json.dumps(result)


def codex_exec(command: str, said: str = "", code: int = 0) -> MadeCall:
    above = (
        f"Chunk ID: {len(said + command):06x}\nWall time: 0.{len(command):04} seconds\nProcess exited with code {code}"
    )
    return "exec_command", {"cmd": command, "workdir": "/r"}, f"{above}\nOriginal token count: 9\nOutput:\n{said}"


def gemini_cli(command: str, said: str = "", code: int = 0) -> MadeCall:
    below = f"Error: (none)\nExit Code: {code}\nSignal: (none)\nProcess Group PGID: {41_000 + len(command + said)}"
    result = f"Command: {command}\nDirectory: (root)\nOutput: {said or '(empty)'}\n{below}"
    return "run_shell_command", {"command": command, "description": "Runs it."}, result


def gemini_reply(command: str, said: str = "", code: int = 0) -> MadeCall:
    """Gemini's API has an answer in `output`; its terminal names the signal 0 and the processes that it left."""
    tool, params, result = gemini_cli(command, said, code)
    below = "Signal: 0\nBackground PIDs: 4917, 4918"
    return tool, params, json.dumps({"output": result.replace("Signal: (none)", below)})


def copilot_cli(command: str, said: str = "", code: int = 0) -> MadeCall:
    params: dict[str, object] = {"command": command, "description": f"Look at {len(said)} things", "initial_wait": 60}
    return "bash", params, f"{said}\n<exited with exit code {code}>"


def crush(command: str, said: str = "", code: int = 0) -> MadeCall:
    said += f"\nExit code {code}" if code else ""
    return "bash", {"command": command, "description": "Runs it."}, f"{said}\n\n<cwd>/r</cwd>"


def augment(command: str, said: str = "", code: int = 0) -> MadeCall:
    heading = "Here are the results from executing the command."
    result = f"{heading}\n<return-code>\n{code}\n</return-code>\n<output>\n{said}\n</output>"
    return "launch-process", {"command": command, "wait": True, "max_wait_seconds": 60, "cwd": "/r"}, result


def antigravity(command: str, said: str = "", code: int = 0) -> MadeCall:
    """Its name of the command differs; exit codes are left out."""
    del code
    return "run_command", {"CommandLine": command, "Cwd": "/r", "WaitMsBeforeAsync": 500}, said


def cline(command: str, said: str = "", code: int = 0) -> MadeCall:
    ended = f"Command executed with exit code {code}." if code else "Command executed."
    return "execute_command", {"command": command, "requires_approval": "false"}, f"{ended}\nOutput:\n{said}"


def cursor(command: str, said: str = "", code: int = 0) -> MadeCall:
    result = f"Exit code: {code}\n\nCommand output:\n\n```\n{said}\n```\n\nCommand completed in {len(said) + 80} ms."
    return "run_terminal_cmd", {"command": command, "explanation": f"Checking {len(said)}"}, result


def swe_agent(command: str, said: str = "", code: int = 0) -> MadeCall:
    """SWE-agent's shell reports no exit code."""
    del code
    return "bash", {"command": command}, f"{said}\n(Open file: n/a)\n(Current directory: /repo)\nbash-$"


def colours(command: str, said: str = "", code: int = 0) -> MadeCall:
    lines = "\r\n".join(f"\x1b[31m{line}\x1b[0m" for line in said.splitlines())
    result = {"stdout": lines, "stderr": "", "exit_code": code}
    return "terminal", {"command": f"bash -lc {shlex.quote(command)}"}, json.dumps(result)


SHELLS: Final[tuple[Shell, ...]] = (
    mini_swe_agent,
    claude_code,
    openhands,
    codex_json,
    codex_exec,
    gemini_cli,
    gemini_reply,
    copilot_cli,
    crush,
    augment,
    antigravity,
    cline,
    cursor,
    swe_agent,
    colours,
)


def nudges_in(calls: Sequence[MadeCall]) -> list[tuple[int, Feedback]]:
    """Return what an agent that made these calls would have read, and after which call."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "Make the tests pass."}]
    for n, (tool, params, result) in enumerate(calls):
        function = {"name": tool, "arguments": json.dumps(params)}
        messages.append({"role": "assistant", "tool_calls": [{"id": f"c{n}", "function": function}]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "name": tool, "content": result})
    talk = parse_line(1, json.dumps({"messages": messages}).encode())
    assert not isinstance(talk, BadLine)
    account = GuidanceAnalyzer().analyze(talk, [])
    return [(call.index, each) for call in account.tool_calls for each in call.provider_feedback]


def spoken(calls: Sequence[MadeCall]) -> list[int]:
    """Return the calls after which such an agent would have read something."""
    return [call for call, _ in nudges_in(calls)]


def reported(calls: Sequence[MadeCall]) -> list[tuple[int, str]]:
    """Return these calls, and the summary of what it would have read."""
    return [(call, each.summary) for call, each in nudges_in(calls)]


def step_of(calls: Sequence[MadeCall]) -> str:
    """Return the first step that the first nudge suggests."""
    return nudges_in(calls)[0][1].suggestions[0]


def woven(*rows: list[MadeCall]) -> list[MadeCall]:
    """Return the first call of each row, then the second of each, and so on."""
    return [call for calls in zip(*rows, strict=True) for call in calls]
