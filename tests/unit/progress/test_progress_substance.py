"""The substance of a result: what stays the same when only times, ids and temporary paths differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.guidance.observations.testruns import TestCounts
from tellback.guidance.progress.states import is_dead
from tellback.guidance.progress.substance import (
    asks_to_retry,
    compare_tests,
    error_fingerprint,
    fingerprint,
    first_line,
    is_empty,
)

TEXT = "at {time}: object at {address} in /tmp/{temp}/x.py, commit {id}, took {seconds}s, pid {pid}: 3 rows"


@given(
    st.integers(10, 59), st.integers(0x10000, 0xFFFFFF), st.text("abc123", min_size=1, max_size=8), st.floats(0.1, 99)
)
def test_volatile_parts_are_no_news(minute: int, number: int, temp: str, seconds: float) -> None:
    filled = TEXT.format(
        time=f"2026-01-02 10:{minute}:11",
        address=hex(number),
        temp=temp,
        id=f"a1b2c{number:x}",
        seconds=f"{seconds:.2f}",
        pid=number,
    )
    plain = TEXT.format(time="2026-01-02 10:00:11", address="0xffff", temp="t", id="a1b2c3d4", seconds="1.00", pid=1)
    assert fingerprint(filled) == fingerprint(plain)
    assert fingerprint(filled.replace("3 rows", "4 rows")) != fingerprint(plain)


@pytest.mark.parametrize(
    ("was", "now"), [("3m7s", "4m16s"), ("45m", "47m"), ("2d5h", "3d1h"), ("5d", "6d"), ("3h", "4h")]
)
def test_an_age_is_no_news(was: str, now: str) -> None:
    """`kubectl` and `docker ps` print ages so."""
    row = "NAME  STATUS  RESTARTS  AGE\nweb-7  0/1  CrashLoopBackOff  5  {}\nweb-8  1/1  Running  0  {}"
    assert fingerprint(row.format(was, was)) == fingerprint(row.format(now, now))
    assert fingerprint(row.format(was, was)) != fingerprint(row.replace("5 ", "6 ").format(now, now))


@pytest.mark.parametrize("found", ["a1b2c3d", "0a0a0a0", "f00df00d-1234-1234-1234-123456789abc"])
def test_an_id_is_no_news_wherever_it_stands(found: str) -> None:
    changed = found.replace("0", "7").replace("a1", "e5")
    for frame in ("{}", "\u00e9 {}", "{} done", "({}).\n" + "x" * 5_000):
        assert fingerprint(frame.format(found)) == fingerprint(frame.format(changed))
        assert fingerprint(frame.format(f"g{found}")) != fingerprint(frame.format(f"g{changed}"))


def test_of_several_ids_none_is_news_and_each_number_and_word_between_them_is() -> None:
    text = "\u0416 {0}, {1}-1a2b effaced {0}{number} {0}/{1} ABCDEF{number}{number} end"
    plain = fingerprint(text.format("a1b2c3d", "f00df00d", number=123))
    assert fingerprint(text.format("e5b2c3d4", "1badcafe", number=123)) == plain
    for word, other in (("effaced", "defaced"), ("end", "END")):
        assert fingerprint(text.replace(word, other).format("a1b2c3d", "f00df00d", number=123)) != plain
    assert fingerprint("a1b2c3d 1234567 0a1b2c3") == fingerprint("b1b2c3d 1234567 9a1b2c3")
    assert fingerprint("a1b2c3d 1234567 0a1b2c3") != fingerprint("a1b2c3d 1234568 0a1b2c3")


def test_the_middle_of_a_long_text_is_news() -> None:
    text = "line\n" * 5_000
    assert fingerprint(text) != fingerprint(text[:12_000] + "X" + text[12_001:])


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [((5, 1), (3, 3), "better"), ((3, 3), (3, 4), "better"), ((3, 3), (3, 3), "same"), ((3, 3), (4, 9), "worse")],
)
def test_fewer_failures_are_better(before: tuple[int, int], now: tuple[int, int], change: str) -> None:
    assert compare_tests(before, TestCounts(failed=now[0], passed=now[1])) == change


def test_errors_differ_by_their_words_and_not_by_lines() -> None:
    assert error_fingerprint("app.py:12: KeyError: 'a'") == error_fingerprint("app.py:99: KeyError: 'a'")
    assert error_fingerprint("KeyError: 'a'") != error_fingerprint("KeyError: 'b'")


def test_short_answers_of_tools_are_understood() -> None:
    assert is_empty("")
    assert is_empty("No matches found")
    assert not is_empty("No matches in a.py, one in b.py:\n" + "x" * 500)
    assert is_dead("curl: (7) Connection refused")
    assert asks_to_retry("Busy, please try again in 5 seconds")
    assert first_line("ERROR:\nNo replacement was performed") == "No replacement was performed"
