"""redaction.substrings: the fast `in`, which decides what rules a text is searched by. Requirement A-56."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tellback.redaction import columns, find_secret
from tellback.redaction.rules import all_scans, has_anchor
from tellback.redaction.substrings import fold_ascii, searchable
from tests.support.examples import examples

ANCHORS = sorted({anchor for group in all_scans() if isinstance(group, dict) for anchor in group})
SEARCHED_FOR = (*all_scans().plain, *all_scans().folded, *columns.WORDS)  # in every text
LETTERS = sorted({*"".join(ANCHORS), "\0", "\n", "é", "🔑", "\ud83d"})  # of 1 to 4 bytes, and halves of a pair
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
