"""Texts are cut to their limit, or into parts, between characters; what is cut says that something is missing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.transports.telegram import split_text, utf16_length
from tellback.truncation import (
    join_ends,
    single_line,
    truncate_bytes,
    truncate_chars,
    truncate_middle,
    truncate_start,
    truncate_text,
    within_grapheme,
)

TEXTS = st.text(max_size=200) | st.text("aé世🎉\n ", max_size=200)
LIMITS = st.integers(1, 150)


@given(TEXTS, LIMITS)
def test_an_end_is_left_out_and_marked(text: str, limit: int) -> None:
    for shown, kept in ((truncate_chars(text, limit), text[: limit - 1]), (truncate_start(text, limit), text)):
        assert len(shown) <= limit
        assert (shown == text) == (len(text) <= limit)
        assert shown == text or "…" in {shown[0], shown[-1]}
        assert shown == text or shown.strip("…") in kept


@given(TEXTS, LIMITS)
def test_a_single_line_has_no_other(text: str, limit: int) -> None:
    shown = single_line(text, limit)
    assert len(shown) <= limit
    assert len(shown.splitlines()) <= 1


@given(TEXTS, LIMITS)
def test_the_middle_is_counted(text: str, limit: int) -> None:
    shown = truncate_middle(text, limit)
    if len(text) <= limit:
        assert shown == text
        return
    head, count, tail = re.split(r" …\[(\d+) characters left out\]… ", shown)
    assert (text.startswith(head), text.endswith(tail)) == (True, True)
    assert len(head) + int(count) + len(tail) == len(text)
    assert len(head) + len(tail) == limit


@given(TEXTS, LIMITS, st.sampled_from(["", "…"]))
def test_bytes_are_cut_between_characters(text: str, limit: int, marker: str) -> None:
    shown = truncate_bytes(text, limit, marker)
    if len(text.encode()) <= limit:
        assert shown == text
        return
    kept = shown[: len(shown) - len(marker)]
    assert shown.endswith(marker)
    assert text.startswith(kept)
    if limit >= len(marker.encode()):
        assert len(shown.encode()) <= limit
        assert len((kept + text[len(kept)]).encode()) > limit - len(marker.encode()), "no more than is needed"


@given(TEXTS, st.integers(40, 150), st.integers(0, 10_000))
def test_bytes_left_out_are_counted(text: str, limit: int, unread: int) -> None:
    shown = truncate_text(text, limit, unread)
    if shown == text:
        return
    assert len(shown.encode()) <= limit
    found = re.fullmatch(r"(?s)(.*) …\[(\d+) bytes cut\]", shown)
    assert found is not None
    kept, count = found.groups()
    assert text.startswith(kept)
    assert len(kept.encode()) + int(count) == len(text.encode()) + unread


@given(st.text("aé世🎉", min_size=300, max_size=400), st.integers(80, 250))
def test_both_ends_are_kept_within_the_limit(text: str, limit: int) -> None:
    shown = join_ends(text, text, None, limit)
    head, count, tail = re.split(r"\n…\[(\d+) bytes left out\]…\n", shown)
    assert len(shown.encode()) <= limit
    assert (text.startswith(head), text.endswith(tail)) == (True, True)
    assert len(head.encode()) + int(count) + len(tail.encode()) == len(text.encode())


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("ab", []),
        ("e\u0301x", [1]),
        ("👩\u200d👩x", [1, 2]),
        ("👍\U0001f3fdx", [1]),
        ("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", [1, 3]),
    ],
)
def test_what_shows_as_one_stays_together(text: str, inside: list[int]) -> None:
    assert [at for at in range(1, len(text)) if within_grapheme(text, at)] == inside


def test_a_short_text_is_one_part() -> None:
    assert split_text("hello", 10) == ["hello"]
    assert split_text("x" * 10, 10) == ["x" * 10]
    assert split_text("", 10) == [""]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("one two three", ["one two ", "three"]),
        ("lines\nanother", ["lines\n", "another"]),
        ("a\nb c d e f g", ["a\nb c d e ", "f g"]),  # a line that ends in the first half is no place
        ("x" * 25, ["x" * 10, "x" * 10, "x" * 5]),
        ("😀" * 6, ["😀" * 5, "😀"]),  # two units each
        ("x" * 9 + "😀", ["x" * 9, "😀"]),
        ("x" * 9 + "e\u0301y", ["x" * 9, "e\u0301y"]),
        ("x" * 7 + "👩\u200d🔬", ["x" * 7, "👩\u200d🔬"]),
        ("x" * 8 + "👍🏽", ["x" * 8, "👍🏽"]),
        ("x" * 7 + "🇩🇪🇫🇷", ["x" * 7, "🇩🇪🇫🇷"]),
        ("🇩🇪🇫🇷🇯🇵", ["🇩🇪🇫🇷", "🇯🇵"]),
    ],
)
def test_a_part_ends_at_a_good_place(text: str, parts: list[str]) -> None:
    assert split_text(text, 10) == parts


def test_units_are_those_of_utf_16() -> None:
    assert utf16_length("aé€😀") == len("aé€😀".encode("utf-16-le")) // 2


@given(
    st.text(alphabet=st.sampled_from("ab \n😀é\u0301\u200d🇩🇪👍🏽"), max_size=300),
    st.integers(min_value=2, max_value=40),
)
def test_parts_are_the_text_and_fit(text: str, limit: int) -> None:
    parts = split_text(text, limit)
    assert "".join(parts) == text
    assert all(utf16_length(part) <= limit for part in parts)
    assert all(parts) or text == ""
