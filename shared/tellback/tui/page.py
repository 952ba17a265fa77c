"""The screens that cover the list: one whole record, and the help.

A record's page is styled lines: its expectation and outcome, its attempts, its output and its origin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Static

from tellback.contracts.commands import CommandRecord, StreamFlags
from tellback.quoting import quote_forged_lines, quote_terminal
from tellback.sanitize import terminal_output
from tellback.truncation import truncate_chars
from tellback.tui.record_text import (
    Role,
    StyledLine,
    duration_text,
    exit_text,
    outcome_role,
    outcome_text,
)
from tellback.tui.review import RecordReview, RecordRow

SHOWN_ATTEMPTS: Final = 9  # of a longer chain, those around this record

MAX_PROBLEM_CHARS: Final = 300

# The notes that truncation and redaction leave in the output. They are highlighted, and never shortened away.
_MARKER: Final = re.compile(r"\.\.\.truncated \d+ (?:lines|bytes)\.\.\.$|^\[redacted: [^\]]*\]$")


def record_page(review: RecordReview, row: RecordRow, *, longest: int | None = None) -> list[StyledLine]:
    """Return the whole page of one record; output lines are truncated to `longest` characters if it is given."""
    record = row.record
    lines: list[StyledLine] = [[(quote_terminal(row.command), "title")], _outcome_line(row)]
    lines.append(
        _field_line("Expected", quote_terminal(record.agent_note) if record.agent_note else "nothing was said")
    )
    lines += _attempt_lines(review, row)
    lines.append(_field_line("Directory", quote_terminal(record.cwd) if record.cwd else "it did not run anywhere"))
    if cut := _omitted_text(record):
        lines.append([*_field_line("Not shown", ""), (cut, "mark")])
    lines += _stream_lines("stdout", record.stdout_tail, longest)
    lines += _stream_lines("stderr", record.stderr_tail, longest)
    return lines + _origin_lines(record)


def latest_failure_line(review: RecordReview) -> StyledLine:
    """Return one line about the latest non-zero exit."""
    if review.latest_failure is None:
        return [("No command has failed.", "dim")]
    row = review.rows[review.latest_failure]
    why = "resolved by a retry" if row.resolved_by else "waived"
    resolved: StyledLine = [(f"{why} ", "good"), ("·", "dim")] if row.is_resolved else []
    note = row.record.agent_note
    expected = f" · expected: {quote_terminal(note)}" if note else ""
    return [
        (" Latest failure ", "dim" if row.is_resolved else "bad"),
        *resolved,
        (f" {outcome_text(row.record)} · {quote_terminal(row.command)}{expected}", "plain"),
    ]


def _field_line(name: str, text: str) -> StyledLine:
    return [(f"{name:<11}", "label"), (text, "plain")]


def _outcome_line(row: RecordRow) -> StyledLine:
    record = row.record
    line = _field_line("Outcome", "")
    line.append((outcome_text(record), outcome_role(record, resolved=row.is_resolved)))
    if record.exit_code is not None and record.error:
        line.append((f" · {quote_terminal(record.error)}", "plain"))
    line.append((f" · {duration_text(record.duration_ms)}", "plain"))
    if row.is_slow:
        line.append((" slow", "mark"))
    if row.resolved_by:
        line.append((f" · resolved by {quote_terminal(row.resolved_by)}", "good"))
    return line


def _attempt_lines(review: RecordReview, row: RecordRow) -> list[StyledLine]:
    """Return the chain of attempts, with this record in brackets, and problems with its links."""
    attempts = row.attempt_chain
    assert attempts is not None
    lines: list[StyledLine] = []
    if len(attempts.row_indexes) > 1:
        at = attempts.attempt_index(row.index)
        # A window around this record that doesn't run past either end of the chain.
        first = max(0, min(at - SHOWN_ATTEMPTS // 2, len(attempts.row_indexes) - SHOWN_ATTEMPTS))
        line = _field_line("Attempts", f"{at + 1} of {len(attempts.row_indexes)}: {'… → ' if first else ''}")
        for step, place in enumerate(attempts.row_indexes[first : first + SHOWN_ATTEMPTS], first):
            other = review.rows[place]
            shown = exit_text(other.record)
            if step > first:
                line.append((" → ", "dim"))
            line.append((f"[{shown}]" if step == at else shown, outcome_role(other.record, resolved=other.is_resolved)))
        if first + SHOWN_ATTEMPTS < len(attempts.row_indexes):
            line.append((" → …", "dim"))
        lines.append(line)
    if attempts.chain.orphans or attempts.chain.cycle:
        problems = quote_terminal("; ".join(attempts.chain.link_problems))[:MAX_PROBLEM_CHARS]
        lines.append([*_field_line("Links", ""), (problems, "mark")])
    return lines


def _origin_lines(record: CommandRecord) -> list[StyledLine]:
    """Return when and where the command ran, and the ids that it refers to."""
    where = [f"session {record.session}"]
    where += [f"{name} {value}" for name, value in (("host", record.host), ("worker", record.worker)) if value]
    if record.attempt > 1:
        where.append(f"attempt {record.attempt}")
    started = (record.started_at or "nothing was started").replace("T", " ", 1).replace("Z", " UTC")
    ids = record.command_id
    if record.parent_command_id:
        ids += f" after {record.parent_command_id}"
    lines: list[StyledLine] = [_section_heading("origin")]
    lines += [_field_line("Started", quote_terminal(started)), _field_line("Where", quote_terminal(" · ".join(where)))]
    lines.append(_field_line("Id", quote_terminal(ids)))
    if record.waiver is not None:
        lines.append(_field_line("Waived", quote_terminal(f"by {record.waiver.by}: {record.waiver.reason}")))
    if record.input_command_ids:
        lines.append(_field_line("Used", quote_terminal(", ".join(record.input_command_ids))))
    return lines


def _omitted_text(record: CommandRecord) -> str:
    """Return a note about truncated or redacted output, "" if the tails are complete."""
    said = [f"{_stream_names(record.truncated)} truncated"] if _stream_names(record.truncated) else []
    said += [f"{_stream_names(record.redacted)} redacted"] if _stream_names(record.redacted) else []
    return f"{', '.join(said)}; {record.output_bytes:,} bytes were written" if said else ""


def _stream_names(flags: StreamFlags) -> str:
    return " and ".join(name for name, is_set in (("stdout", flags.stdout), ("stderr", flags.stderr)) if is_set)


def _stream_lines(name: str, text: str, longest: int | None) -> list[StyledLine]:
    if not text:
        return [_section_heading(f"{name}: nothing")]
    lines = [_section_heading(name)]
    for line in terminal_output(quote_forged_lines(text)).removesuffix("\n").split("\n"):
        # A marker at the end of a long line tells that output is missing, so only the text before it is shortened.
        found = _MARKER.search(line)
        said = line[: found.start()] if found else line
        if longest is not None:
            said = truncate_chars(said, longest)
        pieces: StyledLine = [(said, "plain"), (found[0] if found else "", "mark")]
        lines.append([piece for piece in pieces if piece[0]])
    return lines


def _section_heading(name: str) -> StyledLine:
    return [(f"── {name} ".ljust(30, "─"), "rule")]


STYLES: Final[dict[Role, str]] = {
    "plain": "",
    "dim": "$foreground-muted",
    "good": "$text-success",
    "bad": "bold $text on $error",
    "resolved": "$foreground-muted",
    "null": "bold $text-warning",
    "label": "$foreground-muted",
    "title": "bold",
    "mark": "$text-warning",
    "rule": "$text-primary",
}


def styled_content(lines: Iterable[StyledLine]) -> Content:
    """Return the lines with their colours; brackets in them are text, not Textual markup."""
    return Content("\n").join(
        Content.assemble(*((text, STYLES[role]) for text, role in line)) if line else Content("") for line in lines
    )


HELP: Final = """\
One line is one command: exit, start (UTC), duration, attempt, marks,
the command, and what its agent had expected. The newest is at the bottom.

  ✓ 0     success         ✗ 1  a non-zero exit      ✗ KILL  by a signal
  ∅ null  no exit: nobody may continue from it as if it had succeeded
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
    """One whole record; keys lead to other attempts and to its neighbours in the list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "app.pop_screen", "Back", key_display="Esc"),
        Binding("left_square_bracket", "attempt(-1)", "Attempt before", key_display="["),
        Binding("right_square_bracket", "attempt(1)", "after", key_display="]"),
        Binding("p", "neighbour(-1)", "Record before"),
        Binding("n", "neighbour(1)", "after"),
        Binding("up,k", "scroll(-1)", "Scroll", key_display="↑↓"),
        Binding("down,j", "scroll(1)", "Down", show=False),
    ]

    def __init__(self, review: RecordReview, place: int) -> None:
        super().__init__()
        self._review = review
        self.place = place

    def compose(self) -> ComposeResult:
        """Compose the title, the page and the footer."""
        yield Static(id="record-title")
        with VerticalScroll(id="record-window"):
            yield Static(id="record")
        yield Footer()

    def on_mount(self) -> None:
        """Show the record and let keys scroll it."""
        self.refresh_record()
        self.query_one("#record-window").focus()

    def refresh_record(self) -> None:
        """Show the record again, since a retry that arrived meanwhile may have resolved its failure."""
        row = self._review.rows[self.place]
        where = f" · record {self.place + 1:,} of {len(self._review.rows):,} · "
        title: StyledLine = [("tellback watch", "title"), (where, "plain"), (exit_text(row.record), "title")]
        self.query_one("#record-title", Static).update(styled_content([title]))
        self.query_one("#record", Static).update(styled_content(record_page(self._review, row)))

    def action_attempt(self, step: int) -> None:
        """Go to another attempt in the chain."""
        self._show_row(self._review.neighbour_attempt(self.place, step))

    def action_neighbour(self, step: int) -> None:
        """Go to the record before or after this one in the list."""
        visible = self._review.visible
        index = self._review.index_of(self.place)
        if step > 0 and (index >= len(visible) or visible[index] != self.place):
            step = 0  # the filters hide this record, so the next one has its index
        if 0 <= index + step < len(visible):
            self._show_row(visible[index + step])

    def action_scroll(self, step: int) -> None:
        """Scroll the page."""
        self.query_one("#record-window").scroll_relative(y=step, animate=False)

    def _show_row(self, place: int | None) -> None:
        if place is not None:
            self.place = place
            self.refresh_record()
            self.query_one("#record-window").scroll_home(animate=False)  # another record starts at its top


class HelpScreen(Screen[None]):
    """The meaning of the signs and the keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "app.pop_screen", "Back", key_display="Esc")
    ]

    def compose(self) -> ComposeResult:
        """Compose the help text and the footer."""
        with VerticalScroll():
            yield Static(HELP, markup=False, id="help")
        yield Footer()
