"""The terminal view of records: the list, the record under the cursor, filters, and keys."""

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
from tellback.errors import TellbackError
from tellback.tui.bars import NAMES, Filters, KindChoice
from tellback.tui.filters import Kind
from tellback.tui.page import latest_failure, page
from tellback.tui.paint import painted
from tellback.tui.review import Review
from tellback.tui.rows import Rows
from tellback.tui.screens import HelpScreen, RecordScreen
from tellback.tui.sources import Source
from tellback.tui.table import heading
from tellback.tui.words import Line, one_line

WIDE: Final = 120  # columns from which the record stands beside the list
LONGEST: Final = 400  # characters of a line of output beside the list: a record may have 143 KB, and keys do not wait
AHEAD: Final = 2  # deliveries that may wait, so that keys are answered between them
_OF_THE_LIST: Final = {"latest", "attempt", "filter", "clear", "kind", "help", "list", "quit"}

W = TypeVar("W", bound=Widget)


class Latest(Static):
    """The latest non-zero exit; a click goes to it."""

    class Asked(Message):
        """The reader wants to see it."""

    def on_click(self) -> None:
        """Go to it."""
        self.post_message(self.Asked())


class WatchApp(App[None]):
    """`tellback watch`."""

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
        Binding("escape", "list", "Back to the list", show=False),
        *(Binding(str(number), f"kind({number})", name, show=False) for number, name in enumerate(NAMES.values(), 1)),
    ]

    class Came(Message):
        """Records came, or the source has something to say."""

        def __init__(self, records: list[CommandRecord], said: str) -> None:
            super().__init__()
            self.records, self.said = records, said

    class Broke(Message):
        """The source cannot be read."""

        def __init__(self, error: TellbackError) -> None:
            super().__init__()
            self.error = error

    def __init__(self, source: Source, *, slow: float) -> None:
        """Take where records come from, and the seconds from which a command is slow."""
        super().__init__()
        self.animation_level = "none"  # a key's effect is there at once
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]
        self.review = Review(slow=slow)
        self.error: TellbackError | None = None  # of the source, after the end
        self._source = source
        self._said = ""
        self._kind = Kind.ALL
        self._stopped, self._ahead = Event(), Semaphore(AHEAD)

    def compose(self) -> ComposeResult:
        """The lines above, the list, the record under the cursor, the keys."""
        yield Static(id="title")
        with Horizontal(id="kinds"):
            for kind in NAMES:
                yield KindChoice(kind)
        yield Filters(id="filters")
        yield Latest(id="latest")
        with Container(id="body"):
            with Container(id="list"):
                yield Static(id="heading")
                yield Rows(self.review, id="rows")
            with VerticalScroll(id="window", can_focus=True):
                yield Static(id="page")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to read."""
        self._rows.focus()
        self._renew()
        Thread(target=self._read, name="source", daemon=True).start()

    def on_unmount(self) -> None:
        """End reading."""
        self._stopped.set()

    def on_resize(self) -> None:
        """The columns change with the width."""
        self.call_after_refresh(self._tell_heading)

    def on_watch_app_came(self, event: Came) -> None:
        """Take what came."""
        self._ahead.release()
        self._said = event.said
        selected = self._rows.selected
        if self.review.add(event.records):
            self._renew(selected.place if selected else None, still=True)
            if isinstance(self.screen, RecordScreen):
                self.screen.renew()
        self._tell_title()

    def on_watch_app_broke(self, event: Broke) -> None:
        """End, for the command line to say why."""
        self.error = event.error
        self.exit(return_code=1)

    def on_rows_moved(self) -> None:
        """Show the record under the cursor."""
        self._tell_title()
        self._tell_page()

    def on_rows_opened(self) -> None:
        """Show all of it."""
        selected = self._rows.selected
        if selected is not None:
            self.push_screen(RecordScreen(self.review, selected.place))

    def on_kind_choice_chosen(self, event: KindChoice.Chosen) -> None:
        """Show this kind alone."""
        self._show(event.kind)

    def on_filters_changed(self) -> None:
        """Show what the filters let pass."""
        self._show(self._kind)

    def on_input_submitted(self) -> None:
        """Go on with the list."""
        self._rows.focus()

    def on_latest_asked(self) -> None:
        """Go to the latest failure."""
        self.action_latest()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002  # Textual's signature
        """What belongs to the list does nothing while another screen is above it."""
        return action not in _OF_THE_LIST or len(self.screen_stack) == 1

    def action_latest(self) -> None:
        """Go to the latest non-zero exit, over the filters if they hide it."""
        if self.review.latest_failure is not None:
            self._go(self.review.latest_failure)

    def action_attempt(self, step: int) -> None:
        """Go along the chain of the record under the cursor."""
        selected = self._rows.selected
        place = self.review.attempt(selected.place, step) if selected else None
        if place is not None:
            self._go(place)

    def action_kind(self, number: int) -> None:
        """Show one kind."""
        self._show(list(NAMES)[number - 1])

    def action_filter(self, name: str) -> None:
        """Write a filter."""
        self._at(f"#{name}", Input).focus()

    def action_clear(self) -> None:
        """Show all."""
        self._at("#filters", Filters).clear()
        self._show(Kind.ALL)

    def action_list(self) -> None:
        """Go back to the list."""
        self._rows.focus()

    def action_help(self) -> None:
        """Explain signs and keys."""
        self.push_screen(HelpScreen())

    @property
    def _rows(self) -> Rows:
        return self._at("#rows", Rows)

    def _at(self, selector: str, kind: type[W]) -> W:
        """A widget of the first screen, whichever screen is above it."""
        return self.screen_stack[0].query_one(selector, kind)

    def _show(self, kind: Kind) -> None:
        self._kind = kind
        selected = self._rows.selected
        self.review.show(self._at("#filters", Filters).chosen(kind))
        self._renew(selected.place if selected else None)

    def _go(self, place: int) -> None:
        index = self.review.index_of(place)
        if self.review.visible[index : index + 1] != [place]:
            self.action_clear()
        self._rows.go_to(place)
        self._rows.focus()

    def _renew(self, place: int | None = None, *, still: bool = False) -> None:
        for choice, kind in zip(self.screen_stack[0].query(KindChoice), NAMES, strict=True):
            choice.tell(self.review.counts[kind], chosen=kind is self._kind)
        latest, at = self._at("#latest", Latest), self.review.latest_failure
        latest.update(painted([latest_failure(self.review)]))
        latest.set_class(at is not None and not self.review.rows[at].settled, "-open")
        self._rows.renew(place, still=still)

    def _tell_title(self) -> None:
        all_, shown, rows = len(self.review.rows), len(self.review.visible), self._rows
        said = [one_line(self._source.title), f"{shown:,} of {all_:,}" if shown != all_ else f"{all_:,} records"]
        said.append("following" if rows.following else f"at {rows.cursor + 1:,}")
        said += [self._said] if self._said else []
        self._at("#title", Static).update(painted([[("tellback watch", "title"), (f" · {' · '.join(said)}", "plain")]]))

    def _tell_heading(self) -> None:
        self._at("#heading", Static).update(painted([[(heading(self._rows.size.width), "dim")]]))

    def _tell_page(self) -> None:
        selected = self._rows.selected
        lines: list[Line] = (
            page(self.review, selected, longest=LONGEST) if selected else [[("No record is shown.", "dim")]]
        )
        self._at("#page", Static).update(painted(lines))

    def _read(self) -> None:
        """In a thread of its own: read the source to its end."""
        try:
            self._source.run(self._deliver, self._stopped)
        except TellbackError as error:
            if not self._stopped.is_set():
                self.post_message(self.Broke(error))

    def _deliver(self, records: list[CommandRecord], said: str) -> None:
        while not self._ahead.acquire(timeout=0.1):
            if self._stopped.is_set():
                return
        if not self._stopped.is_set():
            self.post_message(self.Came(records, said))
