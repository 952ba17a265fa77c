"""Rules that need a digit: in a long text they are tried only where one is near."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import pytest

from tellback.redaction import redact_text
from tellback.redaction.alternations import written_out
from tellback.redaction.rules import NEAR_DIGITS, all_scans
from tellback.redaction.token_runs import BEFORE_DIGIT
from tellback.redaction.values import AT_END, DOUBT, AnchoredRule, in_tables

_PARSER: Any = import_module("re._parser")
WITHOUT_DIGITS = "for the password of a user, ask the team; the token and the key are kept apart\n" * 100


@pytest.mark.parametrize("rule", [pytest.param(rule, id=f"{rule.anchor}-{at}") for at, rule in enumerate(NEAR_DIGITS)])
def test_what_is_searched_near_digits_needs_one(rule: AnchoredRule) -> None:
    """No match of such a rule lacks a digit soon after its first character (A-450).

    Only a sentence with five addresses between the name and its value may have it later.
    """
    pattern = written_out(rule.guard + rule.rest).replace(DOUBT, "").replace(AT_END, "").replace("){0,5}+", ")?+")
    assert 0 <= _latest_digit(_PARSER.parse(pattern)) <= BEFORE_DIGIT - len(rule.anchor)


@pytest.mark.parametrize(
    "line",
    [
        'set password "tango7-falcon"',
        "The password for the primary server of the reporting team is kX7dQ2mZ9v",
        "db password (primary): kX7dQ2mZ9v",
        "client_secret | kX7dQ2mZ9vR4tW6b",
        "secret_key = { 12, 250, 33, 41, 7, 99, 180, 201, 17 }",
    ],
)
def test_a_secret_far_from_all_other_digits_is_hidden(line: str) -> None:
    """A long text without digits hides as much as a short one (A-450)."""
    long = redact_text(f"{WITHOUT_DIGITS}{line}\n{WITHOUT_DIGITS}")
    assert long == f"{WITHOUT_DIGITS}{redact_text(line)}\n{WITHOUT_DIGITS}"
    assert "[redacted: " in long


def test_texts_that_are_searched_for_as_bytes_are_ascii() -> None:
    """Others have another place in the bytes that are searched (A-450)."""
    scans = all_scans()
    assert [anchor for anchor in (*scans.plain, *scans.folded) if not anchor.isascii()] == []


def _latest_digit(items: Iterable[tuple[object, Any]]) -> int:
    """Return how many characters the first digit of a match may take to come, or -1 if it may have none."""
    before, found = 0, list[int]()
    for operator, argument in items:
        name = str(operator)
        least = -1
        if name == "LITERAL" and chr(argument).isdecimal():
            least = 1
        elif name == "IN":
            least = 1 if all(_is_digit(member) for member in argument) else -1
        elif name == "BRANCH":
            parts = [_latest_digit(part) for part in argument[1]]
            least = -1 if -1 in parts else max(parts)
        elif name in {"SUBPATTERN", "ATOMIC_GROUP"} or (name == "ASSERT" and argument[0] == 1):
            least = _latest_digit(argument if name == "ATOMIC_GROUP" else argument[-1])
        elif name.endswith("REPEAT") and argument[0]:
            least = _latest_digit(argument[2])
        if least >= 0:
            found.append(before + least)
        before += _PARSER.SubPattern(_PARSER.State(), [(operator, argument)]).getwidth()[1]
    return min(found, default=-1)


def _is_digit(member: tuple[object, Any]) -> bool:
    first, last = member[1] if str(member[0]) == "RANGE" else (member[1], member[1])
    return str(member[0]) in {"RANGE", "LITERAL"} and chr(first).isdecimal() and chr(last).isdecimal()


@pytest.mark.parametrize(
    "written", [r"\w", r"\d", r"\s", r"\S", r"[\w.-]", r"[^\s\"']", r"[^\d\w]", r"[\]\\w]", r"[^\\s]"]
)
def test_a_class_that_is_searched_in_tables_matches_the_same_characters(written: str) -> None:
    """A backslash before a letter is one in itself (A-61)."""
    characters = "".join(map(chr, range(0x3100)))
    assert re.sub(in_tables(written), "", characters) == re.sub(written, "", characters)
