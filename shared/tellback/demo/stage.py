"""What the terminal shows of the demo: acts, lines, checks, tables; a moving line while something is awaited."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from tellback import clock


class Stage:
    """The output of one demo; it counts what did not happen."""

    def __init__(self) -> None:
        """On standard output; in a pipe without colours and without the moving line."""
        self._console = Console(highlight=False, soft_wrap=True)
        self._status = Status("", console=self._console)
        self._start = clock.monotonic()
        self.checked = 0
        self.missing: list[str] = []

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the moving line away."""
        self._status.stop()

    @property
    def is_terminal(self) -> bool:
        """Whether somebody looks at it now."""
        return self._console.is_terminal

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return clock.monotonic() - self._start

    def act(self, title: str) -> None:
        """A new part of the story."""
        self._console.print()
        self._console.print(Text(title, style="bold"))

    def say(self, text: str, style: str = "") -> None:
        """One line, or several, indented."""
        for line in text.splitlines() or [""]:
            self._console.print(Text(f"  {line}".rstrip(), style=style))

    def check(self, happened: object, effect: str) -> bool:
        """Show whether an expected effect happened, and remember it if not."""
        self.checked += 1
        mark, style = ("✓", "green") if happened else ("✗", "bold red")
        self._console.print(Text.assemble((f"  {mark} ", style), effect))
        if not happened:
            self.missing.append(effect)
        return bool(happened)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table; the first column is text, the others numbers."""
        table = Table(title=title, title_justify="left", title_style="")
        for number, column in enumerate(columns):
            table.add_column(column, justify="right" if number else "left")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self._console.print(table)

    def waiting(self, what: str) -> None:
        """Say on a terminal what is awaited, until the next call of `arrived`."""
        if self._console.is_terminal:
            self._status.update(Text(what))
            self._status.start()

    def arrived(self) -> None:
        """Nothing is awaited at the moment."""
        self._status.stop()
