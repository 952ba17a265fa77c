"""The decision whether a tool call is certain to repeat a failure, from the trail of the session's calls.

`certain_failures` is the only judge, a pure function of the trail. It errs towards "not certain": whatever it does not
know to be a reader may have changed something, and a failure that time alone may heal is never held against a call.
What a call does is known by `tellback.guidance.progress`, of which only modules without msgspec are imported here.
Requirement G-79.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from tellback.guidance.progress import effects, programs
from tellback.guidance.progress.substance import without_volatile
from tellback.guidance.shell import COMMAND_CHARS, simple_commands

# What `simple_commands` does not show: substitutions, a redirection of both outputs, which it takes for one of file
# descriptors, and runners, which may install something. In quotes they may be mere text, which is a doubt too.
_HIDDEN: Final = re.compile(r"`|\$\(|[<>]\(|>&(?![\d-])|\b(?:run|exec|npx)\b")

# What leaves something running, and what Claude Code and Codex say of a command that does.
_STARTS: Final = re.compile(
    r"(?<![&>])&(?![&>\d])|\b(?:nohup|setsid|disown|tmux|screen|systemctl|detach|daemon)|[ ]-d\b"
)
_RUNNING: Final = re.compile(r'"backgroundTaskId"\s*:\s*"|running with session ID|running in (?:the )?background')

# Failures that waiting may heal: the same call can pass without any change.
_PASSING: Final = re.compile(
    r"time[d]?[ -]?out|rate.?limit|too many requests|\b(?:429|502|503|504)\b|temporar|unavailable|try again|connection"
    r"|network|resolve host|resolution|refused|reset by peer|overloaded|\block(?:ed)?\b|in use|cancel|interrupt"
    r"|\buser\b|permission to use|hook",
    re.IGNORECASE,
)


def certain_failures(
    trail: Sequence[Mapping[str, Any]], evaluation: str, tool: str, params: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """Return the failures that the call would repeat, newest first: none unless it is certain to fail again.

    They are the agent's own calls of the same tool with exactly these arguments, which failed in the same way with
    nothing in between that may have changed the outcome, whoever made it. A call that only reads is never certain to
    fail, since it costs nothing to look again; nor is any call while something that the trail shows may still run.
    """
    found: list[Mapping[str, Any]] = []
    way = ""
    if not may_change(tool, params) or any(_may_go_on(call, evaluation) for call in trail):
        return found
    for call in reversed(trail):
        if call.get("tool") != tool or _effective(call.get("params", {})) != _effective(params):
            if may_change(str(call.get("tool")), call.get("params", {})):
                break
            continue
        if call.get("evaluation") != evaluation or not _failed_for_good(call):
            break
        text = failure_text(call)
        again = without_volatile(text)
        if not again or _PASSING.search(text) or (found and again != way):
            break
        way = again
        found.append(call)
    return found


def _may_go_on(call: Mapping[str, Any], evaluation: str) -> bool:
    """Return whether a call, or its agent, may still be at work: in the background, or beside the agent asked about.

    A call is in the trail once it has ended; what another agent is doing at this moment is not.
    """
    tool, given, other = str(call.get("tool")), call.get("params"), str(call.get("evaluation"))
    if other != evaluation and not evaluation.startswith(f"{other}/"):
        return True
    if effects.only_organizes(tool) and effects.tool_effect(tool, {}) != "plan":  # an agent to which work is handed
        return True
    params = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    line = params.get("command", params.get("cmd"))
    started = isinstance(line, str) and effects.plain_name(tool) in effects.SHELLS and _STARTS.search(line)
    return bool(started or params.get("run_in_background") or _RUNNING.search(str(call.get("result") or "")))


def _failed_for_good(call: Mapping[str, Any]) -> bool:
    """Return whether a call failed, by its status or the outcome that a worker gave it, and not in passing."""
    outcome = cast("Mapping[str, Any]", call.get("outcome") or {})
    failed = call.get("status", "success") == "error" or outcome.get("status") == "error"
    return failed and not outcome.get("retryable") and not outcome.get("doubtful")


def _effective(params: object) -> dict[str, Any]:
    """Return the arguments without the remark that Claude Code's `Bash` takes beside its command."""
    given = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
    return {key: value for key, value in given.items() if key != "description" or "command" not in given}


def failure_text(call: Mapping[str, Any]) -> str:
    """Return the error or else the result of a failed call."""
    return str(call.get("error") or call.get("result") or "")


def may_change(tool: str, params: object) -> bool:
    """Return whether a call may have changed anything: True for every tool and command that is not a known reader."""
    if effects.plain_name(tool) not in effects.SHELLS:
        return not effects.surely_reads(tool)
    given = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
    line = given.get("command", given.get("cmd"))
    if not isinstance(line, str) or len(line) > COMMAND_CHARS or _HIDDEN.search(line):
        return True
    return not all(map(programs.surely_reads, simple_commands(line)))
