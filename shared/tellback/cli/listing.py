"""Listings as tables that can be read in a narrow terminal too: no word and no id is cut in two where that can be."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tellback import clock

IDS: Final = (36, 24, 16)
"""Characters of names in one line: a UUID has 36, and is folded only where columns would not suffice otherwise."""
LEAST_WORDS: Final = 12
"""Characters to which a column of words may shrink."""
_LONGEST: Final = 200
_FRAME, _GAP = 3, 2  # characters beside each cell, in a frame and without one
_AGES: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


def show_table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, title: str, spare: Sequence[str] = ()
) -> None:
    """Print rows under a title; a terminal that is too narrow for all columns goes without the first of `spare`.

    In a pipe no line is folded, unless the variable COLUMNS says how wide it is to be.
    """
    console = Console()
    width = console.width
    if not (console.is_terminal or "COLUMNS" in os.environ):
        width = 1 + len(columns) * (_LONGEST + _FRAME)
    Console(width=width).print(fitted(rows, columns, spare, title=title, width=width), crop=False)


def fitted(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], spare: Sequence[str], *, title: str, width: int
) -> RenderableType:
    """The rows as a table of at most this width; as blocks of lines where no table can be that narrow."""
    heading = Text(harmless(title), "italic")
    whole = [_Column.of(name, rows) for name in columns]
    for widths in (
        [max(each.natural, cell_len(_header(each.name))) for each in whole],
        [each.natural for each in whole],
    ):
        if sum(each + _FRAME for each in widths) + 1 <= width:
            return Group(heading, _table(whole, widths, framed=True))
    now = clock.wall()
    shown = [_Column.of(name, rows, now) for name in columns]
    left_out = [name for name in spare if any(column.name == name for column in shown)]
    for count in range(len(left_out) + 1):
        some = [column for column in shown if column.name not in left_out[:count]]
        if _fits(some, IDS[0], width):
            return Group(heading, *_narrow(some, IDS[0], width, left_out[:count]))
    some = [column for column in shown if column.name not in left_out]
    for most in IDS[1:]:
        if _fits(some, most, width):
            return Group(heading, *_narrow(some, most, width, left_out))
    return Group(heading, *_blocks(whole))


@dataclass(frozen=True, slots=True)
class _Column:
    """A column's cells; `natural` is the width in which none of them is folded, `header` that of its longest word."""

    name: str
    cells: Sequence[str]
    natural: int
    header: int
    words: bool

    @classmethod
    def of(cls, name: str, rows: Sequence[Mapping[str, Any]], now: float | None = None) -> _Column:
        """The cells of a column; with `now` times are ages."""
        cells = [cell(name, row.get(name), now) for row in rows]
        header = max(map(cell_len, _header(name).split()))
        natural = max([header, *(cell_len(line) for text in cells for line in text.split("\n"))])
        words = not _is_time(name) and any(" " in text for text in cells)
        return cls(name, cells, natural, header, words)

    def least(self, most: int) -> int:
        """What it needs, where ids of more than `most` characters may be folded."""
        return max(self.header, min(self.natural, LEAST_WORDS if self.words else most))


def cell(name: str, value: Any, now: float | None = None) -> str:
    """A value as a cell; a time as it is, or with `now` (seconds since the epoch) as an age."""
    if value is None:
        return ""
    if _is_time(name) and isinstance(value, int):
        at = value / 1000
        seconds = -1.0 if now is None else now - at
        return _age(seconds) if seconds >= 0 else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    text = value if isinstance(value, str) else str(value)
    return harmless(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")


def harmless(text: str) -> str:
    """`text` with what could steer a terminal shown as escapes; line ends stay."""
    return "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text)


def _is_time(name: str) -> bool:
    return name == "at" or name.endswith("_at")


def _age(seconds: float) -> str:
    for size, unit in _AGES:
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def _header(name: str) -> str:
    return name.replace("_", " ")


def _fits(columns: Sequence[_Column], most: int, width: int) -> bool:
    return sum(column.least(most) + _GAP for column in columns) <= width


def _narrow(columns: Sequence[_Column], most: int, width: int, left_out: Sequence[str]) -> Generator[RenderableType]:
    """The table in which each column has what it needs, then ids what they lack, then those that lack least."""
    widths = {column.name: column.least(most) for column in columns}
    left = width - sum(each + _GAP for each in widths.values())
    for column in sorted(columns, key=lambda column: (column.words, column.natural)):
        more = min(left, column.natural - widths[column.name])
        widths[column.name] += more
        left -= more
    yield _table(columns, list(widths.values()), framed=False)
    if left_out:
        yield Text(f"too narrow here for: {', '.join(map(_header, left_out))}; --json has all", "dim")


def _table(columns: Sequence[_Column], widths: Sequence[int], *, framed: bool) -> Table:
    table = Table() if framed else Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
    for column, width in zip(columns, widths, strict=True):
        table.add_column(Text(_header(column.name)), width=width, overflow="fold")
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(Text, cells))
    return table


def _blocks(columns: Sequence[_Column]) -> list[RenderableType]:
    """Each row as lines of a name and a value."""
    blocks: list[RenderableType] = []
    for cells in zip(*(column.cells for column in columns), strict=True):
        block = Table.grid(padding=(0, 2, 0, 0))
        for column, text in zip(columns, cells, strict=True):
            if text:
                block.add_row(Text(_header(column.name), "bold"), Text(text, overflow="fold"))
        blocks += [Text(""), block]
    return blocks
