"""The effect of a tool call: whether it reads, searches, runs, tests, writes, waits or plans.

What a call says of itself comes first: an SQL statement here, a command line or an editor's command in `reading`. Then
what a host declares of the tool, which says what it may do, and not what each call does. Then the names of well-known
tools: those of Claude Code, Codex, OpenHands, SWE-agent, moatless, mini-swe-agent, Gemini's CLI, browsers and
databases. Any other name is read by its verb. Requirement G-90.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, Final, Literal

Effect = Literal["none", "plan", "read", "search", "wait", "write", "install", "run", "test", "finish"]
DeclaredEffect = Literal["reads", "writes"]

# From the weakest to the strongest; a command line with several effects has the strongest of them.
EFFECTS: Final[tuple[Effect, ...]] = (
    "none", "plan", "read", "search", "wait", "write", "install", "run", "test", "finish",
)  # fmt: skip


def words_in(*lines: str) -> frozenset[str]:
    """Return the words of these lines."""
    return frozenset(word for line in lines for word in line.split())


def named(effect: Effect, *lines: str) -> dict[str, Effect]:
    """Return a table that gives each word of these lines the effect."""
    return {word: effect for line in lines for word in line.split()}


# Those that only note something down; other plans ask a person.
_NOTES: Final = (
    "todowrite todoread taskcreate taskupdate tasklist taskget write_todos update_plan think sequentialthinking plan",
    "report_progress task_tracker thought scratchpad reflect",
)
# Tools that look at a command that still runs: those of Copilot's CLI and VS Code, Augment, Antigravity and Kiro.
_POLLS: Final = "read_bash read_powershell get_terminal_output read_process command_status getprocessoutput"
_AGENTS: Final = "task agent spawn_agent delegate new_task runsubagent"
_TOOLS: Final[dict[str, Effect]] = {
    **named("plan", *_NOTES, "exitplanmode enterplanmode askuserquestion skill slashcommand request_user_input"),
    **named("wait", "bashoutput taskoutput kill_bash killshell taskstop wait sleep browser_wait_for wait_for", _POLLS),
    **named(
        "search",
        "grep glob websearch semanticsearch findclass findfunction findcodesnippet find_file toolsearch search_files",
        "codebase_search file_search grep_search search_dir search_file search_file_content google_web_search",
        "web_search",
    ),
    **named(
        "read",
        "read view viewcode open ls list_dir read_file webfetch notebookread lsp read_many_files list_directory",
        "browser_snapshot browser_take_screenshot view_image listagents browser_console_messages",
        "browser_network_requests browser_list_tabs",
    ),
    **named(
        "write",
        "edit write multiedit notebookedit apply_patch create insert replace write_file edit_file create_file",
        "undo_edit str_replace append_file stringreplace createfile browser_select_option browser_handle_dialog",
        _AGENTS,  # another agent may change anything
    ),
    **named("test", "runtests run_tests test run_test"),
    **named("finish", "finish submit final_answer complete attempt_completion reject verifiedfinish"),
}
SHELLS: Final = words_in(
    "bash shell execute_bash run_shell_command terminal exec_command local_shell run_terminal_cmd execute_command",
    "run_command exec sh zsh powershell pwsh cmd run_in_terminal shell_command run_shell run_bash bash_tool",
    "execute_shell_command execute_bash_command start_process",
)
INTERPRETERS: Final = words_in(
    "ipython execute_ipython_cell python execute_python code_interpreter run_python run_code executecode execute_code",
    "code_execution python_repl python_exec execute_cell run_cell",
)
# Effects that a declaration leaves as they are: `reads` of a search does not make it a plain read, and a wait, a plan
# or a test run that is declared to write, as a browser's wait is, changes nothing that another call asks for.
_KEPT: Final[dict[DeclaredEffect, frozenset[Effect]]] = {
    "reads": frozenset({"none", "plan", "read", "search", "wait", "test"}),
    "writes": frozenset({"plan", "wait", "write", "install", "test", "finish"}),
}
# Editors whose argument `command` says what they do.
EDITORS: Final = words_in(
    "str_replace_editor str_replace_based_edit_tool editactionarguments file_editor planning_file_editor text_editor"
)

_VERBS: Final[dict[str, Effect]] = {
    **named("plan", "ask"),
    **named("read", "get list read show view describe check calculate count status fetch load download inspect"),
    **named(
        "read", "screenshot snapshot compute calculator verify validate compare summarize translate analyze explain"
    ),
    **named("read", "estimate predict classify parse diagnose retrieve info details history weather forecast docs"),
    **named("read", "documentation knowledge"),
    **named("search", "search find lookup query grep glob browse"),
    **named(
        "write",
        "write create update delete edit insert send book cancel set add remove modify transfer submit exchange return",
        "apply patch click type fill press navigate scroll drag upload post put move rename commit push save restore",
        "go switch input overwrite append clear archive assign merge close reopen enable disable approve reject tap",
        "start stop restart scale rollout rollback deploy terminate kill grant revoke reply refund escalate handoff",
        "reboot reset reschedule register login logout pay notify publish invite",
    ),
    **named("wait", "wait sleep poll"),
    **named("run", "run exec execute test build"),
}
# Words that say it wherever they stand: `update_todo_list` and `search_replace` begin with another verb.
_DECISIVE: Final[dict[str, Effect]] = {**named("plan", "todo todos"), **named("write", "replace")}
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SQL: Final = re.compile(
    r"\s*(?:(select|with|show|explain|pragma|describe)|insert|update|delete|create|drop|alter|merge)\b", re.IGNORECASE
)
# A query that looks for a text; `is null` or `having` checks the data and expects to find nothing.
_SEEKS: Final = re.compile(
    r"\bwhere\b[^;]{0,2000}?(?:\b(?:i?like|regexp|rlike|similar\s+to|match|contains)\b|=\s*'|~)",
    re.IGNORECASE | re.DOTALL,
)


@lru_cache(maxsize=1024)  # each call asks twice, and a fleet has few tools
def plain_name(tool: str) -> str:
    """Return a tool's name without the prefix of its MCP server, in lower case."""
    return tool.rpartition("__")[2].lower().replace("-", "_")


def tool_effect(tool: str, params: Mapping[str, Any], declared: DeclaredEffect | None = None) -> Effect:
    """Return the effect of a call of a tool that is no shell; one that is not known runs something.

    `declared` is what the tool's host says of it.
    """
    name = plain_name(tool)
    found = _TOOLS.get(name)
    if name in _SCREENS:
        action = params.get("action")
        return "read" if action in _SHOTS else "wait" if action == "wait" else "write"
    if name == "write_stdin":  # Codex looks with it at a command that still runs
        return "write" if params.get("chars") else "wait"
    if found is None:
        asked = _statement_effect(name, params)
        if asked is not None and declared != "reads":  # a server that only reads refuses the rest itself
            return asked
        found = _effect_of_verb(tool) or "run"
    if declared is None or found in _KEPT[declared]:
        return found
    return "read" if declared == "reads" else "write"


def named_effect(tool: str, names: Collection[str]) -> Effect | None:
    """Return the effect of all calls with arguments of these names if no value decides it; as without a declaration."""
    name = plain_name(tool)
    asks = "sql" in names or ("query" in names and ("sql" in name or "query" in name))
    if name in _SCREENS or name == "write_stdin" or (asks and name not in _TOOLS):
        return None
    return tool_effect(tool, {})


def _statement_effect(name: str, params: Mapping[str, Any]) -> Effect | None:
    query = params.get("sql", params.get("query"))
    if not isinstance(query, str) or not ("sql" in params or "sql" in name or "query" in name):
        return None
    statement = _SQL.match(query)
    if statement is None:
        return None
    return "write" if not statement[1] else "search" if _SEEKS.search(query) else "read"


# Actions of a tool that works a screen; any other one presses, clicks or types.
_SHOTS: Final = words_in("screenshot cursor_position zoom get_screenshot")
_SCREENS: Final = words_in("computer computer_use computer_20250124")
_PRESSES: Final = re.compile(r"(?:^|_)(?:press|key|scroll|swipe|hover|drag)(?:_|$)")


def presses(tool: str) -> bool:
    """Check whether a call that acts works a key, a wheel or a pointer, which does something else each time."""
    name = plain_name(tool)
    return name in _SCREENS or _PRESSES.search(name) is not None


def _words_of(tool: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(tool.rpartition("__")[2])]


@lru_cache(maxsize=1024)
def _effect_of_verb(tool: str) -> Effect | None:
    words = _words_of(tool)
    found: list[Effect] = [table[word] for table in (_DECISIVE, _VERBS) for word in words if word in table]
    if words[:2] == ["api", "post"] and len(found) > 1:  # the method of its request: `API-post-search` of Notion
        return found[1]
    return found[0] if found else None


# Parts of the names of tools that only coding agents have.
_FILES: Final = re.compile(r"file|edit|code|test|patch|replace|notebook|build|lint|compile")


# `toolsearch` makes tools available that failed before, and `open` may open anything.
_READERS: Final = {
    *(name for name, effect in _TOOLS.items() if effect in ("read", "search")),
    *words_in(*_NOTES),
} - {"toolsearch", "open"}


# Claude Code notes each item of a plan in a call of its own.
_ITEMS: Final = words_in("taskcreate taskupdate taskget")


def notes_an_item(tool: str) -> bool:
    """Check whether a call notes one item of a plan, of which there may be many, and not the whole plan again."""
    return plain_name(tool) in _ITEMS


def only_organizes(tool: str) -> bool:
    """Check whether a tool only plans, asks a person, or hands work to another agent."""
    return plain_name(tool) in _AGENTS.split() or tool_effect(tool, {}) == "plan"


def surely_reads(tool: str) -> bool:
    """Check whether the name alone shows that no call of the tool can change what another one finds."""
    return "__" not in tool and plain_name(tool) in _READERS


def works_on_code(tool: str) -> bool:
    """Check whether the name alone shows a tool of coding agents, and not of somebody's service."""
    name = plain_name(tool)
    if "web" in name or "browser" in name or name in _AGENTS.split():
        return False
    shell = "bash" in name or "shell" in name or name in SHELLS
    own = name in _TOOLS and "__" not in tool  # `create` of a server is its own
    return shell or own or name in EDITORS or name in INTERPRETERS or bool(_FILES.search(name))


def is_known(tool: str) -> bool:
    """Check whether the name alone shows the effect."""
    return plain_name(tool) in _TOOLS


@lru_cache(maxsize=1024)
def says_nothing(tool: str) -> bool:
    """Check whether a name of several words does not show what a call does; one word alone names what is asked."""
    return len(_words_of(tool)) > 1 and not is_known(tool) and _effect_of_verb(tool) is None
