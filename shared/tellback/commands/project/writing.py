"""A project's own runner and its page for agents, made of the files beside this one and of the modules they share."""

from __future__ import annotations

import ast
import os
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from tellback.errors import InvalidInput

RUNNER: Final = "run_with_feedback.py"
SKILL: Final = "skill-feedback-runner.md"
_SHARED: Final = ("failures", "journal")  # modules of the standard library alone, which the runner takes whole
MAX_LINES: Final = 1_000  # of a head or a tail


@dataclass(frozen=True, slots=True)
class Choices:
    """What a project decides when its runner is written; the rest it edits."""

    head: int = 5
    tail: int = 30
    timeout: float = 30.0


def project_files(choices: Choices) -> dict[str, str]:
    """The text of each file by its name.

    Raises:
        InvalidInput: a choice is out of its range.
    """
    if not (1 <= choices.head <= MAX_LINES and 1 <= choices.tail <= MAX_LINES):
        raise InvalidInput(f"head and tail are 1 to {MAX_LINES} lines")
    if not 0 < choices.timeout < float("inf"):
        raise InvalidInput(f"timeout is {choices.timeout:g} s; use more than 0")
    return {RUNNER: _runner(choices), SKILL: _skill(choices)}


def write(folder: Path, texts: dict[str, str], *, force: bool) -> None:
    """Write the files, all or none where one exists already.

    Raises:
        InvalidInput: a file exists and `force` is not given, or a file cannot be written.
    """
    present = [name for name in texts if os.path.lexists(folder / name)]
    if present and not force:
        raise InvalidInput(f"{', '.join(present)} in {folder} would be overwritten; say --force if you mean it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            fresh = folder / f".{name}.new"
            fresh.write_text(text, "utf-8")
            fresh.chmod(0o755 if name == RUNNER else 0o644)
            fresh.replace(folder / name)
    except OSError as error:
        raise InvalidInput(f"{folder} cannot be written: {error}") from error


def _runner(choices: Choices) -> str:
    """The runner with what it imports of ours put in place of the imports."""
    imports, own = _parted(_template(RUNNER))
    shared: list[str] = []
    for module in _SHARED:
        needed, body = _parted((files("tellback.commands") / f"{module}.py").read_text("utf-8"))
        imports |= needed
        shared.append(body)
    # What the project chooses stays at the top, before all that uses it.
    chosen, mark, rest = own.partition("_RULES = ")
    opening = _template(RUNNER).partition("from __future__")[0].rstrip()
    parts = [f"{opening}\n\nfrom __future__ import annotations\n\n{_merged(imports)}\n{chosen}", *shared, mark + rest]
    text = "\n\n\n".join(part.strip("\n") for part in parts) + "\n"
    for name, value in (("HEAD_LINES", choices.head), ("TAIL_LINES", choices.tail), ("TIMEOUT", choices.timeout)):
        text = re.sub(rf"(?m)^{name} = [\d.]+", f"{name} = {value}", text)
    return text


def _skill(choices: Choices) -> str:
    return _template("skill.md").replace("{{head}}", str(choices.head)).replace("{{tail}}", str(choices.tail))


def _template(name: str) -> str:
    return (files("tellback.commands") / "project" / name).read_text("utf-8")


def _parted(source: str) -> tuple[set[str], str]:
    """What a module imports, less what is ours, and its text after that."""
    nodes = [node for node in ast.parse(source).body if isinstance(node, ast.Import | ast.ImportFrom)]
    imports = {ast.unparse(node) for node in nodes}
    last = nodes[-1].end_lineno or 0
    return (
        {line for line in imports if not line.startswith(("from tellback", "from __future__"))},
        "".join(source.splitlines(keepends=True)[last:]).lstrip("\n"),
    )


def _merged(imports: set[str]) -> str:
    """One line for each module, with all the names that are taken from it, in the order that linters ask for."""
    names: dict[str, set[str]] = {}
    for line in imports:
        module, _, taken = line.partition(" import ")
        names.setdefault(module, set()).update(taken.split(", ") if taken else ())
    lines = [
        f"{module} import {', '.join(sorted(found, key=_name_order))}" if found else module
        for module, found in sorted(names.items(), key=lambda item: (bool(item[1]), item[0]))
    ]
    return "\n".join(lines) + "\n"


def _name_order(name: str) -> tuple[bool, bool, str]:
    return not name.isupper(), not name[0].isupper(), name
