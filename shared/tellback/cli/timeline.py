"""Each entry of a session's history as one line for people; `--json` has every field. Requirement C-80."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from tellback.contracts.guidance import outcome_word
from tellback.sanitize import one_line
from tellback.truncation import truncate_chars
from tellback.wording import count_phrase

HistoryEntry = Mapping[str, Any]

SHORT: Final = 80
"""Characters of arguments and of a subject, so that a cell of a listing still has room for what came of them."""
LONG: Final = 200  # characters of a result, an error or a reason
FIRST: Final = ("sent", "error", "reason", "code", "attempt", "text")
"""Fields of a turn's entry to show first: Lua tables have no order, and a long cell is truncated at its end."""


def entry_text(entry: HistoryEntry) -> str:
    """Return what happened, the most telling first; an entry of a kind that is not known here by its fields."""
    return _TEXTS.get(str(entry["kind"]), _fields_text)(entry)


def _call_text(entry: HistoryEntry) -> str:
    """Return a tool call with what came of it: `Bash {"command": "pytest -q"} → error: exit 1 · repeated 3 times`."""
    outcome = entry.get("outcome")
    code = cast("HistoryEntry", outcome).get("code") if isinstance(outcome, dict) else None
    said = entry.get("error") or entry.get("result") or ""
    params = entry.get("params")
    given = _shortened(json.dumps(params, ensure_ascii=False), SHORT) if params else ""
    came = f"{outcome_word(code, str(entry.get('status')))}{': ' if said else ''}{_shortened(said, LONG)}"
    repeats = entry.get("repeats")
    return _joined(
        f"{entry.get('tool')} {given}".rstrip() + f" → {came}",
        f"repeated {count_phrase(repeats, 'time')}" if isinstance(repeats, int) and repeats > 1 else "",
        f"stuck: {entry['stuck']}" if entry.get("stuck") else "",
        _agent_text(entry),
    )


def _feedback_text(entry: HistoryEntry) -> str:
    """Return a feedback with its suggestions, and whether a timer brought it."""
    marks = [name for name, value in entry.items() if value is True]
    return _joined(
        f"{entry.get('provider_name')} ({entry.get('severity', 'info')}): {_shortened(entry.get('summary'), LONG)}",
        *(f"next: {_shortened(each, LONG)}" for each in _items(entry.get("suggestions"))),
        *marks,
        _agent_text(entry),
    )


def _command_text(entry: HistoryEntry) -> str:
    """Return a command with its end; of a failure, the last line that it printed too."""
    code, error, took = entry.get("exit_code"), entry.get("error"), entry.get("duration_ms")
    end = f"exit {code}" if code is not None else "no exit code"
    lines = str(entry.get("stderr_tail") or entry.get("stdout_tail") or "").strip().splitlines()
    return _joined(
        f"{_argv_text(entry.get('command'))} → {end}" + (f": {_shortened(error, LONG)}" if error else ""),
        f"{took / 1000:.2f} s" if isinstance(took, int | float) else "",
        _shortened(lines[-1], LONG) if lines and code != 0 else "",
        f"note: {_shortened(entry['agent_note'], SHORT)}" if entry.get("agent_note") else "",
        f"retries {entry['parent_command_id']}" if entry.get("parent_command_id") else "",
        f"{entry.get('worker') or ''} {entry.get('command_id')}".strip(),
    )


def _running_text(entry: HistoryEntry) -> str:
    """Return a command that has no record yet: `pytest -q on box-2 · ID`."""
    where = f" on {entry['host']}" if entry.get("host") else ""
    return _joined(f"{_argv_text(entry.get('command'))}{where}", str(entry.get("command_id")))


def _waiver_text(entry: HistoryEntry) -> str:
    return f"{entry.get('command_id')} by {entry.get('by')}: {_shortened(entry.get('reason'), LONG)}"


def _signal_text(entry: HistoryEntry) -> str:
    return _joined(
        f"{entry.get('signal_type')} {entry.get('fact_id')} in {entry.get('bank')}",
        f"score {entry.get('score')}",
        _shortened(entry.get("query"), SHORT),
    )


def _turn_text(entry: HistoryEntry) -> str:
    rest = {name: value for name, value in entry.items() if name != "event"}
    return _joined(str(entry.get("event")), _fields_text(rest, first=FIRST))


def _fields_text(entry: HistoryEntry, *, first: tuple[str, ...] = ()) -> str:
    rest = {
        name: value for name, value in entry.items() if name not in {"at", "kind"} and value not in (None, "", [], {})
    }
    names = dict.fromkeys([*(name for name in first if name in rest), *rest])
    return " · ".join(f"{name}: {rest[name]}" for name in names)


def _agent_text(entry: HistoryEntry) -> str:
    """Return which agent of the session it was: its prompt and, since that may run twice, its evaluation."""
    return f"{entry.get('prompt')} {entry.get('evaluation')}"


def _argv_text(argv: object) -> str:
    return _shortened(shlex.join(map(str, _items(argv))), SHORT)


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _shortened(value: object, limit: int) -> str:
    return truncate_chars(one_line("" if value is None else str(value)), limit)


def _joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


_TEXTS: Final[Mapping[str, Callable[[HistoryEntry], str]]] = {
    "tool_call": _call_text,
    "feedback": _feedback_text,
    "command": _command_text,
    "running": _running_text,
    "waiver": _waiver_text,
    "signal": _signal_text,
    "turn": _turn_text,
}
