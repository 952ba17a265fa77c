"""Short texts about a record for a terminal; what an agent's command may have written is sanitised.

A styled line is a list of pieces with roles, such as "good" or "mark"; the widgets give the roles their colours.
"""

from __future__ import annotations

import re
import shlex
from typing import Final, Literal

from tellback.contracts.commands import CommandRecord
from tellback.quoting import quote_terminal
from tellback.sanitize import terminal_line

Role = Literal["plain", "dim", "good", "bad", "resolved", "null", "label", "title", "mark", "rule"]
StyledLine = list[tuple[str, Role]]

MAX_COMMAND_CHARS: Final = 2_000  # far wider than a terminal; an argument may hold a whole file


def command_text(record: CommandRecord) -> str:
    """Return the command as you would type it in a shell."""
    return terminal_line(shlex.join(record.command)[:MAX_COMMAND_CHARS])


def exit_text(record: CommandRecord) -> str:
    """Return the exit in short: `✓ 0`, `✗ 1`, `✗ KILL` after a signal, or `∅ null`."""
    if record.exit_code is None:
        return "∅ null"
    if record.signal:
        return f"✗ {terminal_line(record.signal).removeprefix('SIG')}"
    return f"{'✓' if record.succeeded else '✗'} {record.exit_code}"


def outcome_text(record: CommandRecord) -> str:
    """Return the outcome in a few words."""
    if record.exit_code is None:
        return f"no exit: {quote_terminal(record.error or 'no reason given')}"
    by = f", ended by {terminal_line(record.signal)}" if record.signal else ""
    return f"exit {record.exit_code}{by}"


def outcome_role(record: CommandRecord, *, resolved: bool) -> Role:
    """Return the role of an outcome: good, bad, null, or resolved by a linked success or a waiver."""
    if record.succeeded:
        return "good"
    if resolved:
        return "resolved"
    return "null" if record.exit_code is None else "bad"


def duration_text(milliseconds: int) -> str:
    """Return a duration in at most seven characters, the width of its column."""
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1_000
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    return f"{minutes // 60}h {minutes % 60:02d}m"


def start_time_text(record: CommandRecord) -> str:
    """Return the time of day at which the command started, in UTC."""
    found = re.match(r"\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)", record.started_at or "")
    return found[1] if found else "--:--:--"


def mark_letters(record: CommandRecord, *, slow: bool) -> str:
    """Return the marks of a record: `S` slow, `T` truncated, `R` redacted."""
    truncated = record.truncated.stdout or record.truncated.stderr
    redacted = record.redacted.stdout or record.redacted.stderr
    return f"{'S' if slow else ''}{'T' if truncated else ''}{'R' if redacted else ''}"


def count_text(number: int) -> str:
    """Return a count in at most four characters: `9999`, `12k`, `1.2M`."""
    if number < 10_000:
        return str(number)
    return f"{number // 1_000}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"
