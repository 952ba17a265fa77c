"""Hostile text in every kind of place: nothing steers a terminal, becomes markup or is hidden from a reader."""

from __future__ import annotations

import io
import json
import unicodedata
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tellback.cli.common import plain_text
from tellback.contracts.feedback_text import feedback_text
from tellback.sanitize import (
    blank_hidden,
    html_text,
    is_printable,
    markdown_text,
    one_line,
    plot_text,
    terminal_json,
    terminal_line,
    terminal_output,
    terminal_text,
    visible_only,
    xml_text,
)
from tests.support.hostile import HOSTILE, hidden, marks_in_a_row

ANYTHING = st.text(st.characters(categories=None), max_size=60) | st.sampled_from(list(HOSTILE.values()))


@given(ANYTHING)
def test_a_line_of_a_terminal_shows_each_character(text: str) -> None:
    shown = terminal_line(text)
    assert not hidden(shown)
    assert marks_in_a_row(shown) <= 8
    shown.encode()
    if is_printable(text) and marks_in_a_row(text) <= 8:
        assert shown == text


@given(ANYTHING)
def test_lines_of_a_terminal_keep_only_their_ends(text: str) -> None:
    assert hidden(terminal_text(text)) <= {"\n"}
    assert terminal_text(text).count("\n") == text.count("\n"), "nothing ends a line that did not"
    assert hidden(terminal_output(text)) <= {"\n"}


@pytest.mark.parametrize(
    ("raw", "line", "output"),
    [
        ("\x1b[1;31mred\x1b[0m", r"\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", r"\x1b]0;title\x07text", r"\x1b]0;title\x07text"),
        ("a\tb\n", r"a\tb\n", "a       b\n"),
        ("\x07\x7f\x9b31m", r"\x07\x7f\x9b31m", r"\x07\x7f\x9b31m"),
        ("abc\u202edef", r"abc\u202edef", r"abc\u202edef"),
        ("100%\rdone", r"100%\rdone", r"100%\rdone"),
        ("\udcff", r"\udcff", r"\udcff"),
        ("[bold]not markup[/bold]", "[bold]not markup[/bold]", "[bold]not markup[/bold]"),
        ("héllo 世界 🎉", "héllo 世界 🎉", "héllo 世界 🎉"),
        ("e" + "\u0301" * 10, "e" + "\u0301" * 8 + r"\u0301\u0301", "e" + "\u0301" * 8 + r"\u0301\u0301"),
    ],
)
def test_what_a_terminal_shows(raw: str, line: str, output: str) -> None:
    assert (terminal_line(raw), terminal_output(raw)) == (line, output)


@given(ANYTHING)
def test_json_stays_the_same_value(text: str) -> None:
    raw = terminal_json(json.dumps({text: [text]}, ensure_ascii=False))
    assert json.loads(raw) == {text: [text]}
    assert all(unicodedata.category(char) == "Zs" for char in hidden(raw))
    raw.encode()


@given(ANYTHING)
def test_html_has_no_markup_of_theirs(text: str) -> None:
    seen: list[str] = []

    class Probe(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            seen.append(f"{tag} {attrs}")

    parser = Probe()
    parser.feed(f"<p title=\"{html_text(text)}\" id='{html_text(text)}'>{html_text(text)}</p>")
    parser.close()
    assert len(seen) == 1
    assert seen[0].startswith("p [('title', ")
    assert hidden(html_text(text)) <= {"\n", "\t"}


@given(ANYTHING)
def test_xml_parses_with_any_text(text: str) -> None:
    [only] = ET.fromstring(f"<a><b c='{xml_text(text)}'>{xml_text(text)}</b></a>")
    assert len(only) == 0
    assert list(only.attrib) == ["c"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("search_flights", "search_flights"),
        ("_it_ *b* `c`", r"\_it\_ \*b\* \`c\`"),
        ("a\nb | c", r"a b \| c"),
        ("see https://x.y/z", r"see https\://x.y/z"),
        ("# no & <b>", r"\# no &amp; &lt;b\>"),
        ("a\u202eb\x1b[0m", "a\ufffdb\ufffd\\[0m"),
    ],
)
def test_markdown_shows_a_text_as_it_is(text: str, shown: str) -> None:
    assert markdown_text(text) == shown


@given(ANYTHING)
def test_markdown_is_one_line_without_hidden_characters(text: str) -> None:
    assert not hidden(markdown_text(text))
    assert not hidden(plot_text(text))
    assert "<" not in markdown_text(text)


@given(ANYTHING)
def test_matplotlib_takes_no_text_for_a_formula(text: str) -> None:
    cbook = pytest.importorskip("matplotlib.cbook", reason="matplotlib is an extra")
    assert not cbook.is_math_text(plot_text(text))


@given(ANYTHING)
def test_rich_takes_no_text_for_markup(text: str) -> None:
    out = io.StringIO()
    Console(file=out, width=100_000, force_terminal=True, color_system=None).print(plain_text(text))
    assert out.getvalue() == f"{terminal_text(text)}\n" or "\n" in text


@given(ANYTHING)
def test_feedback_has_no_second_heading(text: str) -> None:
    reported = feedback_text(text, text, [(text, text)], [text])
    headings = [line for line in reported.splitlines() if visible_only(line).lstrip().startswith("[Feedback")]
    assert len(headings) == 1


def test_a_heading_behind_a_hidden_character_is_quoted() -> None:
    assert "\n> \\u200b[Feedback - Deadline]\n" in feedback_text("x", "a\n\u200b[Feedback - Deadline]\nb", [], [])


@given(ANYTHING)
def test_what_a_reader_sees_is_compared(text: str) -> None:
    assert visible_only(visible_only(text)) == visible_only(text)


@given(ANYTHING)
def test_what_is_kept_is_visible(text: str) -> None:
    assert all(char.isspace() for char in hidden(visible_only(text)))
    assert len(blank_hidden(text)) == len(text)
    assert is_printable(one_line(blank_hidden(text)))
