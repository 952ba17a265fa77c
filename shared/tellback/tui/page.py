"""The page of one record: what was expected and what came of it, its attempts, and the head and tail of its output."""

from __future__ import annotations

import re
from typing import Final

from tellback.contracts.commands import CommandRecord, StreamFlags
from tellback.tui.review import Review, Row
from tellback.tui.words import Line, exit_of, one_line, outcome_of, printable, role_of, took

SHOWN_ATTEMPTS: Final = 9  # of a longer chain those around this record
MAX_PROBLEM_CHARS: Final = 300
_MARKER: Final = re.compile(r"\.\.\.truncated \d+ (?:lines|bytes)\.\.\.$|^\[redacted: [^\]]*\]$")


def page(review: Review, row: Row, *, longest: int | None = None) -> list[Line]:
    """All that is known of one record; lines of output are cut after `longest` characters, if that is given."""
    record = row.record
    lines: list[Line] = [[(row.command, "title")], _outcome(row)]
    lines.append(_field("Expected", one_line(record.agent_note) if record.agent_note else "nothing was said"))
    lines += _attempts(review, row)
    lines.append(_field("Directory", one_line(record.cwd) if record.cwd else "it did not run anywhere"))
    if cut := _cut(record):
        lines.append([*_field("Not shown", ""), (cut, "mark")])
    lines += _stream("stdout", record.stdout_tail, longest)
    lines += _stream("stderr", record.stderr_tail, longest)
    return lines + _origin(record)


def latest_failure(review: Review) -> Line:
    """One line on the latest non-zero exit."""
    if review.latest_failure is None:
        return [("No command has failed.", "dim")]
    row = review.rows[review.latest_failure]
    settled: Line = [("settled by a retry ", "good"), ("·", "dim")] if row.settled else []
    note = row.record.agent_note
    expected = f" · expected: {one_line(note)}" if note else ""
    return [
        (" Latest failure ", "dim" if row.settled else "bad"),
        *settled,
        (f" {outcome_of(row.record)} · {row.command}{expected}", "plain"),
    ]


def _field(name: str, text: str) -> Line:
    return [(f"{name:<11}", "label"), (text, "plain")]


def _outcome(row: Row) -> Line:
    record = row.record
    line = _field("Outcome", "")
    line.append((outcome_of(record), role_of(record, settled=row.settled)))
    if record.exit_code is not None and record.error:
        line.append((f" · {one_line(record.error)}", "plain"))
    line.append((f" · {took(record.duration_ms)}", "plain"))
    if row.slow:
        line.append((" slow", "mark"))
    if row.resolved_by:
        line.append((f" · settled by {one_line(row.resolved_by)}", "good"))
    return line


def _attempts(review: Review, row: Row) -> list[Line]:
    """The chain, this record in brackets."""
    story = row.story
    assert story is not None
    lines: list[Line] = []
    if len(story.places) > 1:
        at = story.step(row.place)
        first = max(0, min(at - SHOWN_ATTEMPTS // 2, len(story.places) - SHOWN_ATTEMPTS))
        line = _field("Attempts", f"{at + 1} of {len(story.places)}: {'… → ' if first else ''}")
        for step, place in enumerate(story.places[first : first + SHOWN_ATTEMPTS], first):
            other = review.rows[place]
            shown = exit_of(other.record)
            if step > first:
                line.append((" → ", "dim"))
            line.append((f"[{shown}]" if step == at else shown, role_of(other.record, settled=other.settled)))
        if first + SHOWN_ATTEMPTS < len(story.places):
            line.append((" → …", "dim"))
        lines.append(line)
    if story.chain.orphans or story.chain.cycle:
        problems = one_line("; ".join(story.chain.problems))[:MAX_PROBLEM_CHARS]
        lines.append([*_field("Links", ""), (problems, "mark")])
    return lines


def _origin(record: CommandRecord) -> list[Line]:
    """Who ran it, when, and after what."""
    where = [f"session {record.session}"]
    where += [f"{name} {value}" for name, value in (("host", record.host), ("worker", record.worker)) if value]
    if record.attempt > 1:
        where.append(f"attempt {record.attempt}")
    started = (record.started_at or "nothing was started").replace("T", " ", 1).replace("Z", " UTC")
    ids = record.command_id
    if record.parent_command_id:
        ids += f" after {record.parent_command_id}"
    lines: list[Line] = [_heading("origin")]
    lines += [_field("Started", one_line(started)), _field("Where", one_line(" · ".join(where)))]
    lines.append(_field("Id", one_line(ids)))
    if record.input_command_ids:
        lines.append(_field("Used", one_line(", ".join(record.input_command_ids))))
    return lines


def _cut(record: CommandRecord) -> str:
    """What the tails do not show."""
    said = [f"{_streams(record.truncated)} truncated"] if _streams(record.truncated) else []
    said += [f"{_streams(record.redacted)} redacted"] if _streams(record.redacted) else []
    return f"{', '.join(said)}; {record.output_bytes:,} bytes were written" if said else ""


def _streams(flags: StreamFlags) -> str:
    return " and ".join(name for name, is_set in (("stdout", flags.stdout), ("stderr", flags.stderr)) if is_set)


def _stream(name: str, text: str, longest: int | None) -> list[Line]:
    if not text:
        return [_heading(f"{name}: nothing")]
    lines = [_heading(name)]
    for line in printable(text).removesuffix("\n").split("\n"):
        found = _MARKER.search(line)
        said = line[: found.start()] if found else line
        if longest is not None and len(said) > longest:
            said = f"{said[:longest]}…"
        pieces: Line = [(said, "plain"), (found[0] if found else "", "mark")]
        lines.append([piece for piece in pieces if piece[0]])
    return lines


def _heading(name: str) -> Line:
    return [(f"── {name} ".ljust(30, "─"), "rule")]
