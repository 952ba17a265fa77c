"""The list of records, one line each, and the columns of such a line.

Textual's own lists hold every row. This one renders only the visible lines, so a hundred thousand records cost as much
as ten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from rich.cells import set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tellback.quoting import quote_terminal
from tellback.tui.record_text import (
    Role,
    StyledLine,
    count_text,
    duration_text,
    exit_text,
    mark_letters,
    outcome_role,
    start_time_text,
)
from tellback.tui.review import RecordReview, RecordRow

WITH_TIME: Final = 60  # columns; a narrower list leaves out the time, which gives the command more room

WITH_EXPECTED: Final = 64  # columns; a narrower list leaves out the expectation as well


@dataclass(frozen=True, slots=True)
class Columns:
    """The width of each column in cells; 0 leaves it out."""

    exit: int
    time: int
    took: int
    attempt: int
    marks: int
    command: int
    expected: int

    @classmethod
    def for_width(cls, width: int) -> Columns:
        """Return the columns for a list of `width` cells."""
        time = 8 if width >= WITH_TIME else 0
        # 26 cells are the four fixed columns with a space after each; two fifths of the rest hold the expectation.
        rest = max(1, width - 26 - (time + 1 if time else 0))
        expected = rest * 2 // 5 if width >= WITH_EXPECTED else 0
        return cls(7, time, 7, 5, 3, rest - (expected + 1 if expected else 0), expected)


def header_line(width: int) -> str:
    """Return the line with the names of the columns."""
    columns = Columns.for_width(width)
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


def row_line(row: RecordRow, width: int) -> StyledLine:
    """Return the line of one record: exit, start, duration, attempt, marks, command, expectation."""
    record, columns = row.record, Columns.for_width(width)
    cells: StyledLine = [
        (set_cell_size(exit_text(record), columns.exit), outcome_role(record, resolved=row.is_resolved))
    ]
    if columns.time:
        cells.append((start_time_text(record), "dim"))
    pace: Role = "mark" if row.is_slow else "plain"
    cells.append((f"{duration_text(record.duration_ms):>7}", pace))
    cells.append((set_cell_size(f"{_attempt_text(row):>5}", columns.attempt), "dim"))
    cells.append((f"{mark_letters(record, slow=row.is_slow):<3}", "mark"))
    cells.append((_fit_text(quote_terminal(row.command), columns.command), "plain"))
    if columns.expected:
        cells.append((_fit_text(quote_terminal(record.agent_note or ""), columns.expected), "plain"))
    spaced: StyledLine = []
    for cell in cells:
        spaced.append(cell)
        spaced.append((" ", "plain"))
    return spaced[:-1]


def _attempt_text(row: RecordRow) -> str:
    assert row.attempt_chain is not None
    steps = len(row.attempt_chain.row_indexes)
    if steps > 1:
        return f"{count_text(row.attempt_chain.attempt_index(row.index) + 1)}/{count_text(steps)}"
    return "?/?" if row.attempt_chain.chain.link_problems else ""


def _fit_text(text: str, width: int) -> str:
    """Return `text` in exactly `width` cells, with an ellipsis if it was truncated."""
    fitted = set_cell_size(text[:width], width)
    return fitted if fitted.rstrip() == text.rstrip() else f"{set_cell_size(text, width - 1)}…"


class RecordList(ScrollView, can_focus=True, inherit_bindings=False):
    """The visible records of a review, one line each, with a cursor that can follow the newest."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"rows--{name}"
        for name in ("plain", "dim", "good", "bad", "resolved", "null", "mark", "cursor", "latest", "unfocused")
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

    class CursorMoved(Message):
        """The cursor moved to another record, or to none."""

    class Resized(Message):
        """The list has another width; the heading's columns depend on it."""

    class RowOpened(Message):
        """The user wants to see the whole record."""

    def __init__(self, review: RecordReview, *, id: str) -> None:  # noqa: A002  # every Textual widget has this name for it
        super().__init__(id=id)
        self._review = review
        self.cursor = 0
        self.following = True  # the cursor stays with the newest

    @property
    def selected(self) -> RecordRow | None:
        """The record under the cursor."""
        visible = self._review.visible
        return self._review.rows[visible[self.cursor]] if self.cursor < len(visible) else None

    def refresh_rows(self, place: int | None, *, still: bool) -> None:
        """Show the review's current rows, with the cursor on the record at `place`, near it, or on the newest.

        With `still` the list doesn't scroll if the cursor was out of sight, since the user has scrolled away from it.
        """
        away = not 0 <= self.cursor - self.scroll_offset.y < self.size.height
        newest = max(0, len(self._review.visible) - 1)
        index = newest if self.following or place is None else min(newest, self._review.index_of(place))
        self._update_virtual_size()
        self._move_cursor(index, scroll=self.following or not (still and away))

    def go_to(self, place: int) -> None:
        """Move the cursor to the record at `place`, or to the next visible one."""
        self._move_cursor(min(max(0, len(self._review.visible) - 1), self._review.index_of(place)), by_reader=True)

    def render_line(self, y: int) -> Strip:
        """Render one visible line."""
        index, width = self.scroll_offset.y + y, self.size.width
        if index >= len(self._review.visible):
            return Strip.blank(width, self.rich_style)
        row = self._review.rows[self._review.visible[index]]
        base = self._line_styles(index, row)
        segments = [
            Segment(text, base[0] + self.get_component_rich_style(f"rows--{role}", partial=True) + base[1])
            for text, role in row_line(row, width)
        ]
        return Strip(segments).adjust_cell_length(width, base[0] + base[1])

    def on_resize(self) -> None:
        """Adapt to the new size and keep the cursor visible."""
        self._update_virtual_size()
        self._move_cursor(self.cursor)
        self.post_message(self.Resized())

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to a record; a double click opens it."""
        index = self.scroll_offset.y + event.y
        if index < len(self._review.visible):
            self._move_cursor(index, by_reader=True)
            if event.chain == 2:
                self.post_message(self.RowOpened())

    def on_mouse_scroll_up(self) -> None:
        """Stop following, so that a new record doesn't pull the user away."""
        self.following = False

    def action_move(self, step: int) -> None:
        """Move the cursor by `step` records."""
        self._move_cursor(self.cursor + step, by_reader=True)

    def action_page(self, step: int) -> None:
        """Move the cursor by `step` pages."""
        self._move_cursor(self.cursor + step * max(1, self.size.height - 1), by_reader=True)

    def action_first(self) -> None:
        """Go to the oldest record."""
        self._move_cursor(0, by_reader=True)

    def action_last(self) -> None:
        """Go to the newest record and follow it."""
        self._move_cursor(len(self._review.visible) - 1, by_reader=True)

    def action_open(self) -> None:
        """Open the record."""
        if self.selected is not None:
            self.post_message(self.RowOpened())

    def _update_virtual_size(self) -> None:
        self.virtual_size = Size(self.size.width, len(self._review.visible))

    def _move_cursor(self, index: int, *, by_reader: bool = False, scroll: bool = True) -> None:
        newest = max(0, len(self._review.visible) - 1)
        self.cursor = min(max(0, index), newest)
        if by_reader:
            self.following = self.cursor == newest
        if scroll:
            self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, force=True)
        self.refresh()
        self.post_message(self.CursorMoved())

    def _line_styles(self, index: int, row: RecordRow) -> tuple[Style, Style]:
        """Return the styles below and above the line's own colours."""
        if index == self.cursor:
            return Style(), self.get_component_rich_style("rows--cursor" if self.has_focus else "rows--unfocused")
        if row.index == self._review.latest_failure:
            return self.get_component_rich_style("rows--latest"), Style()
        return self.rich_style, Style()
