"""Shares of secrets that are hidden in sets of places, each written before its writer had read a rule.

The misses of one half of a set were read while the rules were changed for it; of the other, only totals were.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tellback.redaction import redact_text
from tests.support.secret_places import (
    CONSOLES_APART,
    FORMATS_APART,
    PRINTS_APART,
    PROGRAMS_APART,
    rates_of_hidden,
    touched_lookalikes,
)


class Floors(NamedTuple):
    """The least share of each class in the half that was looked at and in the other, and the most look-alikes."""

    rates: Mapping[str, tuple[float, float]]
    touched: int


# `other` are texts with a form of value of their own. Replaced look-alikes are placeholders that a fixed pattern
# matches, ids of clients, a sealed secret, and few others.
SETS: Final = {
    CONSOLES_APART: Floors(
        {"token": (0.99, 0.96), "password": (0.96, 0.9), "phrase": (0.95, 0.88), "other": (0.95, 0.85)}, touched=26
    ),
    PRINTS_APART: Floors(
        {"token": (0.97, 0.97), "password": (0.95, 0.92), "phrase": (0.95, 0.91), "other": (0.95, 0.95)}, touched=16
    ),
    PROGRAMS_APART: Floors(
        {"token": (0.95, 0.92), "password": (0.93, 0.87), "phrase": (0.91, 0.85), "other": (0.95, 0.81)}, touched=29
    ),
    # Its halves are of forms, so both of these have forms that were looked at.
    FORMATS_APART: Floors(
        {"token": (0.97, 0.97), "password": (0.95, 0.95), "phrase": (0.95, 0.95), "other": (0.95, 0.95)}, touched=0
    ),
}
EACH_SET: Final = pytest.mark.parametrize(("corpus", "floors"), SETS.items(), ids=[corpus.name for corpus in SETS])


# 24,000 samples each.
@pytest.mark.slow
@EACH_SET
def test_of_a_set_of_places_nearly_all_are_hidden(corpus: Path, floors: Floors) -> None:
    """At least these shares are hidden, in places that no rule was made for too (A-427, A-430, A-436, A-470)."""
    rates = rates_of_hidden(redact_text, corpus=corpus)
    assert rates.keys() == {(of_class, half) for of_class in floors.rates for half in (True, False)}
    least = {(of_class, half): floors.rates[of_class][not half] for of_class, half in rates}
    assert {each: (rate, least[each]) for each, rate in rates.items() if rate < least[each]} == {}


@pytest.mark.bulk
@EACH_SET
def test_lookalikes_stay(corpus: Path, floors: Floors) -> None:
    """Texts that only resemble secrets are not replaced (A-427, A-430, A-436, A-470)."""
    assert len(touched_lookalikes(redact_text, corpus=corpus)) <= floors.touched
