"""Long words are judged and compared at once, however they could be divided."""

from __future__ import annotations

import pytest

from tellback.redaction import redact_text
from tellback.redaction.values import seems_random


@pytest.mark.parametrize("value", ["b" * 70 + "/QzXb", "aB" + "b" * 60 + "/Q/z"])
def test_a_value_of_one_long_word_is_judged_at_once(value: str) -> None:
    """The pattern of words in camel case tried each way to divide it, and took days (A-61)."""
    assert not seems_random(value, 0)
    assert redact_text(f"id={value}") == f"id={value}"


def test_an_alphabet_is_no_random_value() -> None:
    """Its two words are longer than those of names."""
    assert not seems_random("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", 0)


@pytest.mark.parametrize("name", ["OUR_CLIENT_SECRET", "x" * 90 + "_OUR_CLIENT_SECRET"])
def test_a_value_that_repeats_the_words_before_its_name_stays(name: str) -> None:
    """The name was searched from each place before it: 100 µs for each value that was found behind a long word."""
    line = f'{name} = "our-client-secret"'
    assert redact_text(line) == line
    assert redact_text(line.replace("our-", "4ur-")) != line.replace("our-", "4ur-")
