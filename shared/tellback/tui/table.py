"""A record as one line of the list."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import set_cell_size

from tellback.tui.review import Row
from tellback.tui.words import Line, Role, count, exit_of, marks_of, one_line, role_of, time_of, took

WITH_TIME = 60  # columns; below, the time is left out
WITH_EXPECTED = 64


@dataclass(frozen=True, slots=True)
class Columns:
    """How wide each column is; 0 leaves it out."""

    exit: int
    time: int
    took: int
    attempt: int
    marks: int
    command: int
    expected: int

    @classmethod
    def fit(cls, width: int) -> Columns:
        """Columns for a list of `width` cells."""
        time = 8 if width >= WITH_TIME else 0
        rest = max(1, width - 26 - (time + 1 if time else 0))
        expected = rest * 2 // 5 if width >= WITH_EXPECTED else 0
        return cls(7, time, 7, 5, 3, rest - (expected + 1 if expected else 0), expected)


def heading(width: int) -> str:
    """The names of the columns."""
    columns = Columns.fit(width)
    named = [
        (columns.exit, "exit"),
        (columns.time, "time"),
        (columns.took, "   took"),
        (columns.attempt, " try"),
        (columns.marks, ""),
        (columns.command, "command"),
        (columns.expected, "expected"),
    ]
    return " ".join(set_cell_size(name, size) for size, name in named if size)


def line(row: Row, width: int) -> Line:
    """One record: exit, start, duration, attempt, marks, command, expectation."""
    record, columns = row.record, Columns.fit(width)
    cells: Line = [(set_cell_size(exit_of(record), columns.exit), role_of(record, settled=row.settled))]
    if columns.time:
        cells.append((time_of(record), "dim"))
    pace: Role = "mark" if row.slow else "plain"
    cells.append((f"{took(record.duration_ms):>7}", pace))
    cells.append((set_cell_size(f"{_attempt(row):>5}", columns.attempt), "dim"))
    cells.append((f"{marks_of(record, slow=row.slow):<3}", "mark"))
    cells.append((_fitted(row.command, columns.command), "plain"))
    if columns.expected:
        cells.append((_fitted(one_line(record.agent_note or ""), columns.expected), "plain"))
    spaced: Line = []
    for cell in cells:
        spaced.append(cell)
        spaced.append((" ", "plain"))
    return spaced[:-1]


def _attempt(row: Row) -> str:
    assert row.story is not None
    steps = len(row.story.places)
    if steps > 1:
        return f"{count(row.story.step(row.place) + 1)}/{count(steps)}"
    return "?/?" if row.story.chain.problems else ""


def _fitted(text: str, width: int) -> str:
    """`text` in exactly `width` cells; an ellipsis tells that there is more."""
    fitted = set_cell_size(text[:width], width)
    return fitted if fitted.rstrip() == text.rstrip() else f"{set_cell_size(text, width - 1)}…"
