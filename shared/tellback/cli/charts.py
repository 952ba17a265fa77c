"""Tables and bars on a terminal, as the pages of `tellback stats` have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

BAR: Final = 30
WORDS: Final = frozenset({"outcomes", "by type"})  # columns of text, beside the first


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> Group:
    """Rows under a title, which may be longer than they are; words and bars to the left, numbers to the right."""
    made = Table(box=None, padding=(0, 1, 0, 0))
    for place, column in enumerate(columns):
        words = place == 0 or column in WORDS
        bars = isinstance(rows[0][place], Text)
        made.add_column(column, justify="left" if words or bars else "right", overflow="fold", no_wrap=not words)
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else escape(visible(cell)) for cell in row))
    return Group(Text(title, "bold"), made)


def bar(whole: int, part: int, most: int, styles: tuple[str, str], *, longest: int = BAR) -> Text:
    """A bar as long as `whole` is of `most`; `part` of it in the first style. What is not nothing is seen."""
    cells = max(1, round(longest * whole / most)) if whole else 0
    begin = round(cells * part / whole) if whole else 0
    if cells > 1 and 0 < part < whole:
        begin = min(max(begin, 1), cells - 1)
    return Text.assemble(("█" * begin, styles[0]), ("▒" * (cells - begin), styles[1]))


def percent(rate: float | None) -> str:
    """A rate as whole per cent; nothing where there is none."""
    return "" if rate is None else f"{rate:.0%}"


def visible(text: str) -> str:
    """Names come from outside: no control character of theirs reaches the terminal."""
    return "".join(sign if sign.isprintable() else "�" for sign in text)
