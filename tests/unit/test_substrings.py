"""redaction.substrings: the fast `in`, which decides what rules a text is searched by. Requirement A-56."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tellback.redaction import (
    columns,
    find_secret,
    kubernetes,
    lone_passwords,
    margins,
    redact_value,
    signed_passwords,
)
from tellback.redaction.rules import all_scans, has_anchor, holds_nothing
from tellback.redaction.substrings import fold_ascii, searchable
from tests.support.examples import examples
from tests.support.secrets import secrets

SCANS = all_scans()
SIGNS = (*columns.WORDS, *margins.SIGNS, *signed_passwords.SIGNS, *lone_passwords.NAMES)
SEARCHED_FOR = (*SCANS.plain, *SCANS.folded, *SIGNS)  # in every text
ANCHORS = sorted({*SCANS.plain, *SCANS.folded, *SCANS.phrases, *SCANS.sentences, *SCANS.random})
LETTERS = sorted({*"".join(ANCHORS), "\0", "\n", "é", "🔑", "\ud83d"})  # of 1 to 4 bytes, and halves of a pair
PIECES = (
    *SEARCHED_FOR,
    *("hunter2", " = ", ": ", "x1Y2z3a4B5c6", "\\n", "\\t", "\n", "é", "пароль", "ssh", "admin", "fish-9", "9"),
    *("> ", "12: ", "2026-11-20 10:00:00 INFO ", "web-1  | ", "src/app.py:7:", "', '-p', '", 'kind: "Secret"', "ist"),
)
TEXTS = st.text(st.sampled_from(LETTERS), max_size=300)


@given(text=TEXTS, anchors=st.lists(st.sampled_from(ANCHORS), max_size=3), at=st.integers(0, 300))
@settings(max_examples=examples(300))
def test_a_text_holds_exactly_the_anchors_that_in_finds(text: str, anchors: list[str], at: int) -> None:
    text = f"{text[:at]}{''.join(anchors)}{text[at:]}"
    within = searchable(text)
    assert [anchor for anchor in ANCHORS if anchor in within] == [anchor for anchor in ANCHORS if anchor in text]
    assert {*anchors} <= {anchor for anchor in ANCHORS if anchor in within}


@given(text=st.text(st.sampled_from(LETTERS), max_size=20), anchor=st.sampled_from(["", *SEARCHED_FOR]))
@settings(max_examples=examples(600))
def test_a_short_text_without_an_anchor_has_none_of_them(text: str, anchor: str) -> None:
    folded = fold_ascii(f"{text}{anchor}{text}")
    assert has_anchor(folded) is any(fold_ascii(each) in folded for each in SEARCHED_FOR)


def test_each_anchor_is_found_in_a_short_text() -> None:
    assert [anchor for anchor in SEARCHED_FOR if not has_anchor(fold_ascii(anchor))] == []


def test_an_escaped_tab_in_a_short_text_is_the_space_that_an_anchor_ends_with() -> None:
    assert find_secret("Bearer\\tx1Y2z3") == "bearer"


@given(pieces=st.lists(st.sampled_from(PIECES), max_size=6), glue=st.sampled_from(["", " ", "\n"]))
@settings(max_examples=examples(2_000))
def test_in_a_text_that_holds_nothing_no_rule_matches(pieces: list[str], glue: str) -> None:
    """Requirement A-451. It is asked before a text is read without its margins and with English names."""
    text = glue.join(pieces)
    if holds_nothing(text):
        read = margins.read(text).text
        assert [*all_scans().find_all(read)] == []
        assert not kubernetes.may_hold(read)
        assert redact_value([text]) == [text]


def test_short_texts_of_tool_calls_hold_nothing() -> None:
    assert [holds_nothing(text) for text in ("query\nruby creator\npage\nfound", "ls -la", "12 rows")] == [True] * 3


def test_no_short_text_that_is_searched_otherwise_holds_nothing() -> None:
    """Each would be read as an assignment, an argument or a token of its own."""
    texts = (
        "heslo: x1Y2z3a4",
        "['x', '-p', 'x1Y2z3a4']",
        "a\\npw=x1Y2z3a4",
        "x1Y2z3a4B5c6",
        "пароль: x1Y2z3a4",
        "a" * 61,
    )
    assert [text for text in texts if holds_nothing(text)] == []


def test_no_short_secret_is_taken_for_nothing() -> None:
    short = [text for _, text in secrets(seed=20261127, each=8) if len(text) <= 60]
    assert len(short) > 500
    assert [text for text in short if holds_nothing(text)] == []
