"""The agent programs whose hooks we install: their files, their events, and the command that each event runs.

The command names `tellback` without a path, so a settings file can be committed: a user without Tellback sees one
message a session, and their agent works as before. Requirement G-78.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tellback.errors import ConfigurationError
from tellback.hook.options import EVENTS

PROGRAM: Final = "tellback"
POLICY_EVENT: Final = "pre-tool-use"  # installed with a policy only: each event is a process that the agent waits for
_MISSING: Final = (
    "Tellback is not on PATH, so its hooks do nothing and the agent works as before. To use them, install Tellback, or "
    "start the agent where `tellback` is found."
)
_FOUND: Final = "command -v tellback >/dev/null || "
# `systemMessage` is what both programs show to the user; every other event stays silent without Tellback.
_GUARDS: Final = (
    f"{_FOUND}{{ echo {shlex.quote(json.dumps({'systemMessage': _MISSING}))}; exit 0; }}; ",
    f"{_FOUND}exit 0; ",
)


class AgentProgram(NamedTuple):
    """A program that runs hook commands; `events` maps our names of events to its own.

    `local` is the file of one person in a project, "" if the program has none, `shared` the one that a team commits,
    and `folder` the variable that names another folder than `user` has.
    """

    name: str
    title: str
    events: Mapping[str, str]
    local: str
    shared: str
    user: str
    folder: str
    matched: frozenset[str] = frozenset()
    hint: str = ""

    def user_file(self) -> Path:
        """Return the file of the user."""
        own = os.environ.get(self.folder)
        return Path(own) / Path(self.user).name if own else Path(self.user).expanduser()

    def commands(self, program: str, arguments: Sequence[str], *, policy: bool) -> dict[str, str]:
        """Return the command of each event that is installed."""
        return {
            event: hook_command(program, name, arguments)
            for name, event in self.events.items()
            if policy or name != POLICY_EVENT
        }


_COMMON: Final = {
    "session-start": "SessionStart",
    "user-prompt-submit": "UserPromptSubmit",
    "pre-tool-use": "PreToolUse",
    "post-tool-use": "PostToolUse",
    "subagent-start": "SubagentStart",
    "subagent-stop": "SubagentStop",
    "stop": "Stop",
}
CLAUDE_CODE: Final = AgentProgram(
    name="claude",
    title="Claude Code",
    events={**_COMMON, "post-tool-use-failure": "PostToolUseFailure"},
    local=".claude/settings.local.json",
    shared=".claude/settings.json",
    user="~/.claude/settings.json",
    folder="CLAUDE_CONFIG_DIR",
    matched=frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure"}),
)
CODEX: Final = AgentProgram(
    name="codex",
    title="Codex",
    events=_COMMON,
    local="",
    shared=".codex/hooks.json",
    user="~/.codex/hooks.json",
    folder="CODEX_HOME",
    hint="Codex runs new and changed hooks only after you have trusted them: start it and open /hooks. It reads "
    "the file of a project only if you have trusted the project.",
)
PROGRAMS: Final = {each.name: each for each in (CLAUDE_CODE, CODEX)}


def program_named(name: str) -> AgentProgram:
    """Return the program with this name.

    Raises:
        ConfigurationError: there is none.
    """
    if name not in PROGRAMS:
        raise ConfigurationError(f"no program {name!r}: hooks can be installed for {', '.join(PROGRAMS)}")
    return PROGRAMS[name]


def hook_command(program: str, name: str, arguments: Sequence[str]) -> str:
    """Return the command line of an event's hook; one that names `tellback` without a path minds its absence."""
    guard = _GUARDS[name != "session-start"] if program == PROGRAM else ""
    return guard + shlex.join([program, "hook", name, *arguments])


def event_of_command(command: str) -> str | None:
    """Return our name of the event whose hook the command is, of this or an earlier version; None if it is not ours."""
    if command.startswith(_FOUND):  # the text between differs from version to version
        end = "exit 0; }; " if command.startswith(f"{_FOUND}{{") else "exit 0; "
        command = command.partition(end)[2]
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    ours = len(words) > 2 and Path(words[0]).name == PROGRAM and words[1] == "hook" and words[2] in EVENTS
    return words[2] if ours else None
