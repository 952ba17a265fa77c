"""The file that says what guidance `tellback hook` asks for; TOML, so that a person can write it.

prompt = "coding"            # the name of the prompt
deadline = 3600              # seconds from the beginning of the agent's session
question = "What is asked"   # what providers and observations keep in view
delivery = "first"
tools = ["Bash", "Read"]
required_files = ["report.md"]  # an agent that stops without them is told so, once
required_tools = ["Bash"]    # the same of tools that have not succeeded in its session
todos = true                 # the same of what is open on its own list (TodoWrite)
checklist = ["The tests pass"]  # what it is to check before it stops

[[providers]]
name = "DeadlineFeedback"
every_n_calls = 5
every_n_seconds = 30
fields = { warning_threshold_seconds = 120 }
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

from tellback.contracts.limits import SCHEMA_VERSION
from tellback.errors import ConfigurationError

LISTS: Final = ("required_files", "required_tools", "checklist")
KEYS: Final = frozenset({"prompt", "deadline", "question", "delivery", "tools", "providers", "todos", *LISTS})
TRIGGER: Final = frozenset({"every_n_calls", "every_n_seconds"})
DEFAULT: Final[dict[str, Any]] = {  # what `tellback.guidance.recommended` has; a test compares them
    "providers": [
        {"name": "FailureStreakFeedback", "every_n_calls": 1, "fields": {"levels": (2, 4, 8)}},
        {"name": "RepeatedCallFeedback", "every_n_calls": 1},
        {"name": "ToolUsageMonitor", "every_n_calls": 16, "fields": {"max_calls_without_progress": 15}},
    ]
}


class Config(NamedTuple):
    """What a file says; the workers check the values, as they check those of every host."""

    prompt: str | None
    begun: dict[str, Any]
    required_files: tuple[str, ...] = ()
    required_tools: tuple[str, ...] = ()
    checklist: tuple[str, ...] = ()
    todos: bool = False

    @property
    def question(self) -> str:
        """What is asked; "" where the file does not say."""
        return str(self.begun.get("question") or "")

    def evaluation_begun(self, session: str, evaluation: str, prompt: str) -> dict[str, Any]:
        """The fact that begins an agent's evaluation; its id is the same in every process, so that it counts once."""
        where = {"session": session, "evaluation": evaluation, "prompt": prompt}
        return {"type": "EvaluationBegun", "v": SCHEMA_VERSION, "event_id": "hook-begun", **where, **self.begun}


def read_config(path: str) -> Config:
    """What the file at `path` says; without a path, what is asked for by default.

    Raises:
        ConfigurationError: it cannot be read, or a key is wrong; the text names it.
    """
    if not path:
        return _config("the default", DEFAULT)
    import tomllib  # noqa: PLC0415 - read when an evaluation begins, and by nobody after that

    try:
        with open(path, "rb") as file:  # noqa: PTH123 - without pathlib
            found = tomllib.load(file)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path}: {error}") from None
    return _config(path, found)


def _config(path: str, found: dict[str, Any]) -> Config:
    if unknown := sorted(set(found) - KEYS):
        raise ConfigurationError(f"{path}: unknown key {unknown[0]!r}; there are {', '.join(sorted(KEYS))}")
    prompt = found.get("prompt")
    if prompt is not None and (not isinstance(prompt, str) or not prompt):
        raise ConfigurationError(f"{path}: prompt is no text")
    providers = found.get("providers", [])
    if not isinstance(providers, list):
        raise ConfigurationError(f"{path}: write providers as [[providers]]")
    begun: dict[str, Any] = {"providers": [_provider(path, item) for item in cast("list[object]", providers)]}
    begun |= {key: found[key] for key in ("delivery", "tools", "question") if key in found}
    if "deadline" in found:
        begun["deadline_in"] = found["deadline"]
    todos = found.get("todos", False)
    if not isinstance(todos, bool):
        raise ConfigurationError(f"{path}: todos is neither true nor false")
    files, needed, checklist = (_texts(path, name, found.get(name, [])) for name in LISTS)
    return Config(prompt, begun, files, needed, checklist, todos)


def _texts(path: str, name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in cast("list[object]", value)):
        raise ConfigurationError(f"{path}: {name} is no list of texts that are not empty")
    return tuple(cast("list[str]", value))


def _provider(path: str, item: object) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise ConfigurationError(f"{path}: write providers as [[providers]]")
    given = cast("dict[str, Any]", item)
    known = {"name", "fields"} | TRIGGER
    if unknown := sorted(set(given) - known):
        raise ConfigurationError(f"{path}: provider: unknown key {unknown[0]!r}; there are {', '.join(sorted(known))}")
    if not isinstance(given.get("name"), str):
        raise ConfigurationError(f"{path}: a provider has no name")
    trigger = {key: given[key] for key in TRIGGER if key in given}
    return {"name": given["name"], "trigger": trigger, "fields": given.get("fields", {})}
