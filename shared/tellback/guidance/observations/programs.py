"""What a program that was run says of itself: its exit.

A program that failed, or was stopped, is no sign that the tool that ran it is away: no words of its output count.
"""

from __future__ import annotations

from typing import Final

from tellback.guidance.observations.evidence import Evidence, Finding
from tellback.guidance.observations.values import attribute, fields_of

_EXITS: Final = ("exit_code", "exitcode", "exitstatus", "exit_status", "returncode", "return_code")
_OUTPUTS: Final = ("stdout", "stderr", "stdout_tail", "stderr_tail")


def by_exit(evidence: Evidence) -> Finding | None:
    """A record of a run whose exit is not 0, or is null: then nobody knows that it succeeded."""
    fields = {name.lower(): value for name, value in fields_of(evidence.data).items()}
    code = attribute(evidence.result, "returncode")  # `subprocess.CompletedProcess`
    if isinstance(code, int):
        fields = {"returncode": code, "stdout": ""}
    found = [fields[name] for name in _EXITS if name in fields]
    if not found or not any(name in fields for name in _OUTPUTS):
        return None
    known = found[0] is None or (isinstance(found[0], int) and not isinstance(found[0], bool))
    return Finding("error", evidence.message) if known and found[0] != 0 else None
