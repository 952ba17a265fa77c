"""The part of an output stream that is kept."""

from __future__ import annotations

import sys
import tracemalloc
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tellback.commands.dropped_lines import MOST_BYTES, MOST_LINES
from tellback.commands.truncation import HEAD_LINES, MAX_LINE_BYTES, TAIL_LINES, CapturedOutput, StreamTruncator
from tellback.redaction import Redactor
from tests.support.examples import examples


def capture(*chunks: bytes, redactor: Redactor | None = None) -> CapturedOutput:
    """Return what is kept of these chunks."""
    stream = StreamTruncator(redactor or Redactor())
    for chunk in chunks:
        stream.feed(chunk)
    return stream.finish()


def numbered(count: int) -> bytes:
    """Lines `1` to `count`."""
    return b"".join(b"%d\n" % n for n in range(1, count + 1))


def test_35_lines_are_unchanged() -> None:
    kept = capture(numbered(35))
    assert kept.text == numbered(35).decode().removesuffix("\n")
    assert not kept.truncated


def test_36_lines_lose_exactly_one() -> None:
    """The first 5 and the last 30 lines stay, with one line between that counts the rest."""
    kept = capture(numbered(36))
    lines = kept.text.split("\n")
    assert lines[:5] == ["1", "2", "3", "4", "5"]
    assert lines[5] == "...truncated 1 lines..."
    assert lines[6:] == [str(n) for n in range(7, 37)]
    assert kept.truncated


def test_a_last_line_without_newline_is_a_line() -> None:
    """36 lines, the last one unfinished, are 36 lines."""
    assert "...truncated 1 lines..." in capture(numbered(35) + b"end").text
    assert capture(numbered(35) + b"end").text.endswith("\nend")


def test_empty_lines_count() -> None:
    """An empty line is a line, and no output is no text."""
    assert capture(b"\n" * 40).text.count("truncated 5 lines") == 1
    assert capture() == CapturedOutput("", truncated=False, redacted=False, size=0)


def test_a_progress_bar_collapses_to_its_last_state() -> None:
    """Only the last state between carriage returns is shown."""
    assert capture(b"1%\r50%\r100%\ndone\r\n").text == "100%\ndone"
    assert capture(b"1%\r50%\r").text == "50%"


def test_invalid_utf8_is_replaced() -> None:
    """Bytes that are no UTF-8 become U+FFFD."""
    assert capture(b"a\xff\xfeb\n").text == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}b"


def test_a_character_split_between_chunks_survives() -> None:
    """The border of a chunk is not a border of text."""
    assert capture(*(bytes([byte]) for byte in "żółw 🐢\n".encode())).text == "żółw 🐢"


def test_a_long_line_is_cut_at_a_character() -> None:
    """The marker counts the bytes that are missing, and no half character stands before it."""
    line = ("x" + "🐢" * 5000).encode()
    kept = capture(line)
    start, _, rest = kept.text.partition("...truncated ")
    assert "\N{REPLACEMENT CHARACTER}" not in start
    assert MAX_LINE_BYTES - 4 < len(start.encode()) <= MAX_LINE_BYTES
    assert rest == f"{len(line) - len(start.encode())} bytes..."
    assert kept.truncated


def test_a_secret_across_the_cut_of_a_long_line_is_redacted() -> None:
    """The line is searched before it is cut."""
    kept = capture(b"x" * (MAX_LINE_BYTES - 10) + b" AKIAABCDEFGHIJKLMNOP tail\n")
    assert kept.text == "[redacted: aws-access-key]"
    assert kept.redacted


def test_a_secret_far_beyond_the_cut_is_dropped_with_the_rest() -> None:
    """The bytes of a line alone decide if it is redacted, not how many of them came in one chunk."""
    line = b"x" * 20_000 + b" password=hunter2"
    assert capture(line) == capture(line[:10], line[10:]) == capture(*(line[i : i + 7] for i in range(0, len(line), 7)))
    assert "hunter2" not in capture(line).text


@pytest.mark.bulk
def test_memory_does_not_grow_with_output() -> None:
    """200 MB of lines, of one line, and of progress are held in less than 2 MB."""
    for chunk in (b"line\n" * 13_000, b"x" * 65_536, b"50%\r" * 16_000):
        stream = StreamTruncator(Redactor())
        tracemalloc.start()
        for _ in range(200):
            stream.feed(chunk)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2 << 20
        assert stream.finish().size == 200 * len(chunk)


BODY = b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n"
BEGUN = b"-----BEGIN PRIV" + b"ATE KEY-----\n" + BODY * 3
ENDED = b"-----END PRIV" + b"ATE KEY-----\n"

ROW = b"7,billing,q7Zk2mX9vB4tR8wL1nPs\n"

texts = st.lists(
    st.sampled_from(
        [
            *(b"\n", b"\n" * 40, b"\r", b"a", b"b" * 1500, "🐢".encode(), b"\xff", b"password=x", b"Bearer "),
            *(BEGUN, BODY * 40, BEGUN + ENDED, b"prose comes here, as it does\n" * 12),
            *(
                b"\nid,name,api_token\n",
                ROW,
                ROW * 40,
                b"10%\r50%\r" + ROW,
                b"|id|password|\n|-|-|\n",
                b"|7|q7Zk2mX9vB4t|\n",
            ),
        ]
    ),
    max_size=120,
).map(b"".join)


def private_key(lines: int) -> bytes:
    """A key of so many lines, not one of anybody's."""
    return BEGUN + BODY * (lines - 5) + ENDED


def test_a_private_key_is_hidden_line_by_line() -> None:
    """Each line of it is hidden, however it arrives, and nothing else is."""
    data = b"before\n" + private_key(12) + b"after that\n"
    for kept in (capture(data), capture(*(data[i : i + 7] for i in range(0, len(data), 7)))):
        assert kept.text == "\n".join(["before", *["[redacted: private-key]"] * 12, "after that"])
        assert kept.redacted


def test_a_private_key_in_colours_is_hidden() -> None:
    """A diff on a terminal has one in each line; the record of it and who follows it are to see no more."""
    lines = [b"\x1b[31m-%s\x1b[m\n" % line for line in private_key(12).splitlines()]
    for key in (lines, [line.replace(b"IVATE", b"I\x1b[1mVATE") for line in lines], lines[1:]):
        kept = capture(b"before\n", *key, b"after that\n")
        assert kept.text == "\n".join(["before", *["[redacted: private-key]"] * len(key), "after that"])


def test_a_private_key_whose_first_line_is_dropped_is_hidden() -> None:
    """The beginning of the key is in the middle that is not kept, within one chunk or on the border of two."""
    data = numbered(200) + private_key(40) + b"after that\n" * 5
    borders = [(), (data.index(b"-----BEGIN") + 8,), tuple(range(0, len(data), 100)), tuple(range(0, len(data), 3000))]
    for cuts in borders:
        kept = capture(*(data[start:end] for start, end in pairwise([0, *cuts, len(data)])))
        assert "MII" not in kept.text
        assert kept.text.count("[redacted: private-key]") == 25
        assert kept.text.endswith("after that\n" * 4 + "after that")


@pytest.mark.parametrize("before", [3_000, 3_072, 5_000, 70_000])
@pytest.mark.parametrize("lines", [0, 60])
def test_a_private_key_that_begins_far_behind_the_cut_of_its_line_is_hidden(before: int, lines: int) -> None:
    """That line may be one of the dropped ones: the body on the next lines must not be shown."""
    data = b"x" * before + private_key(20) + numbered(lines)
    at = data.index(b"-----BEGIN")
    for cuts in ((), (at + 8,), (at - 1, at + 1), tuple(range(0, len(data), 1000))):
        assert "MII" not in capture(*(data[start:end] for start, end in pairwise([0, *cuts, len(data)]))).text
    data = numbered(100) + b"x" * before + private_key(40)
    assert "MII" not in capture(data).text


def test_the_end_of_a_private_key_hides_what_came_before() -> None:
    """`tail key.pem` shows no line that begins a key."""
    data = BODY * 50 + b"c2hvcnQ=\n" + ENDED + b"after that\n"
    kept = capture(data)
    assert kept.text.count("[redacted: private-key]") == 29
    assert kept.text.endswith("[redacted: private-key]\nafter that")


def test_a_value_whose_name_stands_in_the_line_before_is_hidden() -> None:
    """A manifest has such lines; the name may be in the last line that is dropped, in whatever chunks the two come."""
    named = b"  - name: SHOP_TOKEN\n    value: a1b2c3d4\n"
    last = b"    value: production\n"
    assert capture(named + last).text.split("\n")[1:] == ["[redacted: secret-assignment]", last.decode().rstrip()]
    for before in (4, 5, 6, 60):  # the name is the last of the head, or the value the first of the tail
        data = numbered(before) + named + numbered(29)
        at = [data.index(each) for each in (b"    value", b"_TOKEN")]
        borders = [(), (at[0],), (at[1],), tuple(range(0, len(data), 5))]
        for cuts in borders:
            kept = capture(*(data[start:end] for start, end in pairwise([0, *cuts, len(data)])))
            assert "a1b2c3d4" not in kept.text
            assert kept.text.count("[redacted: ") == 1


def in_chunks(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.bulk
@pytest.mark.parametrize("size", [1, 7, 5_000, 1 << 20])
@pytest.mark.parametrize(
    "head",
    [
        b"id,name,api_token\n",
        b" id |  name   |   api_token\n----+---------+----------\n",
        b"| id | name | api_token |\n|---|---|---|\n",
        b"id  name  api_token\n",
    ],
)
def test_a_table_whose_head_is_dropped_is_hidden(head: bytes, size: int) -> None:
    """In floods too, as far as the middle is held; what is below the table stays."""
    sign = next(sign for sign in (b"|", b",", b"  ") if sign in head)
    cells = [b"%d", b"billing", b"q7Zk2mX9vB4tR8wL1nPs"]
    row = sign.join([b"", *cells, b""] if head.startswith(b"|") else cells) + b"\n"
    table = head + b"".join(row % number for number in range(900))
    kept = capture(*in_chunks(numbered(50) + table, size)).text.split("\n")
    assert kept[HEAD_LINES + 1 :] == ["[redacted: named-column]"] * TAIL_LINES
    kept = capture(*in_chunks(numbered(50) + table + b"\nno rows, 7, q7Zk2mX9vB4tR8wL1nPs\n", size)).text.split("\n")
    assert kept[-3:] == ["[redacted: named-column]", "", "no rows, 7, q7Zk2mX9vB4tR8wL1nPs"]


@pytest.mark.bulk
@pytest.mark.parametrize("size", [1, 700, 1 << 16, 1 << 20])
@pytest.mark.parametrize("row", [b"7,a,q\n", ROW, b"7,a," + b"q" * 300 + b"\n", b"10%\r50%\r7,a,q\n"])
def test_the_middle_is_held_up_to_its_bounds_in_chunks_of_any_size(row: bytes, size: int) -> None:
    """With one row more, the head is forgotten: the bounds are those of the stream, not of its chunks."""
    head = b"id,name,api_token\n"
    most = min(MOST_LINES - 1, (MOST_BYTES - len(head)) // len(row))
    for rows, hidden in ((most, TAIL_LINES), (most + 1, 0)):
        kept = capture(*in_chunks(numbered(500) + head + row * rows + ROW * TAIL_LINES, size))
        assert kept.text.count("[redacted: named-column]") == hidden


@pytest.mark.bulk
@pytest.mark.parametrize("ending", [b"", BODY * 50, BODY * 20 + ENDED + b"after that\n" * 3])
def test_a_flood_in_chunks_of_any_size_gives_the_same_record(ending: bytes) -> None:
    """Most chunks have more lines than are kept; keys, long lines and progress lie across their borders."""
    flood = numbered(300) + private_key(90) + b"10%\r50%\r100%\n" * 60 + b"x" * 5000 + b"\n" + numbered(150)
    data = flood + b"a margin " * 400 + BEGUN + ending
    expected = capture(*(data[i : i + 1] for i in range(len(data))))
    inside = data.rindex(b"BEGIN") + 8
    borders = [(0, 1000, inside), *(tuple(range(0, len(data), size)) for size in range(400, 6000, 53))]
    for cuts in borders:
        assert capture(*(data[start:end] for start, end in pairwise([*cuts, len(data)]))) == expected


@pytest.mark.parametrize("first", [b"", b"ok", b"ok\n", b"ok\n" * HEAD_LINES, b"ok\n" * (HEAD_LINES - 1) + b"o"])
def test_a_flood_in_the_first_chunk_is_not_read_line_by_line(first: bytes) -> None:
    """450 KB of such lines in one chunk took 0.57 s, and half a millisecond behind the first five lines."""
    calls = Counter[str]()
    stream, data = StreamTruncator(Redactor()), b"ok\n" * 2_000
    sys.setprofile(lambda frame, event, _: calls.update([event]))
    try:
        stream.feed(first)
        stream.feed(data[len(first) :])
    finally:
        sys.setprofile(None)
    assert calls["call"] < 2_000  # a thousand for the first 36 lines
    assert stream.finish() == capture(*in_chunks(data, 1))


@pytest.mark.parametrize("lines", [HEAD_LINES, HEAD_LINES + 1, HEAD_LINES + TAIL_LINES])
def test_the_end_of_a_key_before_a_flood_hides_the_head_in_chunks_of_any_size(lines: int) -> None:
    key = b"MIIEpAIBAAKCAQEAabcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKL\n" * lines
    data = key + b"-----END RSA PRIV" + b"ATE KEY-----\n" + b"ok\n" * 200
    for chunks in ((data,), (data[:300], data[300:]), in_chunks(data, 1)):
        assert "MIIE" not in capture(*chunks).text


def test_the_position_within_a_flood_is_at_its_last_byte() -> None:
    """A follower continues from there, although the flood's last lines were not told apart yet."""
    stream = StreamTruncator(Redactor())
    for chunk in (numbered(50), numbered(50) + BEGUN + b"MIIE"):
        stream.feed(chunk)
    at = stream.position()
    assert at.blocks.inside
    assert at.current.finish_line().text() == "MIIE"
    assert stream.finish().text.endswith("[redacted: private-key]")


def test_what_follows_a_key_that_was_cut_off_is_shown() -> None:
    """A key that never ends hides nothing that cannot be part of it."""
    kept = capture(numbered(100) + BEGUN + b"cat: write error: no space left on device\n" * 10)
    assert kept.text.endswith("cat: write error: no space left on device")


@settings(max_examples=examples(60))
@given(texts, st.lists(st.integers(0, 4000), max_size=20))
def test_the_same_bytes_give_the_same_record(data: bytes, cuts: list[int]) -> None:
    """However the output arrives, what is kept is the same."""
    borders = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    chunks = [data[start:end] for start, end in pairwise(borders)]
    assert capture(*chunks) == capture(data) == capture(*(data[i : i + 1] for i in range(len(data))))


@settings(max_examples=examples(60))
@given(texts)
def test_what_is_kept_matches_the_definition(data: bytes) -> None:
    """A second, simple reading of the rules over the whole text agrees line by line."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    states = [([state for state in line.split(b"\r") if state] or [b""])[-1] for line in lines]
    dropped = max(0, len(states) - HEAD_LINES - TAIL_LINES)
    texts = [state.decode(errors="replace") for state in states]
    redacted = Redactor().text("\n".join(texts)).split("\n") if texts else []
    kept = [*zip(states, redacted, strict=True)]
    kept = kept[:HEAD_LINES] + kept[HEAD_LINES:][dropped:]
    shown = capture(data).text.split("\n") if states else []
    if dropped:
        assert shown.pop(HEAD_LINES) == f"...truncated {dropped} lines..."
    assert len(shown) == len(kept)
    for text, (state, expected) in zip(shown, kept, strict=True):
        if len(state) <= MAX_LINE_BYTES:
            assert text == expected
