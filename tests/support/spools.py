"""Events that wait on a host's disk, read as a person would: line by line."""

from __future__ import annotations

from pathlib import Path

from tellback.messaging.spool import SpooledEvent
from tellback.messaging.spool_file import HEAD_BYTES, NAME, parse_line


def waiting(data: Path) -> list[SpooledEvent]:
    """The events in all files of the spool, sent or not."""
    bodies = [path.read_bytes()[HEAD_BYTES:] for path in sorted(data.rglob("*.spool"))]
    lines = [line for body in bodies for line in body.splitlines(keepends=True)]
    return [parsed[1] for line in lines if (parsed := parse_line(line))]


def quarantined(data: Path) -> list[tuple[str, bytes]]:
    """The reason and the line of everything in quarantine."""
    rows = [row.split(b"\t", 2) for path in data.rglob(NAME) for row in path.read_bytes().splitlines()]
    return [(reason.decode(), line) for _, reason, line in rows]
