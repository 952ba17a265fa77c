"""Long texts in parts: within the platform's limit, and never within what is seen as one character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.transports.telegram import split_text, utf16_length


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
