"""The filters of the list by kind, directory, command and exit, and the widgets that set them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntFlag
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Label, Static

from tellback.contracts.commands import CommandRecord
from tellback.tui.record_text import count_text

# One term of the exit filter: an optional comparison with a number, or a word such as `null`, `KILL`, `SIGUSR1` or
# `RTMIN+2`. Ten digits are enough for any exit code and keep a pasted number small.
_EXIT_TERM: Final = re.compile(r"(?:(!=?|<=?|>=?|=)?(-?\d{1,10})|([a-z]+\+?\d*))", re.IGNORECASE)

_COMPARISONS: Final[dict[str, Callable[[int, int], bool]]] = {
    "": operator.eq,
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Kind(IntFlag):
    """The kinds of records that a reviewer looks for, as bits; a record may have several."""

    ALL = 1
    FAILED = 2  # an exit that is not 0
    NULL = 4  # no exit
    OPEN = 8  # a failure or null exit that no later linked success of the same command and no waiver resolved
    RETRIES = 16  # linked to another attempt
    SLOW = 32
    PARTIAL = 64  # something was truncated or redacted


@dataclass(frozen=True, slots=True)
class ExitFilter:
    """A parsed exit filter: `1`, `!0`, `>1`, `null`, `SIGKILL`, or several of them separated by commas."""

    tests: tuple[Callable[[CommandRecord], bool], ...] = ()

    def matches(self, record: CommandRecord) -> bool:
        """Return True if any of the tests matches the record, or if there are no tests."""
        return not self.tests or any(test(record) for test in self.tests)


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """The conditions for a record to be shown; texts match parts and ignore case."""

    kind: Kind = Kind.ALL
    directory: str = ""
    command: str = ""
    exits: ExitFilter = ExitFilter()


def parse_exit_filter(text: str) -> ExitFilter:
    """Parse the text of the exit filter.

    Raises:
        ValueError: a term is invalid; the message quotes it.
    """
    return ExitFilter(tuple(_exit_test(term) for term in re.split(r"[,\s]+", text.strip()) if term))


def _exit_test(term: str) -> Callable[[CommandRecord], bool]:
    found = _EXIT_TERM.fullmatch(term)
    if found is None:
        raise ValueError(f"no exit: {term}")
    sign, digits, word = found.groups(default="")
    if word:
        if word.lower() == "null":
            return lambda record: record.exit_code is None
        name = f"SIG{word.upper().removeprefix('SIG')}"
        return lambda record: record.signal == name
    number = int(digits)
    if sign.startswith("!"):
        return lambda record: record.exit_code != number  # a null exit isn't 0, so `!0` finds it, too
    compare = _COMPARISONS[sign]
    return lambda record: record.exit_code is not None and compare(record.exit_code, number)


KIND_NAMES: Final = {
    Kind.ALL: "All",
    Kind.FAILED: "Failed",
    Kind.NULL: "Null",
    Kind.OPEN: "Open",
    Kind.RETRIES: "Retries",
    Kind.SLOW: "Slow",
    Kind.PARTIAL: "Partial",
}

_KEYS: Final = {kind: str(number) for number, kind in enumerate(KIND_NAMES, 1)}


class KindChoice(Static):
    """A kind with the number of its records; a click chooses it."""

    class KindChosen(Message):
        """The user wants to see this kind."""

        def __init__(self, kind: Kind) -> None:
            super().__init__()
            self.kind = kind

    def __init__(self, kind: Kind) -> None:
        super().__init__(id=f"kind-{_KEYS[kind]}", classes="kind")
        self._kind = kind

    def update_count(self, number: int, *, chosen: bool) -> None:
        """Show the number of records, and highlight the kind if it is the chosen one."""
        self.set_class(chosen, "-chosen")
        self.set_class(not number, "-none")
        self.update(
            Content.assemble(
                (_KEYS[self._kind], "$text-accent"), f" {KIND_NAMES[self._kind]} ", (count_text(number), "bold")
            )
        )

    def on_click(self) -> None:
        """Request to show this kind."""
        self.post_message(self.KindChosen(self._kind))


class FilterBar(Horizontal):
    """The inputs for directory, command and exit."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.list", "Back to the list", key_display="Esc"),
        Binding("tab", "app.focus_next", "Next filter", key_display="Tab"),
    ]

    class Edited(Message):
        """A filter's text changed."""

    def compose(self) -> ComposeResult:
        """Compose three inputs, each labelled with the key that focuses it."""
        for name, key, hint in (
            ("directory", "d", "a part of it"),
            ("command", "c", "words of it"),
            ("exit", "e", "1  !0  null"),
        ):
            rest = Content.assemble((key, "$text-accent"), f" {name}")
            yield Label(rest, classes="filter-name")
            yield Input(placeholder=hint, compact=True, id=name, select_on_focus=False)

    def current_filter(self, kind: Kind) -> RecordFilter:
        """Return the current filter; an invalid exit filter is highlighted and lets every record pass."""
        field = self.query_one("#exit", Input)
        try:
            exits = parse_exit_filter(field.value)
        except ValueError:
            exits = ExitFilter()
            field.add_class("-unreadable")
        else:
            field.remove_class("-unreadable")
        return RecordFilter(
            kind, self.query_one("#directory", Input).value, self.query_one("#command", Input).value, exits
        )

    def reset(self) -> None:
        """Clear all filters."""
        for field in self.query(Input):
            field.value = ""

    def on_input_changed(self, event: Input.Changed) -> None:
        """Report the change as one message, whichever input it came from."""
        event.stop()
        self.post_message(self.Edited())
