"""Coding: read, edit and test until the tests pass, and the ways of being stuck on the way.

A run makes progress for some calls, gets stuck in the way of its mode and, once free, continues to the end. After each
call while it is stuck the agent frees itself with a small chance that differs from agent to agent. With guidance it is
also freed as often as it follows a nudge; a nudge that it follows while it makes progress costs it two calls elsewhere.
So a table shows whether nudges come, how soon, and what false ones cost. That a nudge frees is assumed, not measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from benchmarks.failure_modes.agent import Move
from benchmarks.failure_modes.runs import AgentGuide, AgentRun, FleetCooldowns
from benchmarks.failure_modes.tools import ToolReply, ToolWorld
from tellback.guidance.repeats import attempt_fingerprint

CALLS_MAX: Final = 40
LEAVES_MAX: Final = 0.08  # the largest chance that an agent leaves the rut by itself, at each call
DETOUR: Final = 2  # calls that a heeded nudge costs an agent that gets on
FAILING: Final = 5  # tests that fail at the beginning
QUESTION: Final = "Make the failing tests of the parser pass."
SOURCE: Final = "src/parser.py"

Step = tuple[Move, ToolReply]


def _schema(*names: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": list(names)}


TOOLS: Final = {
    "Bash": _schema("command"),
    "Read": _schema("file_path"),
    "Grep": _schema("pattern"),
    "Edit": _schema("file_path", "old_string", "new_string"),
}


def _bash(command: str, text: str, *, failed: bool = False) -> Step:
    return Move("Bash", {"command": command}), ToolReply(text, error=failed)


def _edit(old: str, new: str, refused: str = "") -> Step:
    move = Move("Edit", {"file_path": SOURCE, "old_string": old, "new_string": new})
    return move, ToolReply(refused or f"The file {SOURCE} has been updated.", error=bool(refused))


def _read(name: str) -> Step:
    stem = name.rpartition("/")[2][:-3]
    return Move("Read", {"file_path": name}), ToolReply(f"1\t# {name}\n2\tdef {stem}(text): ...")


def _test(*failing: str) -> Step:
    """A run of the tests in which these fail."""
    lines = [f"FAILED tests/test_parser.py::{name} - AssertionError: {name} differs" for name in failing]
    count = f"{len(failing)} failed, {20 - len(failing)} passed" if failing else "20 passed"
    return _bash("pytest tests", "\n".join([*lines, f"==== {count} in 0.41s ===="]), failed=bool(failing))


def getting_on() -> list[Step]:
    """The calls of a run in which nothing goes wrong: each edit fixes one test."""
    names = [f"test_case_{n}" for n in range(FAILING)]
    steps = [_read("src/parser.py"), _read("src/lexer.py"), _test(*names)]
    for n in range(FAILING):
        steps += [_edit(f"case_{n} = None", f"case_{n} = parse_{n}(text)"), _test(*names[n + 1 :])]
    return steps


def _same_failure(n: int) -> Step:
    command = ("python -m pytest tests", "cd /repo && pytest tests -q", "pytest -x tests 2>&1 | tail -5")[n % 3]
    where = "" if n < 3 else f"PYTHONPATH=src:{n} "
    return _bash(where + command, "ModuleNotFoundError: No module named 'yaml'", failed=True)


def _edit_test_same_failure(n: int) -> Step:
    return _test("test_case_1") if n % 2 else _edit(f"value = {n}", f"value = {n + 2}")


def _undone_redone(n: int) -> Step:
    steps = (
        _edit("strict=True", "strict=False"),
        _test("test_case_1"),
        _bash(f"git checkout {SOURCE}", "Updated 1 path"),
    )
    return steps[n % 3]


def _alternating(n: int) -> Step:
    there, back = _edit("left(text)", "right(text)"), _edit("right(text)", "left(text)")
    return (there, _test("test_case_1"), back, _test("test_case_2"))[n % 4]


def _same_read(n: int) -> Step:
    first = 100 + n % 4
    lines = (f"{line}: token_{line} = next(tokens)" for line in range(first, first + 30))
    return _bash(f"sed -n '{first},{first + 29}p' {SOURCE}", "\n".join(lines))


def _empty_search(n: int) -> Step:
    return Move("Grep", {"pattern": f"{('escape', 'quote', 'unescape')[n % 3]}_{n}"}), ToolReply("No matches found")


def _worse(n: int) -> Step:
    failing = [f"test_case_{each}" for each in range(min(20, 2 + n // 2))]
    return _test(*failing) if n % 2 else _edit(f"guard_{n}", f"unguarded_{n}")


def _tool_fails_always(n: int) -> Step:
    return _edit(f"line {n} as remembered", "another", "String to replace not found in file.")


def _waiting_for_dead(n: int) -> Step:
    return _bash(f"sleep {30 + n % 2}; tail -2 build.log", "linking\nprocess 4121 exited with code 137")


def _after_done(n: int) -> Step:
    steps = (_test(), _bash("git diff --stat", f" {SOURCE} | 10 +++++-----"), _bash("git status", f"M {SOURCE}"))
    return steps[n % 3]


def _no_substance(n: int) -> Step:
    commands = {
        "pwd": "/repo",
        "ls": "src tests",
        "git log -1 --oneline": "1f2e3d4 Add a parser",
        "ls src": "parser.py lexer.py",
    }
    command, text = list(commands.items())[n % 4]
    return _bash(f"{command} # {n}", text)


@dataclass(frozen=True, slots=True)
class CodingMode:
    """A way of being stuck while coding; without a rut the run gets on to its end."""

    name: str
    what: str
    rut: Callable[[int], Step] | None
    done: bool = False  # the rut begins once all tests pass
    agents: int = 1


CODING: Final = (
    CodingMode("coding_getting_on", "nothing goes wrong: guidance must stay silent", None),
    CodingMode("coding_same_failure", "a missing module, with the command changed a little", _same_failure),
    CodingMode("coding_edit_test_same_failure", "edits that leave the same test failing", _edit_test_same_failure),
    CodingMode("coding_undone_redone", "one edit made, tested and undone again and again", _undone_redone),
    CodingMode("coding_alternating", "two edits in turn, each with its own failure", _alternating),
    CodingMode("coding_same_read", "the same lines in shifting ranges", _same_read),
    CodingMode("coding_empty_search", "searches for other words that find nothing", _empty_search),
    CodingMode("coding_worse", "each edit breaks one more test", _worse),
    CodingMode("coding_tool_fails_always", "an editor that refuses whatever is asked", _tool_fails_always),
    CodingMode("coding_waiting_for_dead", "polls of a build that has died", _waiting_for_dead),
    CodingMode("coding_after_done", "checks again and again what has passed", _after_done, done=True),
    CodingMode("coding_no_substance", "commands that show nothing new", _no_substance),
)


def play_coding(mode: CodingMode, seed: int, *, guided: bool, compliance: float = 0.0) -> list[AgentRun]:
    """One run of a mode; the same seed has the same way, and leaves the rut by itself at the same call."""
    own, obeys = Random(f"coder {mode.name} {seed}"), Random(f"obeys {mode.name} {seed}")
    way, leaves = getting_on(), own.uniform(0, LEAVES_MAX)
    enters = len(way) if mode.done else own.randrange(3, len(way))
    world = ToolWorld(TOOLS)
    guide = AgentGuide(world, FleetCooldowns(world), QUESTION, str(seed)) if guided else None
    run, attempts, failed = AgentRun(), Counter[str](), set[str]()
    place = turns = detour = 0
    stuck = False
    while run.calls < CALLS_MAX:
        if mode.rut is not None and place == enters and turns == 0:
            stuck = True
        if mode.rut is not None and stuck:
            step, turns = mode.rut(turns), turns + 1
        elif detour:
            step, detour = _read(f"src/other_{run.calls}.py"), detour - 1
        elif place < len(way):
            step, place = way[place], place + 1
        else:
            run.solved = True
            break
        move, reply = step
        _count(run, attempts, failed, step)
        world.now += 1.0
        nudged = guide is not None and guide.see(move, reply)[1]
        run.nudges += nudged
        heeds = nudged and obeys.random() < compliance
        run.taken += heeds
        if stuck:
            stuck = own.random() >= leaves and not heeds
        elif heeds:
            detour = DETOUR
    return [run]


def _count(run: AgentRun, attempts: Counter[str], failed: set[str], step: Step) -> None:
    move, reply = step
    attempt = attempt_fingerprint(move.tool, move.args)
    run.calls += 1
    attempts[attempt] += 1
    run.loops += attempts[attempt] == 3
    run.repeated += attempt in failed
    if reply.error:
        failed.add(attempt)
