"""Rules of which each value seems random: where names are dense, they are tried only near such a value."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import pytest

from benchmarks.almost_secrets import ALMOST
from tellback.redaction import redact_text, values
from tellback.redaction.alternations import written_out
from tellback.redaction.forms import RANDOM as FORMS
from tellback.redaction.layouts import RANDOM as LAYOUTS
from tellback.redaction.random_values import near_random
from tellback.redaction.token_runs import Window
from tellback.redaction.values import AT_END, DOUBT, MOST_JUDGED, AnchoredRule, seems_random

_PARSER: Any = import_module("re._parser")
VALUE = "kX7dQ2mZ9vR4tW6b"
NAMES = "test auth::token::tests::secret_key_1_is_read ... ok\n"
LINES = (
    f"rotate the token ({VALUE})",
    f"app | secret → `{VALUE}`",
    f"the signing key of all workers, in use from now on:\n    {VALUE}",
    "token" + "".join(f"{': ' * 25}{word}" for word in ("is", "now", "set", "to", "this", "")) + VALUE,
)


@pytest.mark.parametrize(
    "rule", [pytest.param(rule, id=f"{rule.anchor}-{at}") for at, rule in enumerate((*FORMS, *LAYOUTS))]
)
def test_what_is_searched_near_random_values_needs_one(rule: AnchoredRule) -> None:
    """No match of such a rule lacks a value that has to seem random (A-475)."""
    assert _has_doubt(_PARSER.parse(written_out(rule.guard + rule.rest).replace(AT_END, "")))


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("offset", range(0, 1_400, 100))
def test_a_random_value_among_many_names_is_hidden(line: str, offset: int) -> None:
    """Wherever it stands in a long text that is full of names, and 280 characters behind its own too (A-475)."""
    before = NAMES * 100 + "#" * (offset % 60) + "\n" + NAMES * (offset // 60)
    shown = redact_text(f"{before}{line}\n{NAMES * 100}")
    assert VALUE not in shown
    assert shown.startswith(before)
    assert shown.endswith(f"\n{NAMES * 100}")


def test_names_alone_are_near_no_random_value() -> None:
    """Then the rules of random values are not tried at all (A-475)."""
    for text in (NAMES, ALMOST["sentences with numbers"], "the_name_of_the_token_"):
        assert parts(text * 400) == []


@pytest.mark.parametrize("sign", ["=", "/", "\u20ac"])
def test_a_random_value_in_a_long_run_is_seen(sign: str) -> None:
    """However far from the beginning of its run (A-475)."""
    runs = [f"{NAMES * 300}{'_' * length}{sign}" for length in range(1, 400)]
    assert not any(map(parts, runs))
    assert all(parts(f"{run}{VALUE}\n{NAMES * 30}") for run in runs)


def test_many_different_words_count_as_random() -> None:
    """To judge them would take longer than to try the rules (A-475)."""
    words = "".join(f"name_of_a_token_{at}\n" for at in range(2_000))
    ((_, end),) = parts(words)
    assert end == len(words)


def test_what_was_judged_is_known_by_its_hash_and_forgotten_again() -> None:
    """No value that a text held stays in the process, and however many there were, 4,096 judgements do (A-476)."""
    for number in range(2 * MOST_JUDGED + 9):
        assert seems_random(f"{VALUE}{number}", 0)
        assert not seems_random(f"a_name_{number}", 0)
    kept: dict[Any, bool] = vars(values)["_judged"]
    assert 0 < len(kept) <= MOST_JUDGED
    assert {type(key) for key in kept} == {int}


def parts(text: str) -> list[Window]:
    return near_random(text, [(0, len(text))], len(text))


def _has_doubt(items: Iterable[tuple[object, Any]]) -> bool:
    """Return whether each text that these parts of a pattern match has the start of a doubtful value."""
    for operator, argument in items:
        name = str(operator)
        if name == "LITERAL":
            found = chr(argument) == DOUBT
        elif name == "BRANCH":
            found = all(map(_has_doubt, argument[1]))
        elif name in {"SUBPATTERN", "ATOMIC_GROUP"} or (name.endswith("REPEAT") and argument[0]):
            found = _has_doubt(argument if name == "ATOMIC_GROUP" else argument[-1])
        else:
            found = False
        if found:
            return True
    return False
