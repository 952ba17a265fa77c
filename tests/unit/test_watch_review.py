"""The review of records in `tellback watch`: kinds, chains, filters, and the words for them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tellback.commands.gate import build_chains, resolutions
from tellback.contracts.commands import CommandRecord, StreamFlags, Waiver
from tellback.tui import record_text, rows
from tellback.tui.filters import ExitFilter, Kind, RecordFilter, parse_exit_filter
from tellback.tui.page import latest_failure_line, record_page
from tellback.tui.record_text import StyledLine
from tellback.tui.review import RecordReview
from tests.support.costs import calls_of
from tests.support.hostile import HOSTILE, hidden, marks_in_a_row

CUT, NONE = StreamFlags(stdout=True), StreamFlags()


def record(
    id_: str,
    exit_code: int | None = 0,
    parent: str | None = None,
    *,
    argv: str = "pytest -q",
    cwd: str | None = "/srv/app",
    duration_ms: int = 300,
    note: str | None = None,
    signal: str | None = None,
    truncated: StreamFlags = NONE,
    redacted: StreamFlags = NONE,
    stdout: str = "",
) -> CommandRecord:
    return CommandRecord(
        command_id=id_,
        session="s",
        command=argv.split(),
        parent_command_id=parent,
        cwd=cwd,
        exit_code=exit_code,
        error=None if exit_code is not None else "timed out after 30 s",
        signal=signal,
        duration_ms=duration_ms,
        started_at="2026-11-21T12:01:02.003Z",
        agent_note=note,
        truncated=truncated,
        redacted=redacted,
        stdout_tail=stdout,
    )


def review(*records: CommandRecord) -> RecordReview:
    made = RecordReview(slow=10)
    made.add(records)
    return made


def test_a_waiver_that_comes_later_resolves_the_failure_in_its_place() -> None:
    """It was taken for another record of the same command, and the failure stayed open."""
    failed, since = record("a", 1), record("b")
    made = review(failed, since)
    made.apply_filter(RecordFilter(kind=Kind.OPEN))
    assert made.visible == [0]
    waived = msgspec.structs.replace(failed, waiver=Waiver(by="ada", reason="known", at="2026-11-21T12:02:00Z"))
    assert (made.add([waived]), made.add([waived])) == (1, 0)
    assert [row.record for row in made.rows] == [waived, since]
    assert (made.counts[Kind.OPEN], made.visible, made.rows[0].is_resolved) == (0, [], True)
    assert review(failed, waived).counts[Kind.OPEN] == 0, "both in one batch"


def shown(of: RecordReview, chosen: RecordFilter) -> str:
    of.apply_filter(chosen)
    return "".join(of.rows[place].record.command_id for place in of.visible)


def text(lines: list[StyledLine]) -> str:
    return "\n".join("".join(piece for piece, _ in line) for line in lines)


SEVERAL = [
    record("a", 0, argv="git status", duration_ms=10_000),
    record("b", 1, cwd="/srv/Web"),
    record("c", 0, "b", cwd="/srv/Web", truncated=CUT),
    record("d", None, argv="make docs"),
    record("e", 2, argv="make docs", redacted=StreamFlags(stderr=True)),
    record("f", -9, argv="train", signal="SIGKILL", cwd=None),
]


@pytest.mark.parametrize(
    ("kind", "ids"),
    [
        (Kind.ALL, "abcdef"),
        (Kind.FAILED, "bef"),
        (Kind.NULL, "d"),
        (Kind.OPEN, "def"),
        (Kind.RETRIES, "bc"),
        (Kind.SLOW, "a"),
        (Kind.PARTIAL, "ce"),
    ],
)
def test_each_kind_is_found_and_counted(kind: Kind, ids: str) -> None:
    made = review(*SEVERAL)
    assert shown(made, RecordFilter(kind)) == ids
    assert made.counts[kind] == len(ids)


@pytest.mark.parametrize(
    ("directory", "command", "exits", "ids"),
    [
        ("/srv/web", "", "", "bc"),  # whatever the case; one that did not run is in no directory
        ("srv", "", "", "abcde"),
        ("", "docs MAKE", "", "de"),
        ("", "", "0", "ac"),
        ("", "", "!0", "bdef"),  # a null exit is no success
        ("", "", "null", "d"),
        ("", "", ">0, null", "bde"),
        ("", "", "<0", "f"),
        ("", "", "kill", "f"),
        ("", "", "SIGTERM", ""),
        ("web", "pytest", "1", "b"),
    ],
)
def test_filters(directory: str, command: str, exits: str, ids: str) -> None:
    made = review(*SEVERAL)
    assert shown(made, RecordFilter(Kind.ALL, directory, command, parse_exit_filter(exits))) == ids


def test_a_real_time_signal_is_found_by_the_name_that_is_shown() -> None:
    found = record("a", -36, signal="SIGRTMIN+2")
    assert record_text.exit_text(found) == "✗ RTMIN+2"
    for name in ("RTMIN+2", "sigrtmin+2"):
        assert shown(review(found, record("b", -9)), RecordFilter(exits=parse_exit_filter(name))) == "a"


@pytest.mark.parametrize("wrong", ["!", "1-2", "0x1", "é", "1;2", "!null"])
def test_an_exit_that_cannot_be_read_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="no exit"):
        parse_exit_filter(f"0, {wrong}")


def test_a_filter_holds_for_what_comes_later() -> None:
    made = review(record("a", 1))
    assert shown(made, RecordFilter(Kind.FAILED)) == "a"
    made.add([record("b", 0), record("c", 2)])
    assert [made.rows[place].record.command_id for place in made.visible] == ["a", "c"]


def test_a_retry_that_comes_later_settles_a_failure_in_sight() -> None:
    made = review(record("a", 1))
    assert shown(made, RecordFilter(Kind.OPEN)) == "a"
    made.add([record("b", 0, "a")])
    assert made.visible == []
    assert made.rows[0].resolved_by == "b"
    assert made.counts[Kind.OPEN] == 0
    assert "resolved by a retry" in text([latest_failure_line(made)])


def test_a_waived_failure_is_not_open() -> None:
    """As for the gate. Requirement C-68."""
    waiver = Waiver(by="ada", reason="the licence server was down", at="2026-11-21T12:02:00.000Z")
    made = review(msgspec.structs.replace(record("a", 1), waiver=waiver))
    assert made.counts[Kind.OPEN] == 0
    assert text([latest_failure_line(made)]) == " Latest failure waived · exit 1 · pytest -q"


def test_the_latest_non_zero_exit_is_shown_with_its_expectation() -> None:
    """A null exit is not one; it has a kind of its own."""
    made = review(record("a", 1, note="expect one failure"), record("b", None), record("c", 0))
    assert made.latest_failure == 0
    reported = text([latest_failure_line(made)])
    assert reported == " Latest failure  exit 1 · pytest -q · expected: expect one failure"
    assert text([latest_failure_line(review(record("a")))]) == "No command has failed."


def test_the_same_record_twice_is_one() -> None:
    """A record that is written while a file is loaded is delivered twice."""
    made = review(record("a"), record("b"))
    assert made.add([record("b"), record("c")]) == 1
    assert len(made.rows) == 3


def test_two_records_of_one_command_are_both_shown() -> None:
    """A worker that was declared lost may have written one too."""
    made = review(record("a", None), record("a", 0))
    assert [record_text.exit_text(row.record) for row in made.rows] == ["∅ null", "✓ 0"]


LINKS = st.lists(
    st.tuples(
        st.integers(0, 7), st.one_of(st.none(), st.integers(0, 9)), st.sampled_from([0, 1, None]), st.integers(0, 3)
    ),
    max_size=20,
)


@given(LINKS, st.integers(1, 4))
def test_records_that_come_one_after_the_other_show_the_same_chains(
    links: list[tuple[int, int | None, int | None, int]], step: int
) -> None:
    """The links may lead to later records, around in circles, to nowhere, or from an id that came twice."""
    records = [
        record(str(id_), code, None if parent is None else str(parent), argv=f"run {what}")
        for id_, parent, code, what in links
    ]
    records = [one for index, one in enumerate(records) if one not in records[:index]]
    made = RecordReview(slow=10)
    for start in range(0, len(records), step):
        made.add(records[start : start + step])
    rows = made.rows
    unique = [row.record for row in made.rows]
    expected = {id(one): chain for chain in build_chains(unique) for one in chain.records}
    for row in rows:
        assert row.attempt_chain is not None
        assert row.attempt_chain.chain == expected[id(row.record)]
        assert [made.rows[place].record for place in row.attempt_chain.row_indexes] == list(
            row.attempt_chain.chain.records
        )
    assert {row.index: row.resolved_by for row in rows if row.resolved_by} == resolutions(unique)
    assert made.counts[Kind.OPEN] == sum(len(chain.unresolved) for chain in build_chains(unique))


def test_attempts_are_walked_in_both_directions() -> None:
    made = review(record("a", 1), record("x"), record("b", 1, "a"), record("c", 0, "b"))
    assert [made.neighbour_attempt(2, step) for step in (-2, -1, 0, 1, 2)] == [None, 0, 2, 3, None]


def test_a_page_shows_expectation_outcome_chain_and_the_whole_output() -> None:
    output = "first\n...truncated 12 lines...\n[redacted: api-key]\nlast\n"
    made = review(
        record("a", 1, note="expect one failure", truncated=CUT, redacted=CUT, stdout=output), record("b", 0, "a")
    )
    lines = record_page(made, made.rows[0])
    reported = text(lines)
    for part in (
        "pytest -q",
        "Outcome    exit 1 · 300 ms · resolved by b",
        "Expected   expect one failure",
        "Attempts   1 of 2: [✗ 1] → ✓ 0",
        "Directory  /srv/app",
        "Not shown  stdout truncated, stdout redacted; 0 bytes were written",
        "first\n...truncated 12 lines...\n[redacted: api-key]\nlast\n── stderr: nothing",
        "2026-11-21 12:01:02.003 UTC",
        "Id         a",
    ):
        assert part in reported
    assert [("...truncated 12 lines...", "mark")] in lines
    assert [("[redacted: api-key]", "mark")] in lines


def test_beside_the_list_long_lines_are_cut_and_their_markers_stay() -> None:
    """The whole is a key away; a key on the list does not wait for 143 KB."""
    made = review(record("a", stdout=f"{'x' * 2048}...truncated 7 bytes...\nshort"))
    assert f"\n{'x' * 8}…...truncated 7 bytes...\nshort\n" in text(record_page(made, made.rows[0], longest=9))
    assert "x" * 2048 in text(record_page(made, made.rows[0]))


def test_a_null_exit_says_why_and_a_broken_link_is_shown() -> None:
    reported = text(record_page(made := review(record("b", None, "a")), made.rows[0]))
    assert "no exit: timed out after 30 s" in reported
    assert "b follows a, which is not among the records" in reported


def test_a_long_chain_is_shown_around_its_record() -> None:
    made = review(record("0", 1), *(record(str(number), 1, str(number - 1)) for number in range(1, 100)))
    reported = text(record_page(made, made.rows[50]))
    assert "51 of 100: … → ✗ 1 → ✗ 1 → ✗ 1 → ✗ 1 → [✗ 1] → ✗ 1 → ✗ 1 → ✗ 1 → ✗ 1 → …" in reported


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_in_a_record_reaches_the_terminal_as_a_command(name: str) -> None:
    raw = HOSTILE[name]
    made = review(record("a", 1, argv="ls", note=raw, stdout=raw, cwd=raw))
    reported = text([*record_page(made, made.rows[0]), rows.row_line(made.rows[0], 100)])
    assert hidden(reported) <= {"\n"}
    assert marks_in_a_row(reported) <= 8


@pytest.mark.parametrize(
    ("milliseconds", "reported"),
    [(0, "0 ms"), (999, "999 ms"), (2_670, "2.7 s"), (100_000, "1m 40s"), (3_599_999, "1h 00m"), (7_260_000, "2h 01m")],
)
def test_durations(milliseconds: int, reported: str) -> None:
    assert record_text.duration_text(milliseconds) == reported


@pytest.mark.parametrize("width", [30, 59, 60, 72, 78, 100, 200])
@pytest.mark.parametrize("argv", ["ls", "pytest " + "x" * 300, "echo " + "世界" * 60])
def test_a_line_is_as_wide_as_its_list(width: int, argv: str) -> None:
    made = review(record("a", -9, argv=argv, note="世" * 90, signal="SIGVTALRM", truncated=CUT, redacted=CUT))
    assert cell_len(text([rows.row_line(made.rows[0], width)])) == width
    assert cell_len(rows.header_line(width)) == width


def test_a_line_shows_all_at_once() -> None:
    made = review(record("a", 1), record("b", 2, "a", duration_ms=61_000, note="passes", truncated=CUT, redacted=CUT))
    reported = text([rows.row_line(made.rows[1], 78)]).split()
    assert reported == ["✗", "2", "12:01:02", "61.0", "s", "2/2", "STR", "pytest", "-q", "passes"]


@pytest.mark.slow
def test_a_hundred_thousand_records_and_one_more() -> None:
    """The cost of one more depends on its chain alone, and that of a filter on how many there are."""

    def cost(size: int) -> tuple[int, int]:
        made = review(
            *(record(str(number), number % 3, str(number - 1) if number % 5 else None) for number in range(size))
        )
        more = [record(str(number), 0, str(number - 1)) for number in range(size, size + 100)]
        adding = calls_of(lambda: [made.add([one]) for one in more])
        return adding, calls_of(lambda: made.apply_filter(RecordFilter(Kind.FAILED, "srv", "pytest", ExitFilter())))

    (adding, showing), (adding_small, showing_small) = cost(100_000), cost(10_000)
    assert adding < 1.1 * adding_small
    assert showing < 11 * showing_small
