"""The arguments of a call without what only looks different each time: remarks, and how long it waits first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tellback.guidance.progress.effects import SHELLS, plain_name, tool_effect
from tellback.guidance.repeats import normalized_arguments_json

# What an agent says about its call beside what it asks for; it finds new words each time.
_REMARKS: Final = frozenset({
    "explanation", "thought", "thoughts", "reasoning", "rationale", "toolaction", "toolsummary", "security_risk",
    "requires_approval", "justification", "with_escalated_permissions", "intent",
})  # fmt: skip
# However long an agent waits before it looks, it looks at the same.
_SLEEPS: Final = re.compile(rb"\bsleep (?:\d+(?:\.\d+)?[smh]?)\b|\bstart-sleep (?:-\w+ )?\d+\b|\btimeout /t \d+\b")
_LENGTHS: Final = frozenset({"time", "seconds", "timeout", "timeout_ms", "duration", "delay", "ms", "wait_seconds"})
# These are a remark beside a command alone: of an issue or a task the description is the matter.
_REMARKS_OF_COMMANDS: Final = _REMARKS | {"description", "timeout", "timeout_ms", "yield_time_ms", "max_output_tokens"}


# A comment behind a command line; in quotes or in the text of a here-document it may be something else.
_COMMENT: Final = re.compile(r"\s+#[^\n'\"`]*$")


def only_waits(params: Mapping[str, Any]) -> bool:
    """Check whether the arguments of a tool that waits say no more than how long."""
    return all(name.lower() in _LENGTHS for name in params)


def asked_by(tool: str, params: Mapping[str, Any]) -> bytes:
    """Return the normal form of a call's arguments without remarks, comments and the length of its waits."""
    runs = plain_name(tool) in SHELLS
    remarks = _REMARKS_OF_COMMANDS if runs else _REMARKS
    if not remarks.isdisjoint(map(str.lower, params)):
        params = {name: value for name, value in params.items() if name.lower() not in remarks}
    if not runs and not _LENGTHS.isdisjoint(params) and tool_effect(tool, params) == "wait":
        params = {name: value for name, value in params.items() if name not in _LENGTHS}
    if runs and any("#" in value and "\n" not in value for value in params.values() if isinstance(value, str)):
        params = {
            name: _COMMENT.sub("", value) if isinstance(value, str) and "\n" not in value else value
            for name, value in params.items()
        }
    text = normalized_arguments_json(params)
    return _SLEEPS.sub(b"sleep", text) if b"sleep" in text or b"timeout" in text else text
