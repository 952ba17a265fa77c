"""Records in words that fit a terminal. Each piece of text has a role; the widgets give roles their colours."""

from __future__ import annotations

import re
import shlex
from typing import Final, Literal

from tellback.contracts.commands import CommandRecord

Role = Literal["plain", "dim", "good", "bad", "settled", "null", "label", "title", "mark", "rule"]
Line = list[tuple[str, Role]]

_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_UNPRINTABLE: Final = re.compile(r"[^\n\x20-\x7e]")
MAX_COMMAND_CHARS: Final = 2_000


def printable(text: str) -> str:
    """`text` without a terminal's colours; what else a terminal would obey, or not show, is shown instead."""
    return _UNPRINTABLE.sub(_shown, _SEQUENCE.sub("", text.expandtabs(4)))


def one_line(text: str) -> str:
    """`text`, printable, with its line ends shown."""
    return printable(text).replace("\n", "⏎")


def command_of(record: CommandRecord) -> str:
    """The argv as for a shell."""
    return one_line(shlex.join(record.command)[:MAX_COMMAND_CHARS])


def exit_of(record: CommandRecord) -> str:
    """`✓ 0`, `✗ 1`, `✗ KILL` where a signal ended it, `∅ null`."""
    if record.exit_code is None:
        return "∅ null"
    if record.signal:
        return f"✗ {one_line(record.signal).removeprefix('SIG')}"
    return f"{'✓' if record.succeeded else '✗'} {record.exit_code}"


def outcome_of(record: CommandRecord) -> str:
    """What came of it, in a few words."""
    if record.exit_code is None:
        return f"no exit: {one_line(record.error or 'no reason given')}"
    by = f", ended by {one_line(record.signal)}" if record.signal else ""
    return f"exit {record.exit_code}{by}"


def role_of(record: CommandRecord, *, settled: bool) -> Role:
    """Good, bad, null, or settled by a linked success."""
    if record.succeeded:
        return "good"
    if settled:
        return "settled"
    return "null" if record.exit_code is None else "bad"


def took(milliseconds: int) -> str:
    """A duration in at most seven characters."""
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1_000
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    return f"{minutes // 60}h {minutes % 60:02d}m"


def time_of(record: CommandRecord) -> str:
    """The time of day at which it started, in UTC."""
    found = re.match(r"\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)", record.started_at or "")
    return found[1] if found else "--:--:--"


def marks_of(record: CommandRecord, *, slow: bool) -> str:
    """`S` slow, `T` truncated, `R` redacted."""
    truncated = record.truncated.stdout or record.truncated.stderr
    redacted = record.redacted.stdout or record.redacted.stderr
    return f"{'S' if slow else ''}{'T' if truncated else ''}{'R' if redacted else ''}"


def count(number: int) -> str:
    """A count in at most four characters: `9999`, `12k`, `1.2M`."""
    if number < 10_000:
        return str(number)
    return f"{number // 1_000}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"


def _shown(found: re.Match[str]) -> str:
    char = found[0]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else repr(char)[1:-1]
