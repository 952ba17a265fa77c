"""Tables of figures and bars for the reports of `tellback stats`, which stay readable in a narrow terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tellback.cli.listing import LEAST_WORDS
from tellback.quoting import quote_terminal

WORDS: Final = frozenset({"outcomes", "by type"})  # columns of text besides the first; all others hold numbers


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> Group:
    """Return rows under a title; text and bars are left-aligned, numbers right-aligned.

    The title is not Rich's own: that would be folded to the width of the rows.
    """
    return Group(Text(title, "bold"), _FittedTable(columns, rows))


class _FittedTable:
    """A table that loses its bars in a narrow terminal, and then becomes a block of named values for each row.

    Rich alone would take the width from every column, down to nothing, names first.
    """

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
        self._columns = columns
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        bars = [place for place, cell in enumerate(self._rows[0]) if isinstance(cell, Text)]
        for left_out in ([], bars):
            places = [place for place in range(len(self._columns)) if place not in left_out]
            if sum(self._min_width(place) + 1 for place in places) <= options.max_width:
                yield self._build(places)
                return
        yield from map(self._block, self._rows)

    def _min_width(self, place: int) -> int:
        """Return the smallest acceptable width: words may be folded, numbers and bars may not."""
        natural = max(cell_len(_cell(row[place]).plain) for row in self._rows)
        header = cell_len(self._columns[place])
        return max(header, min(natural, LEAST_WORDS) if self._is_words(place) else natural)

    def _is_words(self, place: int) -> bool:
        return place == 0 or self._columns[place] in WORDS

    def _build(self, places: Sequence[int]) -> Table:
        made = Table(box=None, padding=(0, 1, 0, 0))
        for place in places:
            words = self._is_words(place)
            made.add_column(
                self._columns[place],
                justify="left" if words or isinstance(self._rows[0][place], Text) else "right",
                overflow="fold",
                no_wrap=not words,
                min_width=self._min_width(place),
            )
        for row in self._rows:
            made.add_row(*(_cell(row[place]) for place in places))
        return made

    def _block(self, row: Sequence[str | Text]) -> Padding:
        """Return a row as `tool Bash · calls 9 · errors 9 100%`; a value without a name belongs to the one before."""
        parts: list[str] = []
        for column, cell in zip(self._columns, row, strict=True):
            if isinstance(cell, Text) or not cell:
                continue
            text = quote_terminal(cell)
            if column or not parts:
                parts.append(f"{column} {text}".strip())
            else:
                parts[-1] += f" {text}"
        return Padding(Text(" · ".join(parts), overflow="fold"), (0, 0, 0, 2))


def _cell(value: str | Text) -> Text:
    return value if isinstance(value, Text) else Text(quote_terminal(value))
