"""Listings in terminals of any width: nothing is cut in two that need not be, nothing steers the terminal."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tellback import clock
from tellback.cli import listing
from tellback.cli.common import show_rows
from tellback.cli.listing import fit_table

NOW = 1_800_000_000.0
UUID = "6f1c2a9e-0d7b-4b1f-9c53-2f5f6f3f1a11"
BANK: dict[str, Any] = {
    "bank": UUID,
    "facts": 22_300,
    "clusters": 20_000,
    "stored_facts": 3,
    "average_score": "0.6123",
    "model": "all-MiniLM-L6-v2",
    "threshold": 0.81,
    "last_signal_at": int(NOW * 1000) - 90_000,
}
SPARE = ("threshold", "model", "clusters", "stored_facts")


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "wall", lambda: NOW)


def text(rows: list[dict[str, Any]], width: int, spare: tuple[str, ...] = SPARE, title: str = "Banks") -> str:
    out = io.StringIO()
    columns = list(rows[0])
    Console(file=out, width=width).print(fit_table(rows, columns, spare, title=title, width=width), crop=False)
    return out.getvalue()


def test_a_wide_terminal_shows_all_in_a_frame() -> None:
    shown = text([BANK], 160)
    assert f"│ {UUID} │ 22300 │ 20000    │ 3" in shown
    assert "2027-01-15 07:58:30" in shown
    assert "--json" not in shown


def test_a_narrow_one_has_ages_and_goes_without_columns_that_can_be_spared() -> None:
    shown = text([BANK], 80)
    assert f"{UUID}  22300" in shown, "an id stands in one line"
    assert "1 min ago" in shown
    assert "columns hidden to fit: threshold, model, clusters; use --json to see all" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert {"bank", "facts", "average", "signal"} <= set(shown.split()), "no header is cut in two"


def test_only_as_many_columns_are_left_out_as_must_be() -> None:
    assert "columns hidden to fit: threshold;" in text([BANK], 106)


@pytest.mark.parametrize(("at", "shown"), [(10**18, "9999-12-31 23:59:59"), (-(10**18), "1970-01-01 00:00:00")])
def test_a_time_that_somebody_changed_by_hand_ends_no_listing(at: int, shown: str) -> None:
    """Requirement A-348."""
    assert listing.format_cell("last_signal_at", at) == shown


@pytest.mark.parametrize("width", [40, 56, 64])
def test_a_table_is_given_up_before_an_id_is_broken(width: int) -> None:
    """It is there to be copied; one that has no room beside its name stands below it."""
    lines = text([{"turn": UUID, "session": UUID[::-1], "state": "open"}], width).splitlines()
    assert sum(UUID in line for line in lines) == sum(UUID[::-1] in line for line in lines) == 1
    assert max(map(len, lines)) <= width


def test_one_thing_is_shown_without_what_it_has_not(capsys: pytest.CaptureFixture[str]) -> None:
    listing.show_fields({"id": UUID, "deadline": 0, "late_at": None, "language": "", "n": 0}, title="Turn")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["Turn"], ["id", UUID], ["deadline", "1970-01-01", "00:00:00"], ["n", "0"]]


def test_where_no_table_fits_each_row_is_a_block() -> None:
    lines = text([BANK, BANK], 30, spare=()).splitlines()
    assert [line.split() for line in lines if "facts" in line] == [["facts", "22300"], ["stored", "facts", "3"]] * 2
    assert max(map(len, lines)) <= 30


@pytest.mark.parametrize("width", range(2, 21))
def test_no_terminal_is_too_narrow_for_a_value(width: int) -> None:
    """Requirement C-174. Names of ten characters left no room beside them in ten columns."""
    shown = text([{"due_at": 0, "last_result": "exit 7", "turn": "q-2"}], width, spare=())
    assert set("exit7q-2") <= set(shown)
    assert max(map(len, shown.splitlines())) <= width


def test_words_fold_at_spaces_and_times_to_come_are_times() -> None:
    row = {"id": "t1", "due_at": int(NOW * 1000) + 60_000, "text": "some words " * 10}
    shown = text([row], 60, spare=())
    assert "2027-01-15 08:01:00" in shown
    assert all("some" in line or "words" in line for line in shown.splitlines()[2:])
    assert all(part in {"some", "words"} for line in shown.splitlines()[3:] for part in line.split())


@pytest.mark.parametrize(
    ("seconds", "age"),
    [(0, "0 s ago"), (59, "59 s ago"), (60, "1 min ago"), (3_600, "1 h ago"), (86_400 * 12.9, "12 d ago")],
)
def test_ages(seconds: float, age: str) -> None:
    assert listing.format_cell("opened_at", int((NOW - seconds) * 1000), NOW) == age


cells = st.text(max_size=30) | st.integers() | st.none() | st.floats(allow_nan=False)


@given(
    st.lists(st.fixed_dictionaries({"id": cells, "at": st.integers(0, 2**41), "what": cells}), min_size=1, max_size=4),
    st.integers(20, 120),
)
def test_no_line_is_wider_than_the_terminal(rows: list[dict[str, Any]], width: int) -> None:
    from rich.cells import cell_len

    shown = text(rows, width, spare=("what",), title="T")
    assert "\x1b" not in shown
    assert max(map(cell_len, shown.splitlines())) <= width


def test_a_pipe_folds_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    row = {"id": UUID, "query": "a question of many words " * 7, "context": "x" * 200}
    show_rows([row], as_json=False, columns=("id", "query", "context"), title="Signals")
    assert f"│ {UUID} │ {row['query']} │ {row['context']} │" in capsys.readouterr().out
    show_rows([], as_json=False, columns=("id",), title="Signals of [red]b[/]\x1b[31m")
    assert capsys.readouterr().out == "Signals of [red]b[/]\\x1b[31m: none\n"


def test_a_pipe_is_as_wide_as_it_is_set_to_be(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    show_rows([BANK], as_json=False, columns=list(BANK), title="Banks", spare=SPARE)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_a_long_value_is_cut() -> None:
    shown = text([{"bank": "b", "text": "x" * 5_000}], 80)
    assert shown.count("xx") < 100
    assert "…" in shown
