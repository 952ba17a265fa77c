"""Screens above the list: one record in full, and the help."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from tellback.tui.page import page
from tellback.tui.paint import painted
from tellback.tui.review import Review
from tellback.tui.words import Line, exit_of

HELP: Final = """\
One line is one command: exit, start (UTC), duration, attempt, marks,
the command, and what its agent had expected. The newest is at the bottom.

  ✓ 0     success         ✗ 1  a non-zero exit      ✗ KILL  by a signal
  ∅ null  no exit: nobody may go on from it as if it had succeeded
  2/3     second of three attempts      ?/?  a link that leads nowhere
  S slow  T truncated  R redacted

Move     ↑ ↓ or j k, Page up and down, Home; End stays with the newest
Record   Enter or a double click shows all of it; Esc leads back
Attempt  [ and ] go to the one before and after
Failure  l, or a click on that line, goes to the latest non-zero exit

Kinds    1 all  2 failed  3 null exit  4 open: no linked success followed
         5 retries and what they retried  6 slow  7 truncated or redacted
Filters  d directory, a part of it      c command, words of it
         e exit: 1  !0  >1  null  KILL, several with commas
         x clears all; Enter or Esc leads back to the list
"""


class RecordScreen(Screen[None]):
    """All that is known of one record."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "app.pop_screen", "Back", key_display="Esc"),
        Binding("left_square_bracket", "attempt(-1)", "Attempt before", key_display="["),
        Binding("right_square_bracket", "attempt(1)", "after", key_display="]"),
        Binding("p", "neighbour(-1)", "Record before"),
        Binding("n", "neighbour(1)", "after"),
        Binding("up,k", "scroll(-1)", "Scroll", key_display="↑↓"),
        Binding("down,j", "scroll(1)", "Down", show=False),
    ]

    def __init__(self, review: Review, place: int) -> None:
        """Take what knows the records, and which one it is."""
        super().__init__()
        self._review = review
        self.place = place

    def compose(self) -> ComposeResult:
        """A title, the page, the keys."""
        yield Static(id="record-title")
        with VerticalScroll(id="record-window"):
            yield Static(id="record")
        yield Footer()

    def on_mount(self) -> None:
        """Show it."""
        self.renew()
        self.query_one("#record-window").focus()

    def renew(self) -> None:
        """Show it as it is known now: a retry may have settled it."""
        row = self._review.rows[self.place]
        where = f" · record {self.place + 1:,} of {len(self._review.rows):,} · "
        title: Line = [("tellback watch", "title"), (where, "plain"), (exit_of(row.record), "title")]
        self.query_one("#record-title", Static).update(painted([title]))
        self.query_one("#record", Static).update(painted(page(self._review, row)))

    def action_attempt(self, step: int) -> None:
        """Go along the chain."""
        self._go(self._review.attempt(self.place, step))

    def action_neighbour(self, step: int) -> None:
        """Go along the list."""
        visible = self._review.visible
        index = self._review.index_of(self.place)
        if step > 0 and (index >= len(visible) or visible[index] != self.place):
            step = 0  # it is not in sight itself: the next one stands where it would
        if 0 <= index + step < len(visible):
            self._go(visible[index + step])

    def action_scroll(self, step: int) -> None:
        """Scroll the page."""
        self.query_one("#record-window").scroll_relative(y=step, animate=False)

    def _go(self, place: int | None) -> None:
        if place is not None:
            self.place = place
            self.renew()
            self.query_one("#record-window").scroll_home(animate=False)


class HelpScreen(Screen[None]):
    """What the signs mean and what the keys do."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "app.pop_screen", "Back", key_display="Esc")
    ]

    def compose(self) -> ComposeResult:
        """The text, and the way back."""
        with VerticalScroll():
            yield Static(HELP, markup=False, id="help")
        yield Footer()
