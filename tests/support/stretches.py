"""Edits as many programs make them, and when guidance must report a stretch in which an agent gets nowhere."""

from __future__ import annotations

import json

from tests.support.dialects import (
    MadeCall,
    nudges_in,
)

Stretch = tuple[list[MadeCall], int]

IN_TIME = 3


def str_replace(n: int, path: str = "/r/app.py", said: str = "The file /r/app.py has been edited.") -> MadeCall:
    params: dict[str, object] = {"command": "str_replace", "path": path, "old_str": f"a{n}", "new_str": f"b{n}"}
    return "str_replace_editor", params, said


def claude_edit(n: int, path: str = "/r/app.py") -> MadeCall:
    params: dict[str, object] = {"file_path": path, "old_string": f"a{n}", "new_string": f"b{n}"}
    return "Edit", params, f"The file {path} has been updated."


def apply_patch(n: int | str, path: str = "app.py", old: str = "old") -> MadeCall:
    patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{n}\n*** End Patch"
    return "apply_patch", {"input": patch}, json.dumps({"output": f"Success. Updated the following files:\nM {path}"})


def gemini_replace(n: int, path: str = "/r/app.ts") -> MadeCall:
    params: dict[str, object] = {
        "file_path": path,
        "old_string": f"a{n}",
        "new_string": f"b{n}",
        "instruction": f"i{n}",
    }
    return "replace", params, f"Successfully modified file: {path} (1 replacements)."


def cursor_edit(n: int, path: str = "src/app.go") -> MadeCall:
    params: dict[str, object] = {
        "target_file": path,
        "instructions": f"step {n}",
        "code_edit": f"// ...\nx = {n}\n// ...",
    }
    return "edit_file", params, f"The apply model made the following changes to the file:\n+x = {n}"


def aider_block(n: int) -> MadeCall:
    return "write_file", {"path": "app.rb", "content": f"puts {n}\n"}, "Applied edit to app.rb"


def check_reported_in_time(stretch: Stretch) -> None:
    """Check that guidance reports a stretch within three calls of where a reader has seen enough, and not before."""
    calls, enough = stretch
    nudges = nudges_in(calls[: enough + IN_TIME])
    assert nudges, f"nothing within {IN_TIME} calls of call {enough}"
    assert all(call >= enough - 1 for call, _ in nudges), [call for call, _ in nudges]
