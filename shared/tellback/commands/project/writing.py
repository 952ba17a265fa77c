"""The generator of a project's own runner and its page for agents, from the templates beside this module.

The runner must not import Tellback, so the modules that it shares with us are copied into it.
"""

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
_SHARED: Final = ("start_errors", "journal")  # modules to copy, which use only the standard library
MAX_LINES: Final = 1_000  # of a head or a tail


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    """The values that you choose when the runner is written; edit the others in the script."""

    head: int = 5
    tail: int = 30
    timeout: float = 30.0


def render_project_files(choices: RunnerOptions) -> dict[str, str]:
    """Return the text of each file by its name.

    Raises:
        InvalidInput: a choice is out of range.
    """
    if not (1 <= choices.head <= MAX_LINES and 1 <= choices.tail <= MAX_LINES):
        raise InvalidInput(f"head and tail are 1 to {MAX_LINES} lines")
    if not 0 < choices.timeout < float("inf"):
        raise InvalidInput(f"timeout is {choices.timeout:g} s; use more than 0")
    return {RUNNER: _render_runner(choices), SKILL: _render_skill(choices)}


def write_files(folder: Path, texts: dict[str, str], *, force: bool) -> None:
    """Write the files; without `force` write none if one of them exists.

    Raises:
        InvalidInput: there is no such folder, a file exists and `force` is not given, or a file cannot be written.
    """
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a directory: name the directory of your project")
    present = [name for name in texts if os.path.lexists(folder / name)]
    if present and not force:
        raise InvalidInput(f"already in {folder}: {', '.join(present)}; to overwrite, pass --force")
    try:
        for name, text in texts.items():  # each by a rename: an agent may be running the old script
            fresh = folder / f".{name}.new"
            try:
                fresh.write_text(text, "utf-8")
                fresh.chmod(0o755 if name == RUNNER else 0o644)
                fresh.replace(folder / name)
            finally:
                fresh.unlink(missing_ok=True)  # it is there if the disk is full
    except OSError as error:
        raise InvalidInput(f"can't write to {folder}: {error.strerror or error}") from error


def _render_runner(choices: RunnerOptions) -> str:
    """Render the runner with our modules in place of their imports."""
    imports, own = _split_imports(_template(RUNNER))
    shared: list[str] = []
    for module in _SHARED:
        needed, body = _split_imports((files("tellback.commands") / f"{module}.py").read_text("utf-8"))
        imports |= needed
        shared.append(body)
    # The project's choices stay at the top, where you edit them; everything that uses them comes after.
    chosen, mark, rest = own.partition("_RULES = ")
    opening = _template(RUNNER).partition("from __future__")[0].rstrip()
    parts = [
        f"{opening}\n\nfrom __future__ import annotations\n\n{_merged_imports(imports)}\n{chosen}",
        *shared,
        mark + rest,
    ]
    text = "\n\n\n".join(part.strip("\n") for part in parts) + "\n"
    for name, value in (("HEAD_LINES", choices.head), ("TAIL_LINES", choices.tail), ("TIMEOUT", choices.timeout)):
        text = re.sub(rf"(?m)^{name} = [\d.]+", f"{name} = {value}", text)
    return text


def _render_skill(choices: RunnerOptions) -> str:
    return _template("skill.md").replace("{{head}}", str(choices.head)).replace("{{tail}}", str(choices.tail))


def _template(name: str) -> str:
    return (files("tellback.commands") / "project" / name).read_text("utf-8")


def _split_imports(source: str) -> tuple[set[str], str]:
    """Return a module's imports without ours, and its text after them."""
    nodes = [node for node in ast.parse(source).body if isinstance(node, ast.Import | ast.ImportFrom)]
    imports = {ast.unparse(node) for node in nodes}
    last = nodes[-1].end_lineno or 0
    return (
        {line for line in imports if not line.startswith(("from tellback", "from __future__"))},
        "".join(source.splitlines(keepends=True)[last:]).lstrip("\n"),
    )


def _merged_imports(imports: set[str]) -> str:
    """Return one import for each module, in the order that linters expect, because projects lint the runner too."""
    names: dict[str, set[str]] = {}
    for line in imports:
        module, _, taken = line.partition(" import ")
        names.setdefault(module, set()).update(taken.split(", ") if taken else ())
    lines = [
        f"{module} import {', '.join(sorted(found, key=_import_sort_key))}" if found else module
        for module, found in sorted(names.items(), key=lambda item: (bool(item[1]), item[0]))
    ]
    return "\n".join(lines) + "\n"


def _import_sort_key(name: str) -> tuple[bool, bool, str]:
    return not name.isupper(), not name[0].isupper(), name
