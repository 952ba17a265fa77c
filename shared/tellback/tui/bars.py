"""The lines above the list: kinds to choose from, and the filters."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Label, Static

from tellback.tui.filters import Exits, Filter, Kind, parse_exits
from tellback.tui.words import count

NAMES: Final = {
    Kind.ALL: "All",
    Kind.FAILED: "Failed",
    Kind.NULL: "Null",
    Kind.OPEN: "Open",
    Kind.RETRIES: "Retries",
    Kind.SLOW: "Slow",
    Kind.CUT: "Cut",
}
_KEYS: Final = {kind: str(number) for number, kind in enumerate(NAMES, 1)}


class KindChoice(Static):
    """One kind with how many records are of it; a click chooses it."""

    class Chosen(Message):
        """The reader wants to see this kind."""

        def __init__(self, kind: Kind) -> None:
            super().__init__()
            self.kind = kind

    def __init__(self, kind: Kind) -> None:
        """Take the kind."""
        super().__init__(id=f"kind-{_KEYS[kind]}", classes="kind")
        self._kind = kind

    def tell(self, number: int, *, chosen: bool) -> None:
        """Show how many there are, and whether this is the kind in sight."""
        self.set_class(chosen, "-chosen")
        self.set_class(not number, "-none")
        self.update(
            Content.assemble((_KEYS[self._kind], "$text-accent"), f" {NAMES[self._kind]} ", (count(number), "bold"))
        )

    def on_click(self) -> None:
        """Choose it."""
        self.post_message(self.Chosen(self._kind))


class Filters(Horizontal):
    """What directory, command and exit must be."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.list", "Back to the list", key_display="Esc"),
        Binding("tab", "app.focus_next", "Next filter", key_display="Tab"),
    ]

    class Changed(Message):
        """The reader wrote something."""

    def compose(self) -> ComposeResult:
        """Three inputs, each named by the key that leads to it."""
        for name, key, hint in (
            ("directory", "d", "a part of it"),
            ("command", "c", "words of it"),
            ("exit", "e", "1  !0  null"),
        ):
            rest = Content.assemble((key, "$text-accent"), f" {name}")
            yield Label(rest, classes="filter-name")
            yield Input(placeholder=hint, compact=True, id=name, select_on_focus=False)

    def chosen(self, kind: Kind) -> Filter:
        """The filter as it stands; what cannot be read of the exits is marked, and lets all pass."""
        field = self.query_one("#exit", Input)
        try:
            exits = parse_exits(field.value)
        except ValueError:
            exits = Exits()
            field.add_class("-unreadable")
        else:
            field.remove_class("-unreadable")
        return Filter(kind, self.query_one("#directory", Input).value, self.query_one("#command", Input).value, exits)

    def clear(self) -> None:
        """Let all pass."""
        for field in self.query(Input):
            field.value = ""

    def on_input_changed(self, event: Input.Changed) -> None:
        """Tell that it changed."""
        event.stop()
        self.post_message(self.Changed())
