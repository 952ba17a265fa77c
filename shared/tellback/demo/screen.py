"""The demo's output: acts, lines, checks and tables, with a spinner while it waits."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from tellback import clock


class DemoScreen:
    """The output of one demo; it collects the effects that didn't happen.

    It writes to standard output; in a pipe without colours and without the spinner.
    """

    def __init__(self) -> None:
        # Soft wrap: in a pipe rich would otherwise break lines at 80 columns.
        self._console = Console(highlight=False, soft_wrap=True)
        self._status = Status("", console=self._console)
        self._start = clock.monotonic()
        self.checked = 0
        self.missing: list[str] = []

    def __enter__(self) -> Self:
        """Return the screen."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the spinner."""
        self._status.stop()

    @property
    def is_terminal(self) -> bool:
        """Return True if the output is a terminal."""
        return self._console.is_terminal

    @property
    def seconds(self) -> float:
        """The seconds since the demo began."""
        return clock.monotonic() - self._start

    def begin_act(self, title: str) -> None:
        """Print the title of a new act."""
        self._console.print()
        self._console.print(Text(title, style="bold"))

    def print_line(self, text: str, style: str = "") -> None:
        """Print one or more lines, indented."""
        for line in text.splitlines() or [""]:
            self._console.print(Text(f"  {line}".rstrip(), style=style))

    def check(self, happened: object, effect: str) -> bool:
        """Print an expected effect with a tick or a cross, and keep it if it didn't happen."""
        self.checked += 1
        mark, style = ("✓", "green") if happened else ("✗", "bold red")
        self._console.print(Text.assemble((f"  {mark} ", style), effect))
        if not happened:
            self.missing.append(effect)
        return bool(happened)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table whose first column is text and whose other columns are numbers."""
        table = Table(title=title, title_justify="left", title_style="")
        for number, column in enumerate(columns):
            table.add_column(column, justify="right" if number else "left")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self._console.print(table)

    def show_waiting(self, what: str) -> None:
        """Show a spinner with a text on a terminal, until the next call of `stop_waiting`."""
        if self._console.is_terminal:
            self._status.update(Text(what))
            self._status.start()

    def stop_waiting(self) -> None:
        """Hide the spinner."""
        self._status.stop()
