"""A follower's view of a command's output: what the record shows, and all of it, within bounds."""

from __future__ import annotations

import random
import tracemalloc
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tellback.commands.follow import BURST, HEAD_BYTES, LINE_COST, MAX_PENDING, REFILL_RATE, FollowTap, OutputChunk
from tellback.commands.truncation import MAX_LINE_BYTES, OutputLine, StreamTruncator
from tellback.redaction import Redactor, find_secret, marker
from tellback.redaction.private_keys import RULE as PRIVATE_KEY
from tests.support.examples import examples
from tests.support.secrets import secrets

SECRET = "correct-horse-9"
REDACTOR = Redactor({"DEPLOY_KEY": SECRET})
HIDDEN = "[redacted: private-key]"
BODY = b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n"
LAST = b"c2hvcnQ=\n"
BEGUN = b"-----BEGIN PRIV" + b"ATE KEY-----\n"
ENDED = b"-----END PRIV" + b"ATE KEY-----\n"


class PrintingCommand:
    """A command that prints, as the runner reads it."""

    def __init__(self) -> None:
        self.tap = FollowTap(REDACTOR)
        self.streams = (StreamTruncator(REDACTOR), StreamTruncator(REDACTOR))
        self.seen: list[OutputChunk] = []

    def prints(self, chunk: bytes, number: int = 0) -> None:
        self.tap.take_chunk(number, chunk, self.streams[number])
        self.streams[number].feed(chunk)

    def read(self, *, final: bool = False) -> str:
        """Return what was not seen before."""
        pieces = self.tap.pieces(final=final)
        self.seen += pieces
        return "".join(piece.text for piece in pieces)

    def shown(self, stream: str = "stdout") -> str:
        return "".join(piece.text for piece in self.seen if piece.stream == stream)

    def accounted(self) -> int:
        """Bytes that are shown or said to be dropped."""
        return sum(piece.raw + piece.dropped for piece in self.seen) + self.tap.dropped


@cache
def leaks() -> list[bytes]:
    return [line.encode() for _, line in secrets(seed=41, each=1) if find_secret(line)]


def whole(data: bytes) -> str:
    """A second, simple reading of what is to be seen: every line as a record shows it."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    states: list[OutputLine] = []
    for line in lines:
        states.append(OutputLine())
        states[-1].extend(([state for state in line.split(b"\r") if state] or [b""])[-1])
    hidden = REDACTOR.hidden_together([state.text() for state in states])
    in_keys = REDACTOR.hidden_lines("\n".join(state.key_text() for state in states))
    hidden |= {number: rule for number, rule in in_keys.items() if rule == PRIVATE_KEY}
    rules = [hidden.get(number) for number in range(len(states))]
    return "".join(
        f"{marker(rule) if rule else state.display_text()}\n" for state, rule in zip(states, rules, strict=True)
    )


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    borders = sorted({0, len(data), *(at % (len(data) + 1) for at in cuts)})
    return [data[start:end] for start, end in pairwise(borders)]


# No name here ends a line above a short value: the whole text hides some of those for a long value further below, which
# a stream has not got yet.
texts: st.SearchStrategy[bytes] = st.deferred(
    lambda: st.lists(st.sampled_from(
        [
            *(b"\n", b"\n\n\n", b"\r", b"a", b"done\n", b"b" * 1500),
            *("🐢".encode(), b"\xff\xe2\x82", b"password=x", b"Bearer "),
            *(BEGUN, BODY, BODY * 3, LAST, ENDED, BEGUN + BODY + ENDED, BODY * 2 + LAST + ENDED, LAST + ENDED),
            *(SECRET.encode(), f"key {SECRET}\n".encode(), b"prose comes here, as it does\n", b"1%\r50%\r100%\n"),
            *(line + b"\n" for line in leaks()),
        ]
    ), max_size=80).map(b"".join)
)  # fmt: skip
cuttings = st.lists(st.integers(0, 20_000), max_size=30)


@settings(max_examples=examples(150))
@given(texts, cuttings, st.sets(st.integers(0, 30)))
@example(BODY * 2 + LAST + ENDED, [3, 70, 140, 147, 150], {0, 1, 2, 3, 4})
@example(BODY[:-1] + b"\r" + ENDED, [66, 67], {0, 1, 2})
@example(b"Bearer \n" + BODY, [], set())  # held, as it may be a part of a key; the line above has gone out by then
@example(b"Bearer \n" + BEGUN + BODY + ENDED + BODY, [], set())  # a name above a key names no line below it
@example(b"b" * 4500 + ENDED, [], set())  # beyond what is searched of a line, a key's mark counts
@example(b"- name: SHOP_TOKEN\n  type: a\n  value: a1b2C3d4E5f6g7H8\n", [20, 30], {0, 1})
@example(b"Authorized with\nZk2mX9vB4tR8" + b"wL1nPsq7Kd3fHy6c\n", [16], {0})
def test_a_follower_sees_each_line_as_the_record_would(data: bytes, cuts: list[int], reads: set[int]) -> None:
    """It does so whatever the chunks and the times of its looks; nothing redacted is seen for a moment."""
    command = PrintingCommand()
    expected = whole(data)
    for number, chunk in enumerate(cut(data, cuts)):
        command.prints(chunk)
        if number in reads:
            command.read()
            assert expected.startswith(command.shown())
    command.read(final=True)
    assert command.shown() == expected
    assert command.accounted() == len(data)


@settings(max_examples=examples(60))
@given(texts, cuttings)
def test_a_short_output_is_followed_as_it_is_recorded(data: bytes, cuts: list[int]) -> None:
    """If a record keeps the output whole, the follower shows its text."""
    command = PrintingCommand()
    for chunk in cut(data, cuts):
        command.prints(chunk)
        command.read()
    command.read(final=True)
    kept = command.streams[0].finish()
    if "...truncated" not in kept.text:
        assert command.shown() == (f"{kept.text}\n" if data else "")


def test_secrets_of_every_kind_are_not_seen() -> None:
    """Two streams interleave, in chunks of any size."""
    dice = random.Random(5)
    command = PrintingCommand()
    lines = [b"%s\n" % line for line in leaks()] * 2
    dice.shuffle(lines)
    for chunk in cut(b"".join(lines), [dice.randrange(1 << 30) for _ in range(2000)]):
        command.prints(chunk)
        command.prints(f"export TOKEN={SECRET}\n".encode(), 1)
        command.read()
    command.read(final=True)
    assert len(leaks()) > 200
    assert command.shown("stdout").count("[redacted: ") == len(lines)
    assert set(command.shown("stderr").split("\n")) == {"[redacted: secret DEPLOY_KEY]", ""}


def test_a_value_is_not_seen_whose_name_was_shown_before() -> None:
    """The name and its value come in two looks."""
    command = PrintingCommand()
    for line in (b"  - name: SHOP_TOKEN\n", b"    value: a1b2c3d4\n", b"    value: production\n"):
        command.prints(line)
        command.read()
    command.read(final=True)
    assert command.shown().split("\n")[1:] == ["[redacted: secret-assignment]", "    value: production", ""]


def test_what_may_be_a_key_is_held_until_it_is_known() -> None:
    """Of a key that is printed slowly, without its first line, nothing is seen."""
    command = PrintingCommand()
    for line in (BODY, BODY, LAST):
        command.prints(line)
        assert [command.read() for _ in range(20)] == [""] * 20, "however long the next line takes"
    command.prints(ENDED)
    assert command.read() == f"{HIDDEN}\n" * 4


def test_what_was_no_key_is_shown_then() -> None:
    """A hash is alone on its line, as a key's text is; the next line decides."""
    command = PrintingCommand()
    digest = b"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n"
    command.prints(digest)
    assert command.read() == ""
    command.prints(b"that was it, and prose follows\n")
    assert command.read() == digest.decode() + "that was it, and prose follows\n"


def test_a_single_word_is_shown_soon() -> None:
    """`ready` is not held until something else is printed, unless a key's end is about to stand below it."""
    command = PrintingCommand()
    command.prints(b"ready\n")
    assert [command.read() for _ in range(4)] == ["", "", "", "ready\n"]
    command.prints(LAST + ENDED[:12])
    assert [command.read() for _ in range(20)] == [""] * 20
    command.prints(ENDED[12:])
    assert command.read() == f"{HIDDEN}\n" * 2


def test_a_line_that_has_not_ended_is_not_shown() -> None:
    """Its next bytes may make a secret of it."""
    command = PrintingCommand()
    command.prints(b"password=")
    assert command.read() == ""
    command.prints(b"hunter2 and more\n")
    assert command.read() == "[redacted: password]\n"


def flood(lines: int) -> bytes:
    return b"".join(b"line %07d of a build that says too much\n" % number for number in range(lines))


@pytest.mark.bulk
@pytest.mark.parametrize("reads", [{0, 3}, set[int](), {7}, set(range(8))])
def test_a_flood_loses_its_middle_and_says_how_much(reads: set[int]) -> None:
    """The beginning and the end are there, and each byte is shown or counted."""
    command = PrintingCommand()
    data = flood(20_000)
    for number in range(8):
        command.prints(data if number else b"the first line\n" + data)
        if number in reads:
            command.read()
    command.prints(b"the last line\n")
    command.read(final=True)
    assert command.seen[0].text.startswith("the first line\nline 0000000 ")
    assert command.seen[-1].text.endswith("the last line\n")
    assert any(piece.dropped > len(data) // 2 for piece in command.seen[1:])
    assert command.accounted() == 8 * len(data) + 29
    assert all(
        line in {"the first line", "the last line", ""} or line.startswith("line ")
        for line in command.shown().split("\n")
    )


@pytest.mark.bulk
def test_a_key_that_begins_in_what_is_dropped_is_hidden() -> None:
    """It was dropped unseen since nobody looked, or passed over since it was too much at once."""
    for reads in ({0, 60}, {60}, set(range(61))):
        command = PrintingCommand()
        for number in range(60):
            command.prints(flood(5_000) + (BEGUN if number == 59 else b""))
            if number in reads:
                command.read()
        for _ in range(3):
            command.prints(BODY * 100)
            command.read()
        command.prints(LAST)
        assert command.read() in {f"{HIDDEN}\n", ""}
        command.prints(ENDED + b"after that, prose\n")
        command.read(final=True)
        assert "MII" not in command.shown()
        assert "c2hvcnQ" not in command.shown()
        assert command.shown().endswith(f"{HIDDEN}\nafter that, prose\n")


LONG = BODY[:-1] * 3 + b"\n"  # no line of a key unless one has begun
OF_A_KEY = b"Comment: nobody else's\n"  # likewise


@pytest.mark.parametrize(
    "chunks",
    [
        (flood(17_000), BEGUN, LONG * 1_900 + OF_A_KEY),  # the key's first line is dropped unseen
        (flood(20_000), flood(20_000) + BEGUN + LONG * 1_900 + OF_A_KEY),  # and passed over
    ],
)
def test_what_stands_behind_a_gap_is_known_to_be_within_a_key(chunks: tuple[bytes, ...]) -> None:
    """The text that was printed decides, not the part that was looked at."""
    command = PrintingCommand()
    for chunk in chunks:
        command.prints(chunk)
    command.read()
    command.prints(OF_A_KEY + b"and prose follows\n")
    command.read(final=True)
    assert "nobody" not in command.shown()
    assert "MII" not in command.shown()
    assert command.shown().endswith(f"{HIDDEN}\nand prose follows\n")
    assert command.accounted() == sum(map(len, chunks)) + len(OF_A_KEY) + 18


VALUE = "Zk2mX9vB4tR8" + "wL1nPsq7Kd3fHy6c"
NAMED = b"Authorized with\n" + VALUE.encode() + b"\n"


def test_a_value_is_not_seen_whose_name_was_dropped() -> None:
    """The name was dropped unseen."""
    command = PrintingCommand()
    name, value = NAMED.splitlines(keepends=True)
    command.prints(b"first\n" + b"x\n" * (MAX_PENDING // 2 - 500) + name)
    command.prints(value + b"prose\n" * 200)
    command.read(final=True)
    assert command.shown().count("[redacted: ") == 1
    assert VALUE not in command.shown()


def test_a_value_is_not_seen_whose_name_was_passed_over() -> None:
    """Wherever the part ends that was too much at once."""
    for shift in range(2):
        command = PrintingCommand()
        for _ in range(BURST // MAX_PENDING):
            command.prints(b"x" * MAX_PENDING)
            command.read()
        command.prints(b"\n" * (1 + shift) + NAMED * (2 * REFILL_RATE // len(NAMED)))
        command.read(final=True)
        assert any(piece.dropped for piece in command.seen)
        assert command.shown().count("[redacted: ") > 100
        assert VALUE not in command.shown()


def test_the_rest_of_a_key_whose_other_lines_were_dropped_is_held() -> None:
    """Lines without a first one come, then a gap, then the key's short last line, which is not taken for a word."""
    command = PrintingCommand()
    command.prints(b"prose\n" + BODY * 3)
    command.read()
    for _ in range(3):  # what comes in between is no key, and is dropped with what was held
        command.prints(b"x" * MAX_PENDING + b"\n" + BODY)
    command.prints(LAST)
    assert "".join(command.read() for _ in range(20)).count("c2hvcnQ") == 0
    command.prints(ENDED)
    command.read(final=True)
    assert "MII" not in command.shown()
    assert "c2hvcnQ" not in command.shown()


@pytest.mark.bulk
@pytest.mark.parametrize(
    "chunk", [b"line\n" * 13_000, b"x" * 65_536, b"50%\r" * 16_000, BODY * 1_000, b"\n" * 65_536, b"y\n"]
)
def test_memory_is_bounded_while_nobody_reads(chunk: bytes) -> None:
    """Redis may be away for as long as the command runs."""
    command = PrintingCommand()
    command.prints(chunk)
    tracemalloc.start()
    for _ in range((16 << 20) // max(1024, len(chunk))):
        command.prints(chunk)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 << 20


@pytest.mark.slow
def test_the_work_of_a_read_is_bounded() -> None:
    """Beside a flood there is no more to do than for a few megabytes."""
    command = PrintingCommand()
    for _ in range(20):
        command.prints(b"y\n" * (MAX_PENDING // 2))
        command.read()
    assert len(command.shown()) // 2 * (2 + LINE_COST) < BURST + 20 * REFILL_RATE + HEAD_BYTES * (2 + LINE_COST)


def test_lines_longer_than_a_record_shows_are_cut_alike() -> None:
    """A line may be longer than what may be worked on at once."""
    command = PrintingCommand()
    for _ in range(5):
        command.prints(b"x" * MAX_PENDING)
        command.read()
    command.prints(b"\nend\n")
    command.read(final=True)
    assert command.shown().startswith("x" * MAX_LINE_BYTES + "...truncated ")
    assert command.shown().endswith(" bytes...\nend\n")
    assert command.accounted() == 5 * MAX_PENDING + 5
