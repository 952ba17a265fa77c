"""Files of labelled pairs: whatever form is common is read, and what is wrong is named with its line."""

from __future__ import annotations

import codecs
from typing import Any

import pytest

from tellback.errors import InvalidInput
from tellback.signals.pairs import Pair, read_pairs

TWO = (Pair("a, b", "c", 4.5), Pair("d", "e", 1.0))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('"a, b",c,4.5\nd,e,1\n', {}),
        ('sentence1,sentence2,score\n"a, b",c,4.5\nd,e,1', {}),
        ('\ufeffScore,Sentence 1,Sentence 2\r\n4.5,"a, b",c\r\n\r\n1,d,e\r\n', {}),
        ("a, b\tc\t4.5\nd\te\t1\n", {}),
        ("a, b;c;4.5\nd;e;1\n", {}),
        ("a, b|c|4.5\nd|e|1\n", {}),
        ("a, b~c~4.5\nd~e~1\n", {"delimiter": "~"}),
        ("a, b\tc\t4.5\nd\te\t1\n", {"delimiter": "tab"}),
        ("a, b\tc\t4.5\nd\te\t1\n", {"delimiter": r"\t"}),
        ("id\tquestion1\tquestion2\trating\n1\ta, b\tc\t4.5\n2\td\te\t1\n", {}),
        ("main\tnews\t4.5\ta, b\tc\nmain\tnews\t1\td\te\n", {"columns": "4,5,3"}),
        ("x\tours\ttheirs\tgold stars\n1\ta, b\tc\t4.5\n2\td\te\t1\n", {"columns": "Ours,theirs,gold stars"}),
        ("x\tours\ttheirs\tgold stars\n1\ta, b\tc\t4.5\n2\td\te\t1\n", {"columns": "2,3,4"}),
    ],
    ids=[
        "bare", "header", "mark-of-utf-8-and-crlf", "tabs", "semicolons", "pipes", "a-sign", "tab-by-name",
        "tab-by-escape", "header-among-more", "columns-by-number", "columns-by-name", "numbers-below-a-header",
    ],
)  # fmt: skip
def test_common_forms_are_read(text: str, options: dict[str, Any]) -> None:
    found = read_pairs(text.encode(), "p", **options)
    assert found.pairs == TWO
    assert found.same == [True, False]


def test_quotes_in_tab_separated_files_are_text() -> None:
    found = read_pairs(b'"so it is\tan "open" quote\t5\n"a ""word"""\tb\t0\n', "p")
    assert [pair[:2] for pair in found.pairs] == [('"so it is', 'an "open" quote'), ('a "word"', "b")]


def test_a_quoted_text_may_hold_ends_of_lines_and_the_next_errors_line_is_right() -> None:
    assert read_pairs('\'x\u2028y,"1\n2",5\na,b,0\n'.encode(), "p").pairs[0] == Pair("'x\u2028y", "1\n2", 5.0)
    with pytest.raises(InvalidInput, match=r"^p:3: the score 'high'"):
        read_pairs(b'x,"1\n2",5\na,b,high\n', "p")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b,1\nc,d,0\n", [True, False]),
        ("a,b,yes\nc,d,No\n", [True, False]),
        ("a,b,TRUE\nc,d,false\n", [True, False]),
        ("a,b,same\nc,d,1\ne,f,0\n", [True, False]),
        ("a,b,4\nc,d,3.9\n", [True, False]),
    ],
)
def test_which_pairs_are_the_same_without_labels(text: str, expected: list[bool]) -> None:
    assert read_pairs(text.encode(), "p").same == expected


def test_same_from_is_what_the_caller_says() -> None:
    assert read_pairs(b"a,b,0.8\nc,d,0.7\n", "p", same_from=0.75).same == [True, False]
    assert read_pairs(b"a,b,5\nc,d,3\ne,f,1\n", "p", same_from=3).same == [True, True, False]


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        (b"", {}, "p is empty"),
        (b"\n \n", {}, "p is empty"),
        (b"sentence1,sentence2,score\n", {}, "no pair"),
        (b"a,b,5\nc,d,\xff\n", {}, "p:2: byte 0xff is not UTF-8"),
        ("a,b,5\n".encode("utf-16"), {}, "UTF-16"),
        (codecs.BOM_UTF8 + b"PK\0\1", {}, "p:1: a NUL byte"),
        (b"a,b,5\nc,d,abc\ne,f,0\ng,h,nan\ni,j,inf\n", {}, "p:2: the score 'abc' is not a number"),
        (b"a,b,5\nc,d,abc\ne,f,0\ng,h,nan\ni,j,inf\n", {}, "2 more are wrong, on line 4, 5"),
        (b"a,b,5\nc,d,1_0\n", {}, "p:2: the score '1_0'"),
        (b"a,b,5\nc,d\ne,f,0\n", {}, "p:2: 2 fields"),
        (b"a,b,5\n  ,d,0\n", {}, "p:2: the first text is blank"),
        (b'a,b,5\nc,"",0\n', {}, "p:2: the second text is blank"),
        (b'a,b,5\n"c,d,0\n', {}, "p:2:"),
        (b'a,b,5\n"c"x,d,0\n', {}, "p:2:"),
        (b"a,b\nc,d\n", {}, "2 columns"),
        (b"a,b,c,5\nd,e,f,0\n", {}, "--columns"),
        (b"a,b,5\nc,d,0\n", {"columns": "1,2"}, "three different"),
        (b"a,b,5\nc,d,0\n", {"columns": "1,2,2"}, "three different"),
        (b"a,b,5\nc,d,0\n", {"columns": "1,2,4"}, "has the columns"),
        (b"left side,x,y\nc,d,0\n", {"columns": "left,x,y"}, "has the columns left_side, x, y"),
        (b"a,b,5\nc,d,0\n", {"delimiter": "ab"}, "--delimiter"),
        (b"a,b,5\nc,d,0\n", {"delimiter": '"'}, "--delimiter"),
        (b"a,b,0.9\nc,d,0.1\n", {}, "--same-from 4 no pair is the same"),
        (b"a,b,5\nc,d,4\n", {}, "--same-from 4 every pair is the same"),
        (b"a,b,1\nc,d,1\n", {}, "every pair"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(data: bytes, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_pairs(data, "p", **options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_of_any_length_of_field_is_read_or_refused_by_its_line() -> None:
    """The csv module of Python refuses fields above 128 KB."""
    with pytest.raises(InvalidInput, match="p:2: field larger than"):
        read_pairs(b"a,b,5\n" + b"x" * 200_000 + b",d,0\n", "p")


@pytest.mark.bulk
def test_too_many_pairs_are_refused() -> None:
    with pytest.raises(InvalidInput, match="more than 200,000 pairs"):
        read_pairs(b"a,b,5\nc,d,0\n" * 100_001, "p")
