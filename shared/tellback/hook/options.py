"""The options of one hook process, and the configuration file of the guidance that it requests.

Arguments override `TELLBACK_*` variables, which override the defaults of `tellback.Settings`; those are repeated here,
since importing `Settings` costs too much. The configuration file is TOML:

prompt = "coding"            # the name of the prompt
deadline = 3600              # seconds from the beginning of the agent's session
question = "What is asked"   # what providers and observations keep in view
delivery = "first"
tools = ["Bash", "Read"]
required_files = ["report.md"]  # an agent that stops without them is sent back once
required_tools = ["Bash"]    # the same for tools that have not succeeded in its session
todos = true                 # the same for open items on its own list (TodoWrite, TaskCreate, update_plan)
subagents = true             # the main agent reads of a subagent that ended stuck or failed
checklist = ["The tests pass"]  # points that it must check before it stops

[[providers]]
name = "DeadlineFeedback"
every_n_calls = 5
every_n_seconds = 30
fields = { warning_threshold_seconds = 120 }
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from tellback.contracts.limits import MAX_NAME_CHARS, MAX_TRACEPARENT_CHARS, SCHEMA_VERSION
from tellback.errors import ConfigurationError
from tellback.light_struct import LightStruct
from tellback.names import check_data_dir, check_team
from tellback.small_files import read_file

EVENTS: Final = {  # name on the command line -> name in the agent's JSON
    "session-start": "SessionStart",
    "user-prompt-submit": "UserPromptSubmit",
    "pre-tool-use": "PreToolUse",
    "post-tool-use": "PostToolUse",
    "post-tool-use-failure": "PostToolUseFailure",
    "subagent-start": "SubagentStart",
    "subagent-stop": "SubagentStop",
    "stop": "Stop",
}

# Events of agents' programs at which there is nothing to do. A person may install one by hand, for symmetry.
UNUSED_EVENTS: Final = frozenset({"session-end", "pre-compact", "post-compact", "notification", "permission-request"})

FLAGS: Final = {
    "--prompt": "prompt",
    "--config": "hook_config",
    "--policy": "hook_policy",
    "--redis-url": "redis_url",
    "--team": "team",
    "--wait": "hook_wait",
}

_USUAL_WAIT: Final = 0.05

DEFAULTS: Final = {  # those of `tellback.Settings`; a test compares them
    "redis_url": "redis://127.0.0.1:6379/0",
    "team": "default",
    "shards": 4,
    "intake_max": 100_000,
    "intake_max_bytes": 512 << 20,
    "spool_max_bytes": 256 << 20,
    "hook_wait": _USUAL_WAIT,
}

PROMPT: Final = "agent"

# Seconds. In a millisecond Redis is hardly asked: the event is kept on disk, and a later hook sends it.
LEAST_WAIT: Final = 0.001
LONGEST_WAIT: Final = 10.0


class HookOptions(LightStruct):
    """The options of a hook process; `wait` is the longest time in seconds that it spends on Redis.

    `traceparent` is the trace context of the agent's program, for the workers' spans.
    """

    redis_url: str
    team: str
    shards: int
    data: str
    intake_max: int
    intake_max_bytes: int
    spool_max_bytes: int
    wait: float
    prompt: str | None
    config: str
    redaction_rules: str
    policy: str = ""
    host: str = ""
    traceparent: str = ""


def read_options(arguments: Sequence[str], environ: Mapping[str, str], *, strict: bool = False) -> HookOptions:
    """Return the options from arguments and environment; `strict` refuses an empty one and a wait no hook could use.

    Raises:
        ConfigurationError: an argument or a variable is wrong; the message names it.
    """
    given = _parse_flags(arguments, strict=strict)
    data = data_folder(environ)

    def text(name: str) -> str:
        return given.get(name) or environ.get(f"TELLBACK_{name.upper()}") or str(DEFAULTS.get(name, ""))

    # A Redis that is named explicitly wins over a running `tellback up`, and that wins over the default.
    url = text("redis_url") if given.get("redis_url") or environ.get("TELLBACK_REDIS_URL") else ""
    if not url:
        from tellback.connection_file import find_running_in

        running = find_running_in(data)
        url = running.redis_url if running else text("redis_url")
    named_wait = "--wait" if "hook_wait" in given else "TELLBACK_HOOK_WAIT"
    return HookOptions(
        redis_url=url,
        team=check_team(text("team")),
        shards=_whole_number("shards", text("shards"), 1, 1024),
        data=data,
        intake_max=_whole_number("intake_max", text("intake_max"), 1, 2**62),
        intake_max_bytes=_whole_number("intake_max_bytes", text("intake_max_bytes"), 1, 2**62),
        spool_max_bytes=_whole_number("spool_max_bytes", text("spool_max_bytes"), 4096, 2**62),
        wait=_seconds_value(named_wait, text("hook_wait"), strict=strict),
        prompt=given.get("prompt"),
        config=text("hook_config"),
        redaction_rules=text("redaction_rules"),
        policy=text("hook_policy"),
        host=text("host") or os.uname().nodename,
        traceparent=_trace_context(environ),
    )


def _trace_context(environ: Mapping[str, str]) -> str:
    """Return the context in the environment, by OpenTelemetry's name for it; workers take a malformed one for none."""
    found = environ.get("TRACEPARENT", "")
    traced = environ.get("TELLBACK_TRACING", "").lower() in {"1", "true"}  # else an earlier worker may refuse the event
    return found if traced and len(found) <= MAX_TRACEPARENT_CHARS else ""


def _parse_flags(arguments: Sequence[str], *, strict: bool) -> dict[str, str]:
    given: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        flag, sign, value = argument.partition("=")
        if flag not in FLAGS:
            raise ConfigurationError(f"unknown option {flag!r}; use {', '.join(FLAGS)}")
        value = value if sign else next(rest, "")
        if value:
            given[FLAGS[flag]] = value
        elif strict:
            raise ConfigurationError(f"{flag} has no value")
    return given


def find_file(path: str, folder: object, environ: Mapping[str, str]) -> str:
    """Return the path of a file that a settings file names relative to the project.

    It is looked for in the project that the agent's program names, else in the agent's folder, and in those above it up
    to the root of the repository: others may write further up, as in /tmp. Claude Code takes a person's own settings
    from the main checkout of a worktree, so that may have the file too.
    """
    if not path or path.startswith("/"):
        return path
    start = environ.get("CLAUDE_PROJECT_DIR") or (folder if isinstance(folder, str) else "") or os.getcwd()
    while True:
        found, git, above = f"{start}/{path}", f"{start}/.git", os.path.dirname(start)
        if os.path.exists(found) or os.path.isdir(git):
            return found
        if above == start:
            return path
        if os.path.isfile(git) and (checkout := _checkout_of(start)):
            return f"{checkout}/{path}"
        start = above


def _checkout_of(folder: str) -> str:
    """Return the checkout whose settings a folder with a file `.git` has; "" for a submodule: that of what it is in."""
    try:
        text = read_file(f"{folder}/.git").decode("utf-8", "surrogateescape")
    except OSError:
        return folder
    main, _, within = text.removeprefix("gitdir: ").partition("/.git/")
    if "/modules/" in f"/{within}":
        return ""
    return main if within.startswith("worktrees/") else folder  # of a bare repository, or of one that is elsewhere


def data_folder(environ: Mapping[str, str]) -> str:
    """Return the directory of this user's local files, the same as `Settings.data_path`.

    Raises:
        ConfigurationError: its path is relative, or no variable names it and the user has no home directory.
    """
    if given := environ.get("TELLBACK_DATA_DIR"):
        return check_data_dir(given)
    share = environ.get("XDG_DATA_HOME", "")
    if not share.startswith("/"):
        share = f"{_home_folder(environ)}/.local/share"
    return f"{share}/tellback"


def _home_folder(environ: Mapping[str, str]) -> str:
    home = environ.get("HOME") or os.path.expanduser("~")
    if not home.startswith("/"):
        raise ConfigurationError("this user has no home directory: set TELLBACK_DATA_DIR")
    return home


def _whole_number(name: str, text: str, least: int, most: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        raise ConfigurationError(f"TELLBACK_{name.upper()} is not a whole number from {least} to {most}")
    return value


def _seconds_value(name: str, text: str, *, strict: bool) -> float:
    """Return the seconds, unless `strict` the nearest that are allowed, or the default for what is no number.

    No event is lost by how long to wait.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0 if strict else _USUAL_WAIT
    if strict and not 0 < value <= LONGEST_WAIT:
        raise ConfigurationError(f"{name} is not a number of seconds above 0 and at most {LONGEST_WAIT:g}")
    return min(max(LEAST_WAIT, value), LONGEST_WAIT)


LISTS: Final = ("required_files", "required_tools", "checklist")

SWITCHES: Final = {"todos": False, "subagents": True}

KEYS: Final = frozenset({"prompt", "deadline", "question", "delivery", "tools", "providers", *SWITCHES, *LISTS})

TRIGGER: Final = frozenset({"every_n_calls", "every_n_seconds"})

PROVIDERS: Final = ({"name": "StuckFeedback", "every_n_calls": 1},)  # `recommended_providers()`; a test compares them


class HookConfig(LightStruct):
    """The content of a configuration file. The workers check the values, as they do for every host."""

    prompt: str | None
    begun: dict[str, Any]
    required_files: tuple[str, ...] = ()
    required_tools: tuple[str, ...] = ()
    checklist: tuple[str, ...] = ()
    todos: bool = False
    subagents: bool = True

    @property
    def question(self) -> str:
        """The question in the file; "" if it has none."""
        return str(self.begun.get("question") or "")

    def evaluation_begun(self, session: str, evaluation: str, prompt: str, host: str) -> dict[str, Any]:
        """Return the event that begins an agent's evaluation; its id is the same in every process: it counts once."""
        where = {"session": session, "evaluation": evaluation, "prompt": prompt, "host": host[:MAX_NAME_CHARS]}
        return {"type": "EvaluationBegun", "v": SCHEMA_VERSION, "event_id": "hook-begun", **where, **self.begun}


def read_config(path: str) -> HookConfig:
    """Return the configuration in the file at `path`; without a path, that of an empty file.

    Raises:
        ConfigurationError: it cannot be read, or a key is wrong; the message names it.
    """
    return _parse_config(path, read_toml(path) if path else {})


def read_toml(path: str) -> dict[str, Any]:
    """Return what the TOML file at `path` holds.

    Raises:
        ConfigurationError: it cannot be read, or is no TOML; the message names it.
    """
    import tomllib

    try:
        return tomllib.loads(read_file(path).decode())
    except OSError as error:
        raise ConfigurationError(f"can't read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path}: {error}") from None


def _parse_config(path: str, found: dict[str, Any]) -> HookConfig:
    if unknown := sorted(set(found) - KEYS):
        raise ConfigurationError(f"{path}: unknown key {unknown[0]!r}; use {', '.join(sorted(KEYS))}")
    prompt = found.get("prompt")
    if prompt is not None and (not isinstance(prompt, str) or not prompt):
        raise ConfigurationError(f"{path}: prompt is not a text")
    providers = found.get("providers", list(PROVIDERS))
    if not isinstance(providers, list):
        raise ConfigurationError(f"{path}: write providers as [[providers]]")
    begun: dict[str, Any] = {"providers": [_parse_provider(path, item) for item in cast("list[object]", providers)]}
    begun |= {key: found[key] for key in ("delivery", "tools", "question") if key in found}
    if "deadline" in found:
        begun["deadline_in"] = found["deadline"]
    switches = {name: found.get(name, default) for name, default in SWITCHES.items()}
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise ConfigurationError(f"{path}: {name} is neither true nor false")
    files, needed, checklist = (_text_tuple(path, name, found.get(name, [])) for name in LISTS)
    return HookConfig(prompt, begun, files, needed, checklist, **switches)


def _text_tuple(path: str, name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in cast("list[object]", value)):
        raise ConfigurationError(f"{path}: {name} is not a list of non-empty texts")
    return tuple(cast("list[str]", value))


def _parse_provider(path: str, item: object) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise ConfigurationError(f"{path}: write providers as [[providers]]")
    given = cast("dict[str, Any]", item)
    known = {"name", "fields"} | TRIGGER
    if unknown := sorted(set(given) - known):
        raise ConfigurationError(f"{path}: provider: unknown key {unknown[0]!r}; use {', '.join(sorted(known))}")
    if not isinstance(given.get("name"), str):
        raise ConfigurationError(f"{path}: a provider has no name")
    trigger = {key: given[key] for key in TRIGGER if key in given}
    return {"name": given["name"], "trigger": trigger, "fields": given.get("fields", {})}
