"""Listings as tables that stay readable in a narrow terminal.

Rich alone folds every column evenly, which splits ids and words. This module instead drops the frame, shortens times
to ages, leaves out `spare` columns, and at last prints each row as a block of lines, in that order. An id of up to 36
characters is on one line in any of them, so that it can be selected and copied.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from tellback import clock
from tellback.quoting import quote_terminal
from tellback.sanitize import terminal_text
from tellback.truncation import truncate_chars

ID: Final = 36
"""Characters of an id that a table keeps in one line: those of a UUID."""
LEAST_WORDS: Final = 12
"""Minimum width of a column of words, in characters."""
_LONGEST: Final = 200  # characters of one cell; longer values are truncated, --json has them whole
_FRAME, _GAP = 3, 2  # characters beside each cell, with and without a frame
_AGES: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


def show_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, title: str, spare: Sequence[str]) -> None:
    """Print rows under a title; a terminal too narrow for all columns loses those of `spare`, first to last.

    In a pipe no line is folded unless the environment variable COLUMNS sets a width.
    """
    console = Console()
    width = console.width
    if not (console.is_terminal or "COLUMNS" in os.environ):
        width = 1 + len(columns) * (_LONGEST + _FRAME)  # Rich assumes 80 columns in a pipe, which would break `grep`
    Console(width=width).print(fit_table(rows, columns, spare, title=title, width=width), crop=False)


def fit_table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], spare: Sequence[str], *, title: str, width: int
) -> RenderableType:
    """Return the rows as a table of at most `width` characters, or as blocks of lines if no table fits."""
    heading = Text(terminal_text(title), "italic")
    whole = [_Column.from_rows(name, rows) for name in columns]
    for widths in (
        [max(each.natural, cell_len(_header_text(each.name))) for each in whole],
        [each.natural for each in whole],
    ):
        if sum(each + _FRAME for each in widths) + 1 <= width:
            return Group(heading, _build_table(whole, widths, framed=True))
    now = clock.wall()
    shown = [_Column.from_rows(name, rows, now) for name in columns]
    left_out = [name for name in spare if any(column.name == name for column in shown)]
    for count in range(len(left_out) + 1):
        some = [column for column in shown if column.name not in left_out[:count]]
        if sum(column.min_width + _GAP for column in some) <= width:
            return Group(heading, *_fit_columns(some, width, left_out[:count]))
    return Group(heading, *_row_blocks(whole, width))


@dataclass(frozen=True, slots=True)
class _Column:
    """A column's cells; `natural` is the width at which none is folded, `header` that of the title's longest word."""

    name: str
    cells: Sequence[str]
    natural: int
    header: int
    words: bool

    @classmethod
    def from_rows(cls, name: str, rows: Sequence[Mapping[str, Any]], now: float | None = None) -> _Column:
        """Return the column with its cells formatted; with `now`, times become ages."""
        cells = [format_cell(name, row.get(name), now) for row in rows]
        header = max(map(cell_len, _header_text(name).split()))
        natural = max([header, *(cell_len(line) for text in cells for line in text.split("\n"))])
        words = not _is_time(name) and any(" " in text for text in cells)
        return cls(name, cells, natural, header, words)

    @property
    def min_width(self) -> int:
        """The smallest acceptable width."""
        return max(self.header, min(self.natural, LEAST_WORDS if self.words else ID))


def format_cell(name: str, value: Any, now: float | None = None) -> str:
    """Return a value as a cell's text; with `now` (seconds since the epoch), a time becomes an age."""
    if value is None:
        return ""
    if _is_time(name) and isinstance(value, int):
        seconds = -1.0 if now is None else now - value / 1000
        # A time ahead of this host's clock (skew, or a time in the future such as `ready_at`) has no age.
        return _format_age(seconds) if seconds >= 0 else clock.utc_time(value).strftime("%Y-%m-%d %H:%M:%S")
    text = truncate_chars(value if isinstance(value, str) else str(value), _LONGEST)
    return quote_terminal(text)


def _is_time(name: str) -> bool:
    return name in {"at", "deadline"} or name.endswith("_at")


def _format_age(seconds: float) -> str:
    for size, unit in _AGES:
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def _header_text(name: str) -> str:
    return name.replace("_", " ")


def _fit_columns(columns: Sequence[_Column], width: int, left_out: Sequence[str]) -> Generator[RenderableType]:
    """Yield the table: every column gets its minimum, then ids, then the narrowest others, get the width left over."""
    widths = {column.name: column.min_width for column in columns}
    left = width - sum(each + _GAP for each in widths.values())
    for column in sorted(columns, key=lambda column: (column.words, column.natural)):
        more = min(left, column.natural - widths[column.name])
        widths[column.name] += more
        left -= more
    yield _build_table(columns, list(widths.values()), framed=False)
    if left_out:
        yield Text(f"columns hidden to fit: {', '.join(map(_header_text, left_out))}; use --json to see all", "dim")


def _build_table(columns: Sequence[_Column], widths: Sequence[int], *, framed: bool) -> Table:
    table = Table() if framed else Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
    for column, width in zip(columns, widths, strict=True):
        table.add_column(Text(_header_text(column.name)), width=width, overflow="fold")
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(Text, cells))
    return table


def _row_blocks(columns: Sequence[_Column], width: int) -> list[RenderableType]:
    """Return each row as lines of a name and a value."""
    blocks: list[RenderableType] = []
    for cells in zip(*(column.cells for column in columns), strict=True):
        fields = [(column.name, text) for column, text in zip(columns, cells, strict=True) if text]
        blocks += [Text(""), *_block(fields, width)]
    return blocks


def show_fields(values: Mapping[str, Any], *, title: str) -> None:
    """Print the values of one thing under a title, a line each, without those that are None or empty."""
    console = Console()
    fields = [(name, format_cell(name, value)) for name, value in values.items()]
    block = _block([(name, text) for name, text in fields if text], console.width)
    console.print(Group(Text(terminal_text(title), "italic"), *block))


def _block(fields: Sequence[tuple[str, str]], width: int) -> list[RenderableType]:
    """Return lines of a name and a value; one that has no room next to its name is on the next line."""
    names = max((cell_len(_header_text(name)) for name, _ in fields), default=0)
    lines: list[RenderableType] = []
    room = width - names - _GAP
    for name, text in fields:
        if cell_len(text) <= room or (" " in text and room >= LEAST_WORDS):
            line = Table.grid(Column(width=names), padding=(0, _GAP, 0, 0), pad_edge=False)
            line.add_column(overflow="fold")
            line.add_row(Text(_header_text(name), "bold"), Text(text))
            lines.append(line)
        else:
            lines += [Text(_header_text(name), "bold"), Text(text, overflow="fold")]
    return lines
