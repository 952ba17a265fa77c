"""The list of records: only the lines in sight are ever made, so that a hundred thousand cost as much as ten."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tellback.tui import table
from tellback.tui.review import Review, Row


class Rows(ScrollView, can_focus=True, inherit_bindings=False):
    """What a review shows, one line each, with a cursor."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"rows--{name}"
        for name in ("plain", "dim", "good", "bad", "settled", "null", "mark", "cursor", "latest", "unfocused")
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Record", key_display="⏎"),
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "first", "First", show=False),
        Binding("end", "last", "Newest", key_display="End"),
    ]

    class Moved(Message):
        """The cursor stands on another record, or on none."""

    class Opened(Message):
        """The reader wants to see the whole record."""

    def __init__(self, review: Review, *, id: str) -> None:  # noqa: A002  # as every widget names it
        """Take what knows the records."""
        super().__init__(id=id)
        self._review = review
        self.cursor = 0
        self.following = True  # the cursor stays with the newest

    @property
    def selected(self) -> Row | None:
        """The record under the cursor."""
        visible = self._review.visible
        return self._review.rows[visible[self.cursor]] if self.cursor < len(visible) else None

    def renew(self, place: int | None, *, still: bool = False) -> None:
        """Show what the review shows now; the cursor goes to the record at `place`, or near it, or to the newest.

        With `still` the lines in sight stay where they are, if the cursor was not among them.
        """
        away = not 0 <= self.cursor - self.scroll_offset.y < self.size.height
        newest = max(0, len(self._review.visible) - 1)
        index = newest if self.following or place is None else min(newest, self._review.index_of(place))
        self._measure()
        self._put(index, scroll=self.following or not (still and away))

    def go_to(self, place: int) -> None:
        """Put the cursor on the record at `place`, or on the next one in sight."""
        self._put(min(max(0, len(self._review.visible) - 1), self._review.index_of(place)), by_reader=True)

    def render_line(self, y: int) -> Strip:
        """One line of the window."""
        index, width = self.scroll_offset.y + y, self.size.width
        if index >= len(self._review.visible):
            return Strip.blank(width, self.rich_style)
        row = self._review.rows[self._review.visible[index]]
        base = self._base(index, row)
        segments = [
            Segment(text, base[0] + self.get_component_rich_style(f"rows--{role}", partial=True) + base[1])
            for text, role in table.line(row, width)
        ]
        return Strip(segments).adjust_cell_length(width, base[0] + base[1])

    def on_resize(self) -> None:
        """Keep the cursor in sight."""
        self._measure()
        self._put(self.cursor)

    def on_click(self, event: events.Click) -> None:
        """Choose a record; twice opens it."""
        index = self.scroll_offset.y + event.y
        if index < len(self._review.visible):
            self._put(index, by_reader=True)
            if event.chain == 2:
                self.post_message(self.Opened())

    def on_mouse_scroll_up(self) -> None:
        """Look back: the newest does not pull the reader away."""
        self.following = False

    def action_move(self, step: int) -> None:
        """Move the cursor by records."""
        self._put(self.cursor + step, by_reader=True)

    def action_page(self, step: int) -> None:
        """Move the cursor by what fits the window."""
        self._put(self.cursor + step * max(1, self.size.height - 1), by_reader=True)

    def action_first(self) -> None:
        """Go to the oldest."""
        self._put(0, by_reader=True)

    def action_last(self) -> None:
        """Go to the newest, and stay with it."""
        self._put(len(self._review.visible) - 1, by_reader=True)

    def action_open(self) -> None:
        """Open the record."""
        if self.selected is not None:
            self.post_message(self.Opened())

    def _measure(self) -> None:
        self.virtual_size = Size(self.size.width, len(self._review.visible))

    def _put(self, index: int, *, by_reader: bool = False, scroll: bool = True) -> None:
        newest = max(0, len(self._review.visible) - 1)
        self.cursor = min(max(0, index), newest)
        if by_reader:
            self.following = self.cursor == newest
        if scroll:
            self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, force=True)
        self.refresh()
        self.post_message(self.Moved())

    def _base(self, index: int, row: Row) -> tuple[Style, Style]:
        """What lies under a line's own colours, and what over them."""
        if index == self.cursor:
            return Style(), self.get_component_rich_style("rows--cursor" if self.has_focus else "rows--unfocused")
        if row.place == self._review.latest_failure:
            return self.get_component_rich_style("rows--latest"), Style()
        return self.rich_style, Style()
