"""The Textual app of `tellback watch`: the list, the record under the cursor, the filters, and the keys.

A thread reads the source and posts records as messages, because widgets may change only in the app's own thread.
"""

from __future__ import annotations

from threading import Event, Semaphore, Thread
from typing import ClassVar, Final, TypeVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Footer, Input, Static

from tellback.contracts.commands import CommandRecord
from tellback.quoting import quote_terminal
from tellback.tui.filters import KIND_NAMES, FilterBar, Kind, KindChoice
from tellback.tui.page import HelpScreen, RecordScreen, latest_failure_line, record_page, styled_content
from tellback.tui.record_text import StyledLine
from tellback.tui.review import RecordReview
from tellback.tui.rows import RecordList, header_line
from tellback.tui.sources import RecordSource
from tellback.wording import count_phrase

WIDE: Final = 120  # columns from which the record is shown beside the list
# Characters of an output line beside the list. The page is laid out again with each move of the cursor, and a record
# may have 143 KB, which would delay the next key.
LONGEST: Final = 400
READ_AHEAD: Final = 2  # batches that the reader may have in the message queue, since keys wait in the same queue
_LIST_ACTIONS: Final = {"latest", "attempt", "filter", "clear", "kind", "help", "list", "quit"}

W = TypeVar("W", bound=Widget)


class LatestFailure(Static):
    """The line with the latest non-zero exit; a click goes to its record."""

    class JumpRequested(Message):
        """The user wants to see the latest failure."""

    def on_click(self) -> None:
        """Request to go to the latest failure."""
        self.post_message(self.JumpRequested())


class WatchApp(App[None]):
    """The app of `tellback watch`; commands that took at least `slow` seconds count as slow."""

    CSS_PATH = "watch.tcss"
    TITLE = "tellback watch"
    ENABLE_COMMAND_PALETTE: ClassVar[bool] = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "latest", "Last failure"),
        Binding("left_square_bracket", "attempt(-1)", "Attempts", key_display="[ ]"),
        Binding("right_square_bracket", "attempt(1)", "Attempt after", show=False),
        Binding("d", "filter('directory')", "Directory", show=False),
        Binding("c", "filter('command')", "Command", show=False),
        Binding("e", "filter('exit')", "Exit", show=False),
        Binding("x", "clear", "Clear"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "leave", show=False),  # Textual's own shows a notice; selected text is copied before this
        Binding("escape", "list", "Back to the list", show=False),
        *(
            Binding(str(number), f"kind({number})", name, show=False)
            for number, name in enumerate(KIND_NAMES.values(), 1)
        ),
    ]

    class RecordsArrived(Message):
        """Records arrived, or the source's status changed."""

        def __init__(self, records: list[CommandRecord], said: str) -> None:
            super().__init__()
            self.records, self.said = records, said

    class SourceFailed(Message):
        """The source can't be read."""

        def __init__(self, error: Exception) -> None:
            super().__init__()
            self.error = error

    def __init__(self, source: RecordSource, *, slow: float) -> None:
        super().__init__()
        self.animation_level = "none"  # the effect of a key shows at once
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]
        self.review = RecordReview(slow=slow)
        self.error: Exception | None = None  # why the source failed; the command line prints it after the exit
        self._source = source
        self._said = ""
        self._kind = Kind.ALL
        self._stopped, self._ahead = Event(), Semaphore(READ_AHEAD)

    def compose(self) -> ComposeResult:
        """Compose the lines at the top, the list, the page of one record, and the footer."""
        yield Static(id="title")
        with Horizontal(id="kinds"):
            for kind in KIND_NAMES:
                yield KindChoice(kind)
        yield FilterBar(id="filters")
        yield LatestFailure(id="latest")
        with Container(id="body"):
            with Container(id="list"):
                yield Static(id="heading")
                yield RecordList(self.review, id="rows")
            with VerticalScroll(id="window", can_focus=True):
                yield Static(id="page")
        yield Footer()

    def on_mount(self) -> None:
        """Show the empty list and start to read the source."""
        self._rows.focus()
        self._refresh_list()
        Thread(target=self._read_source, name="source", daemon=True).start()

    def on_unmount(self) -> None:
        """Stop reading."""
        self._stopped.set()

    def on_record_list_resized(self) -> None:
        """Update the heading. The app's own resize comes too early: a wide layout gives the list another width."""
        self._update_heading()

    def on_watch_app_records_arrived(self, event: RecordsArrived) -> None:
        """Add the records, and keep the cursor on its record."""
        self._ahead.release()
        self._said = event.said
        selected = self._rows.selected
        if self.review.add(event.records):
            self._refresh_list(selected.index if selected else None, still=True)
            if isinstance(self.screen, RecordScreen):
                self.screen.refresh_record()
        self._update_title()

    def on_watch_app_source_failed(self, event: SourceFailed) -> None:
        """Exit and keep the error for the command line."""
        self.error = event.error
        self.exit(return_code=1)

    def on_record_list_cursor_moved(self) -> None:
        """Show the record under the cursor."""
        self._update_title()
        self._update_page()

    def on_record_list_row_opened(self) -> None:
        """Show the whole record on a screen of its own."""
        selected = self._rows.selected
        if selected is not None:
            self.push_screen(RecordScreen(self.review, selected.index))

    def on_kind_choice_kind_chosen(self, event: KindChoice.KindChosen) -> None:
        """Show only records of this kind."""
        self._show_kind(event.kind)

    def on_filter_bar_edited(self) -> None:
        """Apply the edited filters."""
        self._show_kind(self._kind)

    def on_input_submitted(self) -> None:
        """Return to the list."""
        self._rows.focus()

    def on_latest_failure_jump_requested(self) -> None:
        """Show the latest failure."""
        self.action_latest()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002  # Textual's signature
        """Disable the list's actions while another screen covers it."""
        return action not in _LIST_ACTIONS or len(self.screen_stack) == 1

    def action_leave(self) -> None:
        """Quit from any screen; `q` goes back to the list from the others."""
        self.exit()

    def action_latest(self) -> None:
        """Go to the latest non-zero exit; clear the filters if they hide it."""
        if self.review.latest_failure is not None:
            self._go_to(self.review.latest_failure)

    def action_attempt(self, step: int) -> None:
        """Go to another attempt in the chain of the record under the cursor."""
        selected = self._rows.selected
        place = self.review.neighbour_attempt(selected.index, step) if selected else None
        if place is not None:
            self._go_to(place)

    def action_kind(self, number: int) -> None:
        """Show only the kind with this number."""
        self._show_kind(list(KIND_NAMES)[number - 1])

    def action_filter(self, name: str) -> None:
        """Focus the input of one filter."""
        self._first_screen_widget(f"#{name}", Input).focus()

    def action_clear(self) -> None:
        """Clear the filters and show all records."""
        self._first_screen_widget("#filters", FilterBar).reset()
        self._show_kind(Kind.ALL)

    def action_list(self) -> None:
        """Focus the list."""
        self._rows.focus()

    def action_help(self) -> None:
        """Show the help."""
        self.push_screen(HelpScreen())

    @property
    def _rows(self) -> RecordList:
        return self._first_screen_widget("#rows", RecordList)

    def _first_screen_widget(self, selector: str, kind: type[W]) -> W:
        """Return a widget of the first screen, even while another screen covers it."""
        return self.screen_stack[0].query_one(selector, kind)

    def _show_kind(self, kind: Kind) -> None:
        self._kind = kind
        selected = self._rows.selected
        self.review.apply_filter(self._first_screen_widget("#filters", FilterBar).current_filter(kind))
        self._refresh_list(selected.index if selected else None)

    def _go_to(self, place: int) -> None:
        index = self.review.index_of(place)
        if self.review.visible[index : index + 1] != [place]:  # the filters hide it
            self.action_clear()
        self._rows.go_to(place)
        self._rows.focus()

    def _refresh_list(self, place: int | None = None, *, still: bool = False) -> None:
        for choice, kind in zip(self.screen_stack[0].query(KindChoice), KIND_NAMES, strict=True):
            choice.update_count(self.review.counts[kind], chosen=kind is self._kind)
        latest, at = self._first_screen_widget("#latest", LatestFailure), self.review.latest_failure
        latest.update(styled_content([latest_failure_line(self.review)]))
        latest.set_class(at is not None and not self.review.rows[at].is_resolved, "-open")
        self._rows.refresh_rows(place, still=still)

    def _update_title(self) -> None:
        all_, shown, rows = len(self.review.rows), len(self.review.visible), self._rows
        counted = f"{shown:,} of {all_:,}" if shown != all_ else count_phrase(all_, "record")
        said = [quote_terminal(self._source.title), counted]
        said.append("following" if rows.following else f"at {rows.cursor + 1:,}")
        said += [self._said] if self._said else []
        self._first_screen_widget("#title", Static).update(
            styled_content([[("tellback watch", "title"), (f" · {' · '.join(said)}", "plain")]])
        )

    def _update_heading(self) -> None:
        self._first_screen_widget("#heading", Static).update(
            styled_content([[(header_line(self._rows.size.width), "dim")]])
        )

    def _update_page(self) -> None:
        selected = self._rows.selected
        lines: list[StyledLine] = (
            record_page(self.review, selected, longest=LONGEST) if selected else [[("No record is shown.", "dim")]]
        )
        self._first_screen_widget("#page", Static).update(styled_content(lines))

    def _read_source(self) -> None:
        """Read the source to its end; runs in a thread of its own."""
        try:
            self._source.run(self._deliver, self._stopped)
        except Exception as error:  # noqa: BLE001 - or the list would stand still, and nobody would know why
            if not self._stopped.is_set():
                self.post_message(self.SourceFailed(error))

    def _deliver(self, records: list[CommandRecord], said: str) -> None:
        while not self._ahead.acquire(timeout=0.1):
            if self._stopped.is_set():
                return
        if not self._stopped.is_set():
            self.post_message(self.RecordsArrived(records, said))
